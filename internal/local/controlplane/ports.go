package controlplane

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/appthrust/capt/internal/host"
)

// portTimeout is how long the recorded port of the API server may be in use by
// another process, which may be about to exit.
const portTimeout = 5 * time.Second

// ports are the ports of parts and programs. The port of the API server stays the
// same as long as the directory exists. Another port is replaced if a different
// process uses it.
type ports struct {
	numbers map[string]int
	// reserved keeps the ports reserved.
	reserved map[string]*os.File
}

// loadPorts reserves the recorded ports.
func (l layout) loadPorts(ctx context.Context) (*ports, error) {
	recorded := map[string]int{}
	if err := readJSON(l.ports(), &recorded); err != nil {
		return nil, err
	}
	p := &ports{numbers: map[string]int{}, reserved: map[string]*os.File{}}
	for name, number := range recorded {
		err := p.reserve(name, number)
		if err != nil && name == APIServer {
			deadline, cancel := context.WithTimeout(ctx, portTimeout)
			poll(deadline, pollInterval, func() bool {
				err = p.reserve(name, number)
				return err == nil
			})
			cancel()
			if err != nil {
				return nil, fmt.Errorf("the port of the API server is in use: stop the program that listens on it, or create a new control plane: %w", err)
			}
		}
	}
	return p, nil
}

// Ports returns a port on the loopback address for each name, for programs of the
// spec. The port of a name stays the same, unless a different process has taken it
// while the control plane was down.
func (c *Cluster) Ports(ctx context.Context, names ...string) (map[string]int, error) {
	held, err := c.lockOperation(ctx, true)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	l := layout(c.Dir)
	running, err := host.IsLocked(l.supervisorLock())
	if err != nil {
		return nil, err
	}
	p := &ports{numbers: map[string]int{}, reserved: map[string]*os.File{}}
	if running {
		// The supervisor has reserved them for their programs.
		err = readJSON(l.ports(), &p.numbers)
	} else {
		p, err = l.loadPorts(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer p.release()
	return p.numbers, p.ensure(l, names...)
}

// Port returns the port of a name, or 0 if it has none.
func (c *Cluster) Port(name string) (int, error) {
	recorded := map[string]int{}
	err := readJSON(layout(c.Dir).ports(), &recorded)
	return recorded[name], err
}

// release ends the reservations, so that another process can reserve the ports.
func (p *ports) release() {
	for _, file := range p.reserved {
		file.Close()
	}
}

func (p *ports) reserve(name string, number int) error {
	number, file, err := reserve(number)
	if err != nil {
		return err
	}
	p.numbers[name], p.reserved[name] = number, file
	return nil
}

// ensure reserves a port for each name that has none, and records the ports.
func (p *ports) ensure(l layout, names ...string) error {
	for _, name := range names {
		if p.numbers[name] != 0 {
			continue
		}
		if err := p.reserve(name, 0); err != nil {
			return err
		}
	}
	return writeJSON(l.ports(), p.numbers)
}
