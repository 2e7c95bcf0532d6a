package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout is how long providers may take to start. The tool allows as much.
	startTimeout = time.Minute
	// stopTimeout is how long providers may take to end.
	stopTimeout = 2 * time.Second
)

// servedProviders are processes of providers that serve several commands. Its methods can be
// called concurrently, and for nil.
type servedProviders struct {
	mu sync.Mutex
	// processes is empty when they are stopped.
	processes []*providerProcess
	// env is the environment of the commands that they serve.
	env []string
	// dir is the directory of their sockets.
	dir *os.File
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

// ServeProviders starts the providers of the module, which serve the following plans and
// descriptions of plans until StopProviders or an apply. Otherwise the tool starts each of them
// up to three times per command, which takes most of the time of a command with large providers.
//
// An apply does not use them: it must survive this process, which they do not, and its providers
// must not have been configured before.
//
// A provider is not served if it has several configurations, because a process has one. The tool
// then starts it as usual, and also if it cannot be served for another reason.
func (s *Session) ServeProviders(ctx context.Context) {
	s.StopProviders()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	providers := make(chan []lockedProvider, 1)
	// Code of the module may have made files of which reading never ends.
	go func() { providers <- s.servable() }()
	var found []lockedProvider
	select {
	case found = <-providers:
	case <-ctx.Done():
	}
	if len(found) == 0 {
		return
	}
	served, err := s.startProviders(ctx, found)
	if err != nil {
		s.log.print(time.Time{}, fmt.Sprintf("The tool starts the providers: %v", err))
		return
	}
	s.served = served
}

// startProviders starts providers as the tool does: with the same environment, working directory
// and sandbox. It omits those that cannot serve.
func (s *Session) startProviders(ctx context.Context, providers []lockedProvider) (*servedProviders, error) {
	path := filepath.Join(s.RunDir, "sockets")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the sockets: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the sockets: %w", err)
	}
	served := &servedProviders{env: s.toolEnv(planArgs), dir: dir}
	var starting []*providerProcess
	for _, provider := range providers {
		process, err := s.startProvider(provider, dir)
		if err != nil {
			s.leaveToTool(provider, err)
			continue
		}
		starting = append(starting, process)
	}
	for _, process := range starting {
		if err := process.await(ctx); err != nil {
			s.leaveToTool(process.provider, err)
			process.stop()
			continue
		}
		served.processes = append(served.processes, process)
	}
	if len(served.processes) == 0 {
		return nil, dir.Close()
	}
	return served, nil
}

func (s *Session) leaveToTool(provider lockedProvider, err error) {
	s.log.print(time.Time{}, fmt.Sprintf("The tool starts provider %s: %v", provider.address, err))
}

// planArgs are the arguments of a command that providers serve.
var planArgs = []string{"plan"}

// StopProviders stops the providers that ServeProviders has started, if any. What one that ended
// before has said about it is in the log.
func (s *Session) StopProviders() {
	if s.served == nil {
		return
	}
	s.served.mu.Lock()
	defer s.served.mu.Unlock()
	s.stopServed()
}

// stopServed stops the providers. The caller holds the mutex.
func (s *Session) stopServed() {
	for _, process := range s.served.processes {
		if process.hasEnded() {
			s.log.print(time.Time{}, fmt.Sprintf("Provider %s ended: %s", process.provider.address, process.end()))
		}
		// Providers ignore interrupts, which a terminal also sends to them.
		process.bound.Signal(syscall.SIGTERM)
	}
	for _, process := range s.served.processes {
		process.stop()
	}
	s.served.processes = nil
	_ = s.served.dir.Close()
}

// isActive reports whether there are providers that serve.
func (p *servedProviders) isActive() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.processes) > 0
}

// hasEnded reports whether one of the providers has ended by itself.
func (p *servedProviders) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.processes, (*providerProcess).hasEnded)
}

// useProviders lets a command use the providers that serve, if it may. The result frees what the
// command needs for that. If one of them has ended, or the environment of the command is not
// theirs, for example because credentials have changed, the tool starts all of them itself.
func (s *Session) useProviders(ctx context.Context, command *call) (release func()) {
	if s.served == nil || len(command.args) == 0 || !slices.Contains([]string{"plan", "show"}, command.args[0]) {
		return func() {}
	}
	s.served.mu.Lock()
	defer s.served.mu.Unlock()
	if len(s.served.processes) == 0 {
		return func() {}
	}
	if slices.ContainsFunc(s.served.processes, (*providerProcess).hasEnded) || !slices.Equal(command.env, s.served.env) {
		s.stopServed()
		return func() {}
	}
	release, err := s.served.relay(ctx, command)
	if err != nil {
		s.log.print(time.Time{}, fmt.Sprintf("The tool starts the providers: %v", err))
		s.stopServed()
	}
	return release
}

// relay lets a command reach the providers.
func (p *servedProviders) relay(ctx context.Context, command *call) (release func(), err error) {
	var relays []*relay
	release = func() {
		for _, relay := range relays {
			relay.close()
		}
	}
	addresses := map[string]reattached{}
	files := slices.Clone(command.files)
	for _, process := range p.processes {
		relay, err := newRelay(ctx, p.dir, process)
		if err != nil {
			return release, err
		}
		relays = append(relays, relay)
		address := reattached{Protocol: "grpc", ProtocolVersion: process.version, Pid: process.bound.Pid(), Test: true}
		// The socket has no name any more: the tool inherits it.
		address.Addr.Network, address.Addr.String = "unix", descriptorPath(firstExtraFile+len(files))
		files = append(files, relay.socket)
		addresses[process.provider.address] = address
	}
	text, err := json.Marshal(addresses)
	if err != nil {
		return release, fmt.Errorf("encoding the addresses of the providers: %w", err)
	}
	command.files, command.env = files, append(slices.Clip(command.env), reattachEnv+"="+string(text))
	command.onStart = func(pid int) {
		for _, relay := range relays {
			relay.allow(pid)
		}
	}
	return release, nil
}

// firstExtraFile is the file descriptor of the first file that a command inherits.
const firstExtraFile = 3

// descriptorPath returns the path by which a process reaches an open file of its own. It is
// always short, as paths of sockets have to be.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
