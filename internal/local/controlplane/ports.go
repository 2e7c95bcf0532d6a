package controlplane

import (
	"context"
	"fmt"
	"os"
	"time"
)

// portPatience is how long a remembered port may be another's before that is
// an error: what listened there may just be ending.
const portPatience = 5 * time.Second

// ports are the ports of the parts. The API server's is kept for the life of
// the directory; another part's is changed when somebody else has taken it.
type ports struct {
	numbers map[string]int
	kept    map[string]*os.File
}

// loadPorts takes the ports again that are remembered.
func (l layout) loadPorts(ctx context.Context) (*ports, error) {
	remembered := map[string]int{}
	if err := readJSON(l.ports(), &remembered); err != nil {
		return nil, err
	}
	p := &ports{numbers: map[string]int{}, kept: map[string]*os.File{}}
	for name, number := range remembered {
		err := p.take(name, number)
		if err != nil && name == APIServer {
			deadline, cancel := context.WithTimeout(ctx, portPatience)
			for err != nil && pause(deadline, pollInterval) {
				err = p.take(name, number)
			}
			cancel()
			if err != nil {
				return nil, fmt.Errorf("the API server's port is in use: end the program that listens on it, or make a new control plane: %w", err)
			}
		}
	}
	return p, nil
}

// Ports returns a port of the loopback address for each name, for programs of
// the spec. A name keeps its port, unless somebody else took it while the
// control plane was down.
func (c *Cluster) Ports(ctx context.Context, names ...string) (map[string]int, error) {
	held, err := c.begin(ctx, true)
	if err != nil {
		return nil, err
	}
	defer held.release()
	l := layout(c.Dir)
	running, err := isHeld(l.supervisorLock())
	if err != nil {
		return nil, err
	}
	p := &ports{numbers: map[string]int{}, kept: map[string]*os.File{}}
	if running {
		// The supervisor keeps them for their programs.
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

// Port is the port of a name, or 0 when it has none.
func (c *Cluster) Port(name string) (int, error) {
	remembered := map[string]int{}
	err := readJSON(layout(c.Dir).ports(), &remembered)
	return remembered[name], err
}

// release lets go of the ports, so that another process can keep them.
func (p *ports) release() {
	for _, file := range p.kept {
		file.Close()
	}
}

func (p *ports) take(name string, number int) error {
	number, file, err := reserve(number)
	if err != nil {
		return err
	}
	p.numbers[name], p.kept[name] = number, file
	return nil
}

// ensure gives each name a port and remembers it.
func (p *ports) ensure(l layout, names ...string) error {
	for _, name := range names {
		if p.numbers[name] != 0 {
			continue
		}
		if err := p.take(name, 0); err != nil {
			return err
		}
	}
	return writeJSON(l.ports(), p.numbers)
}
