package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// Session runs commands in one prepared working directory. Its methods block
// until the command has ended; cancel the context to stop one gracefully. They
// return a *Failure when the command ran and failed. A session is used by one
// goroutine at a time.
type Session struct {
	// Root is the directory of the root module; commands run in it.
	Root string
	// RunDir holds the files of the run: event streams and plans.
	RunDir string
	// InitRan is set when an init was needed, and InitReason says why.
	InitRan    bool
	InitReason string

	tool    *Tool
	product Product
	env     []string
	grace   time.Duration
	log     *runLog
	onEvent func(Event)
	lock    bool
	backend terraform.Backend
	// plugins is the shared plugin cache.
	plugins string
	// reinit makes the directory work when a command says that it does not.
	reinit func(ctx context.Context, backend bool) error
}

// said is what a command printed.
type said struct {
	exit
	diagnostics terraform.Diagnostics
	// text is what was no event.
	text string
	// state is a state that the tool had nowhere to save.
	state []byte
}

const longestText = 64 << 10

// stream runs a subcommand, reads its events as they come and hands each to
// handle. The name is for the files that keep what it prints.
func (s *Session) stream(ctx context.Context, name string, args []string, handle func(Event)) (said, error) {
	stdout, err := s.create(name + ".jsonl")
	if err != nil {
		return said{}, err
	}
	defer func() { _ = stdout.Close() }()
	stderr, err := s.create(name + ".err")
	if err != nil {
		return said{}, err
	}
	defer func() { _ = stderr.Close() }()

	heard := said{}
	out := &follower{file: stdout, line: func(line []byte) { s.hear(&heard, line, handle) }}
	errs := &follower{file: stderr, line: func(line []byte) { s.hear(&heard, line, handle) }}
	heard.exit, err = call{
		path: s.tool.Path, args: args, dir: s.Root, env: s.env, grace: s.grace,
		stdout: stdout, stderr: stderr,
		poll: func(ended bool) { out.poll(ended); errs.poll(ended) },
	}.run(ctx)
	if err != nil {
		return said{}, err
	}
	if len(heard.diagnostics.Errors()) == 0 {
		heard.diagnostics = append(heard.diagnostics, parseText(heard.text)...)
	}
	heard.diagnostics = s.log.hideAll(heard.diagnostics)
	return heard, nil
}

func (s *Session) create(name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(s.RunDir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", name, err)
	}
	return file, nil
}

// hear takes in one line.
func (s *Session) hear(heard *said, line []byte, handle func(Event)) {
	event, ok := parseEvent(line)
	if !ok {
		text := string(line)
		s.log.print(time.Time{}, text)
		if len(heard.text) < longestText {
			heard.text += text + "\n"
		}
		return
	}
	s.log.event(event)
	switch {
	case event.Type == eventDiagnostic && event.Diagnostic != nil:
		heard.diagnostics = append(heard.diagnostics, event.Diagnostic.diagnostic())
	case event.Type == eventLog && len(event.State) > 0:
		heard.state = event.State
	case event.Type == eventVersion && event.Tofu != "":
		s.product = OpenTofu
	case event.Type == eventVersion && event.Terraform != "":
		s.product = Terraform
	}
	handle(event)
	if s.onEvent != nil {
		s.onEvent(event)
	}
}

// failure makes the error of a command, and gives it something to say when the
// tool printed no diagnostic.
func (s *Session) failure(ctx context.Context, command string, heard said) *Failure {
	if len(heard.diagnostics.Errors()) == 0 && !heard.interrupted {
		if last := gist(s.log.hide(heard.text)); last != "" {
			heard.diagnostics = append(heard.diagnostics, terraform.Diagnostic{
				Severity: terraform.SeverityError,
				Summary:  fmt.Sprintf("%s %s ended with exit status %d", filepath.Base(s.tool.Path), command, heard.code),
				Detail:   last,
			})
		}
	}
	failure := newFailure(ctx, command, heard.exit, heard.diagnostics)
	if failure.State = heard.state; len(failure.State) > 0 {
		// The tool could not write it; it is also in the failure.
		_ = writeFile(filepath.Join(s.Root, erroredState), failure.State)
	}
	return failure
}

// gist picks what matters of text that is no diagnostic: the cause of a crash,
// or what was said last.
func gist(text string) string {
	const kept = 3
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return lines[i]
		}
	}
	return strings.Join(lines[max(len(lines)-kept, 0):], "\n")
}

// capture runs a subcommand that prints no events and returns what it printed.
// What it prints is kept in no file with a name.
func (s *Session) capture(ctx context.Context, command string, args []string, stdin io.Reader) ([]byte, error) {
	stdout, err := s.unnamed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }()
	stderr, err := s.unnamed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }()

	ended, err := call{
		path: s.tool.Path, args: args, dir: s.Root, env: s.env, grace: s.grace,
		stdin: stdin, stdout: stdout, stderr: stderr, poll: func(bool) {},
	}.run(ctx)
	if err != nil {
		return nil, err
	}
	if ended.code != 0 {
		text := readAll(stderr)
		heard := said{exit: ended, text: text, diagnostics: s.log.hideAll(parseText(text))}
		return nil, s.failure(ctx, command, heard)
	}
	out, err := io.ReadAll(io.NewSectionReader(stdout, 0, 1<<40))
	if err != nil {
		return nil, fmt.Errorf("reading the output of %s: %w", command, err)
	}
	return out, nil
}

func (s *Session) unnamed() (*os.File, error) {
	file, err := os.CreateTemp(s.RunDir, "output-")
	if err != nil {
		return nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("hiding a temporary file: %w", err)
	}
	return file, nil
}

func readAll(file *os.File) string {
	text, _ := io.ReadAll(io.NewSectionReader(file, 0, longestText))
	return string(text)
}

// lockArgs leaves the lock of a Kubernetes state to the engine, which takes it
// in its own name before the first command. Other backends lock by themselves.
func (s *Session) lockArgs() []string {
	if s.backend.Type == terraform.BackendKubernetes && !s.lock {
		return []string{"-lock=false"}
	}
	return []string{"-lock-timeout=0s"}
}

// ready runs a command, and once more after an init when it failed because the
// directory was not what the tool expects. Such a failure changes nothing.
func (s *Session) ready(ctx context.Context, run func() error) error {
	err := run()
	failure := AsFailure(err)
	if failure == nil || !failure.needsInit || s.reinit == nil || failure.Interrupted {
		return err
	}
	reinit := s.reinit
	s.reinit = nil
	s.log.print(time.Time{}, "The working directory is out of date, initialising it again")
	if err := reinit(ctx, failure.needsBackend); err != nil {
		return err
	}
	s.InitRan, s.InitReason = true, initReason(failure)
	return run()
}

func initReason(failure *Failure) string {
	if failure.needsBackend {
		return "the backend was set up otherwise"
	}
	return "modules or providers were missing"
}
