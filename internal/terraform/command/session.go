package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/host/sandbox"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/events"
	"github.com/appthrust/capt/internal/terraform/served"
)

// Session runs commands in a prepared working directory. Its methods block until
// the command has ended; cancelling the context stops it gracefully. They return a
// *Failure if the command ran and failed. A session is not safe for concurrent
// use.
type Session struct {
	executor
	// Content is the fetched content of the module, or nil if nothing was fetched.
	Content *terraform.ModuleContent

	backend terraform.Backend
	// initRan is set if an init was necessary.
	initRan bool
	// ownLock is set if the dependency lock file is a part of the module.
	ownLock bool
	// noLock is set if commands do not lock the state.
	noLock bool
	// providers is the directory with installed providers.
	providers string
	// reinit initialises the directory if a command reports that it is outdated.
	reinit func(ctx context.Context, backend bool) error
}

// executor runs the tool in a working directory, and reads what it prints.
type executor struct {
	workingDir
	// LockLeft is set if a command succeeded and could not release the lock of the backend.
	LockLeft bool

	tool *binary.Tool
	// used is the tool that commands ran, as far as they printed it.
	used  terraform.Tool
	env   []string
	grace time.Duration
	log   *runLog
	// short are the secrets that the log does not mask.
	short   []string
	onEvent func(events.Event)
	// auth are the credentials for fetching modules.
	auth []terraform.ModuleAuth
	// plugins is the shared plugin cache.
	plugins string
	// sandbox limits what the tool can do, or is nil.
	sandbox *sandbox.Rules
	// served are the providers that plans share, or nil.
	served *served.Providers
}

// workingDir has the files that commands use.
type workingDir struct {
	// Root is the directory of the root module, in which commands run.
	Root string
	// RunDir contains the files of the run: event streams and plans.
	RunDir string
}

// dir returns the working directory. A module can replace everything in it.
func (s *workingDir) dir() string {
	if s.RunDir == "" {
		return s.Root
	}
	return filepath.Dir(s.RunDir)
}

// ReadState returns the content of the state file of the Kubernetes backend. The error is
// os.ErrNotExist if there is none.
func (s *workingDir) ReadState() ([]byte, error) { return readInside(s.dir(), s.StateFile()) }

// output is the parsed output of a command.
type output struct {
	exit
	diagnostics terraform.Diagnostics
	// text contains the lines that are not events.
	text string
	// stopping is set if the tool says that it was interrupted.
	stopping bool
}

const longestText = 64 << 10

// stream runs a subcommand and calls handle with each of its events when it occurs.
// The output is written to files that start with name. Reserve is the space for it.
func (s *executor) stream(ctx context.Context, name string, reserve int64, args []string, handle func(events.Event)) (output, error) {
	stdout, err := s.create(name + ".jsonl")
	if err != nil {
		return output{}, err
	}
	defer func() { _ = stdout.Close() }()
	if reserve > 0 {
		if err := host.Reserve(stdout, reserve); err != nil {
			return output{}, err
		}
	}
	stderr, err := s.create(name + ".err")
	if err != nil {
		return output{}, err
	}
	defer func() { _ = stderr.Close() }()

	env := s.toolEnv(args)
	if len(s.auth) > 0 && fetches(args) {
		authenticated, remove, err := s.authenticate()
		defer remove()
		if err != nil {
			return output{}, err
		}
		env = authenticated
	}
	result := output{}
	out := &events.Follower{File: stdout, Line: func(line []byte) { s.handleLine(&result, line, handle) }}
	errs := &events.Follower{File: stderr, Line: func(line []byte) { s.handleLine(&result, line, handle) }}
	connection := s.served.Connect(ctx, args, env)
	defer connection.Close()
	process := call{
		path: s.tool.Path, args: args, dir: s.Root, env: append(slices.Clip(env), connection.Env...), files: connection.Files, onStart: connection.Allow,
		grace: s.grace, sandbox: s.sandboxFor(args),
		stdout: stdout, stderr: stderr, interrupted: func() bool { return result.stopping },
		poll: func(ended bool) { out.Poll(ended); errs.Poll(ended) },
	}
	result.exit, err = process.run(ctx)
	if err != nil {
		return output{}, err
	}
	if len(result.diagnostics.Errors()) == 0 {
		result.diagnostics = append(result.diagnostics, events.ParseText(result.text)...)
	}
	result.diagnostics = s.log.redactAll(result.diagnostics)
	return result, nil
}

func (s *workingDir) create(name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(s.RunDir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", name, err)
	}
	return file, nil
}

// handleLine logs a line and adds it to the result.
func (s *executor) handleLine(result *output, line []byte, handle func(events.Event)) {
	result.stopping = result.stopping || bytes.Contains(line, []byte(binary.InterruptReceived))
	event, ok := events.Parse(line)
	if !ok {
		text := string(line)
		if bytes.HasPrefix(line, []byte(`{"@`)) {
			// It may be a part of a state.
			text = "An event of the tool is incomplete"
		}
		s.log.print(time.Time{}, text)
		if len(result.text) < longestText {
			result.text += text + "\n"
		}
		return
	}
	s.log.event(event)
	switch {
	case event.Type == events.TypeDiagnostic && event.Diagnostic != nil:
		result.diagnostics = append(result.diagnostics, event.Diagnostic.Convert())
	case event.Type == events.TypeVersion && event.Tofu != "":
		s.used = terraform.Tool{Product: terraform.ProductOpenTofu, Version: event.Tofu}
	case event.Type == events.TypeVersion && event.Terraform != "":
		s.used = terraform.Tool{Product: terraform.ProductTerraform, Version: event.Terraform}
	}
	handle(event)
	if s.onEvent != nil {
		s.onEvent(event)
	}
}

