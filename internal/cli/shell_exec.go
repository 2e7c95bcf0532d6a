package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// accounts are the prefixes of variables that choose an account together.
var accounts = []string{"AWS_", "GOOGLE_", "CLOUDSDK_", "ARM_", "AZURE_"}

// withoutOther returns the names of inherited variables without those of a cloud for which
// the workspace has variables: a session or a profile of the user would change its account.
func withoutOther(names []string, env map[string]string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(accounts, func(prefix string) bool {
			return strings.HasPrefix(name, prefix) && slices.ContainsFunc(slices.Collect(maps.Keys(env)), func(own string) bool { return strings.HasPrefix(own, prefix) })
		})
	})
}

// exec runs the command of the arguments, or the user's shell if there is none, and returns its
// exit code as an error. A signal that ends captctl ends the command, whose state is saved then.
func (s *shellCall) exec(ctx context.Context, session *command.Session, request *terraform.Request, id string) error {
	args, stop := s.args[1:], syscall.SIGTERM
	if len(args) == 0 {
		args, stop = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}, syscall.SIGHUP
		fmt.Fprintf(s.Err, "The state of %s is locked by %s, and runs wait until you exit.\n", request.Workspace.Name, id)
	}
	env, tool, err := session.ShellEnvironment(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%s is %s (%s)\n", tool.Program(), tool, session.ToolPath())
	env = append(env, "CAPT_SHELL="+id, "CAPT_WORKSPACE="+request.Workspace.Namespace+"/"+request.Workspace.Name)
	path, err := lookPath(args[0], env)
	if err != nil {
		return &Exit{Code: 127, Err: err}
	}
	child := &exec.Cmd{Path: path, Args: args, Dir: session.Root, Env: env, Stdin: s.In, Stdout: text.Raw(s.Out), Stderr: text.Raw(s.Err)}
	// The terminal sends an interrupt to the command as well.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		done := ctx.Done()
		if text.IsTerminal(s.In) {
			done = nil
		}
		select {
		case <-ended:
			return
		case <-hangup:
		case <-done:
		}
		_ = child.Process.Signal(stop)
	}()
	err = child.Wait()
	close(ended)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &Exit{Code: max(exit.ExitCode(), 1)}
	}
	return err
}

// lookPath finds a program in the PATH of an environment.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, entry := range env {
		path, found := strings.CutPrefix(entry, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if program, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return program, nil
			}
		}
	}
	return "", fmt.Errorf("%s was not found in PATH", name)
}
