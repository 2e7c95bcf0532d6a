package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// reattachEnv is the environment variable with the providers that the tool uses
	// without starting them.
	reattachEnv = "TF_REATTACH_PROVIDERS"
	// startTimeout is how long a provider may take to start. The tool allows as much.
	startTimeout = time.Minute
	// startInterval is how often a starting provider is asked.
	startInterval = 5 * time.Millisecond
	// stopTimeout is how long a provider may take to end.
	stopTimeout = 2 * time.Second
)

// serverEnv makes a provider serve the protocol of plugins. A provider prints everything to
// its log, and leaves it to the tool what to omit: without a tool that reads it, it prints
// nothing.
var serverEnv = []string{
	"TF_PLUGIN_MAGIC_COOKIE=d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
	"PLUGIN_PROTOCOL_VERSIONS=5,6", "TF_LOG_SDK=off", "TF_LOG_PROVIDER=off",
}

// servers are processes of providers that serve several commands.
type servers struct {
	processes []*server
	// env is the variable that makes the tool use them.
	env string
}

// server is a process of a provider. Its output is in regular files: see call.
type server struct {
	provider       lockedProvider
	cmd            *exec.Cmd
	stdout, stderr *os.File
	ended          chan struct{}
}

// reattached is how the tool reaches a provider.
type reattached struct {
	Protocol        string
	ProtocolVersion int
	Pid             int
	// Test lets the tool leave the provider running.
	Test bool
	Addr struct{ Network, String string }
}

// ServeProviders starts the providers of the module, which serve all commands until
// StopProviders. Otherwise the tool starts each of them up to three times per command, which
// takes most of the time of a command with large providers.
//
// It starts none if the module may configure a provider more than once: a process of a
// provider has one configuration. The same applies if a user wants to see the log of a
// provider or to replace one. The tool then starts the providers itself.
func (s *Session) ServeProviders(ctx context.Context) {
	providers := s.servable()
	if len(providers) == 0 || s.servers != nil {
		return
	}
	started := &servers{}
	s.servers = started
	if err := s.startServers(ctx, providers); err != nil {
		s.log.print(time.Time{}, fmt.Sprintf("The tool starts the providers: %v", err))
		s.StopProviders()
	}
}

func (s *Session) startServers(ctx context.Context, providers []lockedProvider) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, provider := range providers {
		if err := s.startServer(provider); err != nil {
			return fmt.Errorf("starting provider %s: %w", provider.address, err)
		}
	}
	addresses := map[string]reattached{}
	for _, process := range s.servers.processes {
		address, err := process.await(ctx)
		if err != nil {
			return fmt.Errorf("starting provider %s: %w", process.provider.address, err)
		}
		addresses[process.provider.address] = address
	}
	text, err := json.Marshal(addresses)
	if err != nil {
		return fmt.Errorf("encoding the addresses of the providers: %w", err)
	}
	s.servers.env = reattachEnv + "=" + string(text)
	return nil
}

// startServer starts a provider as the tool does: with the same environment, working
// directory and sandbox.
func (s *Session) startServer(provider lockedProvider) error {
	// A relative path: that of a socket is limited to about 100 characters.
	sockets, err := filepath.Rel(s.Root, s.RunDir)
	if err != nil {
		return fmt.Errorf("finding the directory of the run: %w", err)
	}
	name := "provider-" + strconv.Itoa(len(s.servers.processes))
	stdout, err := s.create(name + ".out")
	if err != nil {
		return err
	}
	stderr, err := s.create(name + ".err")
	if err != nil {
		return errors.Join(err, stdout.Close())
	}
	args := []string{"plan"}
	cmd := exec.Command(provider.program)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Root, stdout, stderr
	cmd.Env = slices.Concat(s.toolEnv(args), serverEnv, []string{"PLUGIN_UNIX_SOCKET_DIR=" + sockets})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := cmd.Start
	if rules := s.sandboxFor(args); rules != nil {
		start = func() error { return rules.Start(cmd) }
	}
	if err := start(); err != nil {
		return errors.Join(err, stdout.Close(), stderr.Close())
	}
	process := &server{provider: provider, cmd: cmd, stdout: stdout, stderr: stderr, ended: make(chan struct{})}
	go func() {
		defer close(process.ended)
		_ = cmd.Wait() // What matters is that it ended.
	}()
	s.servers.processes = append(s.servers.processes, process)
	return nil
}