// failure returns the error of a command. If the tool printed no diagnostic, it
// adds one with the relevant lines of the output.
func (s *executor) failure(ctx context.Context, command string, result output) *Failure {
	if len(result.diagnostics.Errors()) == 0 && !result.interrupted {
		if lines := relevantLines(s.log.redact(result.text)); lines != "" {
			result.diagnostics = append(result.diagnostics, terraform.Diagnostic{
				Severity: terraform.SeverityError,
				Summary:  fmt.Sprintf("%s %s ended with exit status %d", filepath.Base(s.tool.Path), command, result.code),
				Detail:   lines,
			})
		}
	}
	return newFailure(ctx, command, result.exit, result.diagnostics)
}

// relevantLines returns the relevant lines of text that contains no diagnostic: the
// cause of a crash, or the last lines.
func relevantLines(text string) string {
	const kept = 3
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return lines[i]
		}
	}
	return strings.Join(lines[max(len(lines)-kept, 0):], "\n")
}

// capture runs a subcommand that prints no events and returns its output. The
// output is only in unlinked files.
func (s *executor) capture(ctx context.Context, command string, args []string, stdin io.Reader) ([]byte, error) {
	stdout, err := s.captureFile(ctx, command, args, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }()
	out, err := io.ReadAll(io.NewSectionReader(stdout, 0, 1<<40))
	if err != nil {
		return nil, fmt.Errorf("reading the output of %s: %w", command, err)
	}
	return out, nil
}

// captureFile is like capture, but returns the file that has the output.
func (s *executor) captureFile(ctx context.Context, command string, args []string, stdin io.Reader) (_ *os.File, err error) {
	stdout, err := s.unnamed()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = stdout.Close()
		}
	}()
	stderr, err := s.unnamed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }()

	connection := s.served.Connect(ctx, args, s.env)
	defer connection.Close()
	process := call{
		path: s.tool.Path, args: args, dir: s.Root, env: append(slices.Clip(s.env), connection.Env...), files: connection.Files, onStart: connection.Allow,
		grace: s.grace, sandbox: s.sandboxFor(args),
		stdin: stdin, stdout: stdout, stderr: stderr, poll: func(bool) {},
	}
	ended, err := process.run(ctx)
	if err != nil {
		return nil, err
	}
	if ended.code != 0 {
		text := readAll(stderr)
		result := output{exit: ended, text: text, diagnostics: s.log.redactAll(events.ParseText(text))}
		return nil, s.failure(ctx, command, result)
	}
	s.LockLeft = s.LockLeft || lockLeft.MatchString(readAll(stderr))
	return stdout, nil
}

// unnamed returns a new file that is already unlinked.
func (s *workingDir) unnamed() (*os.File, error) {
	file, err := os.CreateTemp(s.RunDir, "output-")
	if err != nil {
		return nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("unlinking a temporary file: %w", err)
	}
	return file, nil
}

func readAll(file *os.File) string {
	text, _ := io.ReadAll(io.NewSectionReader(file, 0, longestText))
	return string(text)
}

// lockArgs returns the arguments for locking. The engine locks a Kubernetes state
// before the first command. The tool locks all other states.
func (s *Session) lockArgs() []string {
	if s.noLock || s.backend.Type == terraform.BackendKubernetes {
		return []string{"-lock=false"}
	}
	return []string{"-lock-timeout=0s"}
}

// ServeProviders lets the following plans share the processes of their providers, until
// StopProviders or an apply.
func (s *executor) ServeProviders(ctx context.Context) {
	s.StopProviders()
	if s.used.Product != terraform.ProductOpenTofu {
		return
	}
	args := []string{"plan"}
	s.served = served.Start(ctx, served.Module{
		Dir: s.dir(), Root: s.Root, RunDir: s.RunDir, LockFile: s.LockFile, Env: s.toolEnv(args), Sandbox: s.sandboxFor(args),
		Log: func(message string) { s.log.print(time.Time{}, message) },
	})
}

// StopProviders stops the providers that ServeProviders has started, if any.
func (s *executor) StopProviders() { s.served.Stop() }

// reading runs a command that changes nothing, and once more with providers that the tool starts,
// if it may have failed because of one that it has not started. So the errors are those that the
// user knows, such as the stack of a provider that crashed.
func (s *Session) reading(ctx context.Context, run func() error) error {
	err := s.ready(ctx, run)
	failure := AsFailure(err)
	if failure == nil || failure.Interrupted || !s.served.Failed(failure.Diagnostics) {
		return err
	}
	s.log.print(time.Time{}, "Running the command once more: a provider that serves several commands failed")
	s.StopProviders()
	return s.ready(ctx, run)
}

// ready runs a command. If the command fails because the directory is outdated, it
// runs an init and then the command once more. Such a failure has no side effects.
func (s *Session) ready(ctx context.Context, run func() error) error {
	err := run()
	failure := AsFailure(err)
	if failure == nil || !failure.needsInit || s.reinit == nil || failure.Interrupted {
		return err
	}
	reinit := s.reinit
	s.reinit = nil
	// An init may select other versions of them.
	s.StopProviders()
	s.log.print(time.Time{}, "The working directory is outdated, initialising it")
	if err := reinit(ctx, failure.needsBackend); err != nil {
		return err
	}
	s.initRan = true
	return run()
}
