package served

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

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// startTimeout is how long providers may take to start. The tool allows as much.
	startTimeout = time.Minute
	// stopTimeout is how long providers may take to end.
	stopTimeout = 2 * time.Second
)

// Providers are processes of providers that serve several commands. Its methods can be called
// concurrently, and for nil.
type Providers struct {
	log func(message string)
	mu  sync.Mutex
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

// Start starts the providers of a module, which serve its plans and descriptions of plans until
// they are stopped. It returns nil if there are none.
//
// A provider is not served if it has several configurations, because a process has one. OpenTofu
// then starts it as usual, and also if it cannot be served for another reason.
func Start(ctx context.Context, module Module) *Providers {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	providers := make(chan []lockedProvider, 1)
	// Code of the module may have made files of which reading never ends.
	go func() { providers <- module.servable() }()
	var found []lockedProvider
	select {
	case found = <-providers:
	case <-ctx.Done():
	}
	if len(found) == 0 {
		return nil
	}
	served, err := module.start(ctx, found)
	if err != nil {
		module.Log(fmt.Sprintf("The tool starts the providers: %v", err))
		return nil
	}
	return served
}

// start starts providers as the tool does: with the same environment, working directory and
// sandbox. It omits those that cannot serve.
func (m *Module) start(ctx context.Context, providers []lockedProvider) (*Providers, error) {
	path := filepath.Join(m.RunDir, "sockets")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the sockets: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the sockets: %w", err)
	}
	served := &Providers{log: m.Log, env: m.Env, dir: dir}
	var starting []*providerProcess
	for _, provider := range providers {
		process, err := m.startProvider(provider, dir)
		if err != nil {
			m.leaveToTool(provider, err)
			continue
		}
		starting = append(starting, process)
	}
	for _, process := range starting {
		if err := process.await(ctx); err != nil {
			m.leaveToTool(process.provider, err)
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

func (m *Module) leaveToTool(provider lockedProvider, err error) {
	m.Log(fmt.Sprintf("The tool starts provider %s: %v", provider.address, err))
}

// Stop stops the providers. What one that ended before has said about it is in the log.
func (p *Providers) Stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// stop stops the providers. The caller holds the mutex.
func (p *Providers) stop() {
	for _, process := range p.processes {
		if process.hasEnded() {
			p.log(fmt.Sprintf("Provider %s ended: %s", process.provider.address, process.end()))
		}
		// Providers ignore interrupts, which a terminal also sends to them.
		process.bound.Signal(syscall.SIGTERM)
	}
	for _, process := range p.processes {
		process.stop()
	}
	p.processes = nil
	_ = p.dir.Close()
}

// Failed reports whether a command with these diagnostics may have failed because it used the
// providers: the tool has to start them for the errors that users know.
func (p *Providers) Failed(diagnostics terraform.Diagnostics) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.processes) > 0 && (slices.ContainsFunc(p.processes, (*providerProcess).hasEnded) || isBroken(diagnostics))
}

// Connect lets a command with these arguments and this environment use the providers, if it may.
// Otherwise the connection is empty. If one of the providers has ended, or the environment of the
// command is not theirs, for example because credentials have changed, the tool starts all of them
// itself.
func (p *Providers) Connect(ctx context.Context, args, env []string) *Connection {
	if p == nil || len(args) == 0 || args[0] != "plan" && args[0] != "show" {
		return &Connection{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.processes) == 0 {
		return &Connection{}
	}
	if slices.ContainsFunc(p.processes, (*providerProcess).hasEnded) || !slices.Equal(env, p.env) {
		p.stop()
		return &Connection{}
	}
	connection, err := p.connect(ctx)
	if err != nil {
		p.log(fmt.Sprintf("The tool starts the providers: %v", err))
		connection.Close()
		p.stop()
		return &Connection{}
	}
	return connection
}

func (p *Providers) connect(ctx context.Context) (*Connection, error) {
	c := &Connection{}
	addresses := map[string]reattached{}
	for _, process := range p.processes {
		relay, err := newRelay(ctx, p.dir, process)
		if err != nil {
			return c, err
		}
		address := reattached{Protocol: "grpc", ProtocolVersion: process.version, Pid: process.bound.Pid(), Test: true}
		// The socket has no name any more: the tool inherits it.
		address.Addr.Network, address.Addr.String = "unix", descriptorPath(firstExtraFile+len(c.Files))
		c.relays, c.Files = append(c.relays, relay), append(c.Files, relay.socket)
		addresses[process.provider.address] = address
	}
	encoded, err := json.Marshal(addresses)
	if err != nil {
		return c, fmt.Errorf("encoding the addresses of the providers: %w", err)
	}
	c.Env = []string{reattachEnv + "=" + string(encoded)}
	return c, nil
}

// firstExtraFile is the file descriptor of the first file that a command inherits.
const firstExtraFile = 3

// descriptorPath returns the path by which a process reaches an open file of its own. It is
// always short, as paths of sockets have to be.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