// await returns the address of a provider when it serves.
func (p *server) await(ctx context.Context) (reattached, error) {
	ticker := time.NewTicker(startInterval)
	defer ticker.Stop()
	for {
		if line, _, found := bytes.Cut([]byte(readAll(p.stdout)), []byte("\n")); found {
			return p.address(strings.TrimSpace(string(line)))
		}
		select {
		case <-ctx.Done():
			return reattached{}, context.Cause(ctx)
		case <-p.ended:
			return reattached{}, errors.New("it ended")
		case <-ticker.C:
		}
	}
}

// address parses the line with which a provider says how it serves: the version of the
// plugins' protocol, that of the providers', the network, the address and the kind.
func (p *server) address(line string) (reattached, error) {
	fields := strings.Split(line, "|")
	if len(fields) < 5 || fields[0] != "1" || fields[2] != "unix" || fields[4] != "grpc" {
		return reattached{}, errors.New("its answer is of another protocol")
	}
	version, err := strconv.Atoi(fields[1])
	if err != nil {
		return reattached{}, errors.New("its answer is of another protocol")
	}
	found := reattached{Protocol: fields[4], ProtocolVersion: version, Pid: p.cmd.Process.Pid, Test: true}
	found.Addr.Network, found.Addr.String = fields[2], fields[3]
	return found, nil
}

// StopProviders stops the providers that ServeProviders has started. If one ended before, it
// logs its last words.
func (s *Session) StopProviders() {
	if s.servers == nil {
		return
	}
	stopped := s.servers
	s.servers = nil
	for _, process := range stopped.processes {
		if process.hasEnded() {
			s.log.print(time.Time{}, fmt.Sprintf("Provider %s ended\n%s", process.provider.address, relevantLines(readAll(process.stderr))))
		}
		// Providers ignore interrupts, which the terminal also sends to them.
		_ = syscall.Kill(-process.cmd.Process.Pid, syscall.SIGTERM)
	}
	patience, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, process := range stopped.processes {
		select {
		case <-process.ended:
		case <-patience.Done():
			_ = syscall.Kill(-process.cmd.Process.Pid, syscall.SIGKILL)
			<-process.ended
		}
		_, _ = process.stdout.Close(), process.stderr.Close()
	}
}

func (p *server) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// providersEnv returns the environment of a command that uses the providers. If one of them
// has ended, the tool starts all of them itself.
func (s *Session) providersEnv(env, args []string) []string {
	if s.servers == nil || len(args) == 0 || !slices.Contains([]string{"plan", "apply", "show"}, args[0]) {
		return env
	}
	if slices.ContainsFunc(s.servers.processes, (*server).hasEnded) {
		s.StopProviders()
		return env
	}
	return append(slices.Clip(env), s.servers.env)
}

// brokenProvider matches the errors of a tool that cannot use a provider which it has not
// started.
var brokenProvider = regexp.MustCompile(`(?i)plugin did not respond|failed to (instantiate|load|obtain) (provider|schema|plugin)|reattach|plugin (process )?exited|incompatible api version|rpc error`)

// reading runs a command that changes nothing, and once more, with providers that the tool
// starts, if it failed because of one that it did not start.
func (s *Session) reading(ctx context.Context, run func() error) error {
	err := s.ready(ctx, run)
	failure := AsFailure(err)
	if failure == nil || failure.Interrupted || s.servers == nil || !matches(failure.Diagnostics, brokenProvider) {
		return err
	}
	s.log.print(time.Time{}, "The tool starts the providers: one that serves several commands failed")
	s.StopProviders()
	return s.ready(ctx, run)
}
