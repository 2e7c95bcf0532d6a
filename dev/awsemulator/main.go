// Command awsemulator is a fake of AWS for the real AWS provider of Terraform. With it,
// modules can be applied, changed and destroyed without a cloud.
//
// moto implements every service except EKS. Its server runs as a child process and is
// installed in a virtual environment in the cache directory first. This program
// implements EKS, because moto has no add-ons, access entries, Pod Identity, updates
// and upgrades of clusters. All objects are in memory.
//
//	awsemulator [-log FILE] [-attached] [-cluster-endpoint URL -cluster-ca FILE]
//	            [COMMAND ARGUMENT...]
//	awsemulator -install
//
// When it is ready, it prints "ready URL" on a line. With a command, it runs the command
// with the URL in AWS_ENDPOINT_URL instead, and ends with it. GET /emulator/objects returns the
// names of all EKS objects.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "awsemulator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("awsemulator", flag.ContinueOnError)
	install := flags.Bool("install", false, "install moto in the cache and do no more")
	attached := flags.Bool("attached", false, "end when the standard input does, so that it does not outlive a test that is killed")
	logFile := flags.String("log", "", "file for the output of moto and the calls of EKS (default: none)")
	endpoint := flags.String("cluster-endpoint", "", "API server that every EKS cluster has (default: one that does not exist)")
	caFile := flags.String("cluster-ca", "", "file with that API server's certificate authority, in PEM")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ca, err := certificateAuthority(*caFile)
	if err != nil {
		return err
	}
	log, err := openLog(*logFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	program, err := installMoto(ctx)
	if err != nil || *install {
		return err
	}
	if *attached {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
	}
	moto, err := startMoto(ctx, program, log)
	if err != nil {
		return err
	}
	defer moto.stop()
	eks := newEKS(moto.address)
	eks.endpoint, eks.ca = *endpoint, ca
	ready := func(url string) { fmt.Fprintf(out, "ready %s\n", url) }
	var commandErr error
	if command := flags.Args(); len(command) > 0 {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		ready = func(url string) {
			commandErr = runCommand(ctx, command, url)
			end()
		}
	}
	handler := newServer(moto.address, eks, log) //nolint:contextcheck // Each request has its own context.
	err = serve(ctx, handler, moto.exited, ready)
	return errors.Join(err, commandErr)
}

// stopTimeout is how long a command may take to exit after an interrupt.
const stopTimeout = 3 * time.Minute

// runCommand runs a command with the address of the emulator.
func runCommand(ctx context.Context, command []string, url string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The command may have to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return nil
}

// serve serves requests until the context is cancelled or moto exits.
func serve(ctx context.Context, handler http.Handler, ended <-chan error, ready func(url string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	ready("http://" + listener.Addr().String())
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-ended:
		return errors.Join(fmt.Errorf("moto exited: %w", err), server.Close())
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	}
}

func certificateAuthority(file string) (string, error) {
	text := []byte("no certificate authority")
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return "", fmt.Errorf("reading the certificate authority: %w", err)
		}
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

func openLog(file string) (*os.File, error) {
	if file == "" {
		file = os.DevNull
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return log, nil
}

func mustParse(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}
