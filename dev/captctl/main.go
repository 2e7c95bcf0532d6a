// Command captctl builds captctl for users' machines and packs it:
//
//	captctl [-root DIR] [-out DIR] [-platforms linux/amd64,…]
//
// The same commit, built with the same version of Go, results in the same archives, byte
// for byte.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/appthrust/capt/dev/gobuild"
	"github.com/appthrust/capt/dev/revision"
)

// platformsOf returns the platforms of a version: all of a release, this machine's of a
// development version.
func platformsOf(version string) string {
	if strings.HasSuffix(version, "-dev") {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return "linux/amd64,linux/arm64,linux/s390x,linux/ppc64le,darwin/amd64,darwin/arm64"
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "captctl:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("captctl", flag.ContinueOnError)
	root := flags.String("root", "..", "directory of the repository")
	out := flags.String("out", "../dist", "directory of the archives")
	platforms := flags.String("platforms", "", "platforms, separated by commas; default is all for a release, and this machine's otherwise")
	if err := flags.Parse(args); err != nil {
		return err
	}
	source, err := revision.ReadSource(ctx, *root)
	if err != nil {
		return err
	}
	if err := gobuild.CheckPage(*root, source.Version, os.Stderr); err != nil {
		return err
	}
	if *platforms == "" {
		*platforms = platformsOf(source.Version)
	}
	licence, err := os.ReadFile(filepath.Join(*root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("reading the licence: %w", err)
	}
	work, err := os.MkdirTemp("", "captctl-*")
	if err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("creating the directory: %w", err)
	}
	for platform := range strings.SplitSeq(*platforms, ",") {
		goos, goarch, found := strings.Cut(platform, "/")
		if !found {
			return fmt.Errorf("platform %q is not of the form OS/ARCHITECTURE", platform)
		}
		program := filepath.Join(work, goos, goarch, "captctl")
		if err := gobuild.Program(ctx, *root, source, goos, goarch, "captctl", program); err != nil {
			return err
		}
		path := filepath.Join(*out, fmt.Sprintf("captctl_%s_%s.tar.gz", goos, goarch))
		if err := writeArchive(path, program, licence, source.Time); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}

// links are the names by which kubectl calls captctl as a plugin.
var links = []string{"kubectl-capt", "kubectl_complete-capt"}

// writeArchive packs a program atomically.
func writeArchive(path, program string, licence []byte, at time.Time) error {
	partial, err := os.Create(path + ".partial")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(partial.Name()) }()
	z := gzip.NewWriter(partial)
	if err := errors.Join(pack(z, program, licence, at), z.Close(), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), path)
}

func pack(w io.Writer, program string, licence []byte, at time.Time) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{{"LICENSE", 0o644, licence}, {"captctl", 0o755, content}} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.content); err != nil {
			return err
		}
	}
	for _, name := range links {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: "captctl", Mode: 0o777, ModTime: at, Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	return archive.Close()
}
