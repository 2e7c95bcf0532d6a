package versions

import (
	"fmt"
	"strings"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/message"
)

// Unsupported is a version that is not for a Kubernetes, or too old for another
// component.
type Unsupported struct {
	// Component and Version are what was asked about.
	Component, Version string
	// Kubernetes is the version it is not for. Empty where another component is
	// the trouble.
	Kubernetes string
	// Sources are the addresses where it is written.
	Sources []string

	message string
}

// Error says which versions fit.
func (e *Unsupported) Error() string { return e.message }

// Unknown is a component or version that the matrix does not have. It is no
// verdict: nothing is known.
type Unknown struct {
	// Component and Version are what was asked about. Version is empty where the
	// component is not known.
	Component, Version string
	// Nearest is the nearest thing that is known.
	Nearest string

	message string
}

// Error names what is known.
func (e *Unknown) Error() string { return e.message }

// Check tells whether a version of a component is for a version of Kubernetes. The
// error is an *Unsupported or an *Unknown, or says that a version cannot be read.
func (m *Matrix) Check(component, version, kubernetes string) error {
	c, v, row, err := m.find(component, version)
	if err != nil {
		return err
	}
	k, err := kubeversion.Parse(kubernetes)
	if err != nil {
		return err
	}
	if row.Kubernetes.Contains(k) {
		return nil
	}
	return &Unsupported{
		Component: component, Version: version, Kubernetes: kubernetes, Sources: row.Sources,
		message: fmt.Sprintf("%s %s is for Kubernetes %s, not %s: %s", c.Title, v, row.Kubernetes, k, c.advise(k)),
	}
}

// Requires lists what a version of a component needs besides Kubernetes. The error
// is an *Unknown, or says that the version cannot be read.
func (m *Matrix) Requires(component, version string) ([]Requirement, error) {
	c, _, _, err := m.find(component, version)
	if err != nil {
		return nil, err
	}
	return c.Requires, nil
}

// CheckRequired tells whether a component that is installed in some version serves
// another. The error is an *Unsupported or an *Unknown, or says that a version
// cannot be read. Nothing is required of a component that is not mentioned.
func (m *Matrix) CheckRequired(component, version, other, otherVersion string) error {
	needs, err := m.Requires(component, version)
	if err != nil {
		return err
	}
	for _, r := range needs {
		if r.Component != other {
			continue
		}
		v, err := ParseVersion(otherVersion)
		if err != nil {
			return err
		}
		if v.LT(r.From.Version) {
			return &Unsupported{
				Component: component, Version: version, Sources: []string{r.Source},
				message: fmt.Sprintf("%s %s needs %s %s or newer, and %s is installed: %s", m.component(component).Title,
					strings.TrimPrefix(version, "v"), m.component(other).Title, r.From, v, r.Why),
			}
		}
	}
	return nil
}

func (m *Matrix) find(component, version string) (*Component, Version, *Row, error) {
	c := m.component(component)
	if c == nil {
		nearest, found := message.Nearest(component, m.Names())
		text := fmt.Sprintf("the version matrix has no %q: it has %s", component, strings.Join(m.Names(), ", "))
		if found {
			text = fmt.Sprintf("the version matrix has no %q: did you mean %s?", component, nearest)
		}
		return nil, Version{}, nil, &Unknown{Component: component, Nearest: nearest, message: text}
	}
	v, err := ParseVersion(version)
	if err != nil {
		return nil, Version{}, nil, err
	}
	row := c.row(v)
	if row == nil {
		near := c.nearest(v)
		return nil, Version{}, nil, &Unknown{
			Component: component, Version: version, Nearest: near.String(),
			message: fmt.Sprintf("the version matrix knows %s from %s until %s, not %s: the nearest that it knows is %s",
				c.Title, c.Rows[0].From, c.Rows[len(c.Rows)-1].Until, v, near),
		}
	}
	return c, v, row, nil
}

// nearest is the known version next to one that is not. Older ones are next to the
// first, newer ones to the tested, because the last of the rows need not exist.
func (c *Component) nearest(v Version) Version {
	if first := c.Rows[0].From; v.LT(first.Version) {
		return first
	}
	return c.Tested
}

// advise says which version of the component is for a Kubernetes, and else which
// Kubernetes the tested version is for.
func (c *Component) advise(k kubeversion.Minor) string {
	first, last := -1, -1
	for i, r := range c.Rows {
		if r.Kubernetes.Contains(k) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	tested := c.row(c.Tested).Kubernetes
	switch {
	case first < 0:
		return fmt.Sprintf("no known %s is for Kubernetes %s; %s is for %s", c.Title, k, c.Tested, tested)
	case last < len(c.Rows)-1:
		return fmt.Sprintf("use %s %s or newer, but older than %s", c.Title, c.Rows[first].From, c.Rows[last].Until)
	case tested.Contains(k):
		return fmt.Sprintf("use %s %s or newer (%s is for Kubernetes %s)", c.Title, c.Rows[first].From, c.Tested, tested)
	}
	return fmt.Sprintf("use %s %s or newer", c.Title, c.Rows[first].From)
}
