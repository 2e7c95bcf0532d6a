package versions

import (
	"fmt"
	"strings"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/message"
)

// UnknownError reports a component or version that the matrix does not contain. It
// may be supported or not.
type UnknownError struct{ message string }

// Error returns what the matrix contains.
func (e *UnknownError) Error() string { return e.message }

// Check returns an error unless a version of a component supports a version of
// Kubernetes. The error is an *UnknownError if it may.
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
	return fmt.Errorf("%s %s supports Kubernetes %s, not %s: %s", c.Title, v, row.Kubernetes, k, c.advice(k))
}

// Requires returns the components that a version of a component requires. The
// error is an *UnknownError, or that of a version that does not parse.
func (m *Matrix) Requires(component, version string) ([]Requirement, error) {
	c, _, _, err := m.find(component, version)
	if err != nil {
		return nil, err
	}
	return c.Requires, nil
}

// CheckDependency returns an error if an add-on that another one depends on installs a
// version that is too old for it. Add-ons without a component in the matrix pass.
func (m *Matrix) CheckDependency(addon, dependency *addonsv1.CAPTAddon) error {
	installed, version := AddonVersion(dependency), AddonVersion(addon)
	if matrixOf(addon) == "" || matrixOf(dependency) == "" || installed == "" || version == "" {
		return nil
	}
	c, v, _, err := m.find(matrixOf(addon), version)
	if err != nil {
		return err
	}
	for _, r := range c.Requires {
		if r.Component != matrixOf(dependency) || !uses(addon, r.Mode) {
			continue
		}
		has, err := ParseVersion(installed)
		if err != nil {
			return err
		}
		if has.LessThan(r.From.Version) {
			return fmt.Errorf("%s %s requires %s %s or newer, and add-on %s installs %s: %s",
				c.Title, v, m.component(r.Component).Title, r.From, dependency.Name, has, r.Why)
		}
	}
	return nil
}

func (m *Matrix) find(component, version string) (*Component, Version, *Row, error) {
	c := m.component(component)
	if c == nil {
		text := fmt.Sprintf("the version matrix has no %q: it has %s", component, strings.Join(m.Names(), ", "))
		if nearest, found := message.Nearest(component, m.Names()); found {
			text = fmt.Sprintf("the version matrix has no %q: did you mean %s?", component, nearest)
		}
		return nil, Version{}, nil, &UnknownError{text}
	}
	v, err := ParseVersion(version)
	if err != nil {
		return nil, Version{}, nil, err
	}
	row := c.row(v)
	if row == nil {
		return nil, Version{}, nil, &UnknownError{fmt.Sprintf("the version matrix has %s from %s until %s, not %s: the nearest known version is %s",
			c.Title, c.Rows[0].From, c.Rows[len(c.Rows)-1].Until, v, c.nearest(v))}
	}
	return c, v, row, nil
}

// nearest returns the known version nearest to an unknown one: the first for
// older versions, the tested one for newer versions. The last version of the
// last row may not exist.
func (c *Component) nearest(v Version) Version {
	if first := c.Rows[0].From; v.LessThan(first.Version) {
		return first
	}
	return c.Tested
}

// advice names the newest versions of the component that support a Kubernetes version,
// or the Kubernetes versions that the tested version supports.
func (c *Component) advice(k kubeversion.Minor) string {
	first, last := -1, -1
	for i, r := range c.Rows {
		if r.Kubernetes.Contains(k) {
			if last != i-1 || first < 0 {
				first = i
			}
			last = i
		}
	}
	tested := c.row(c.Tested).Kubernetes
	switch {
	case first < 0:
		return fmt.Sprintf("no known %s supports Kubernetes %s; %s supports %s", c.Title, k, c.Tested, tested)
	case last < len(c.Rows)-1:
		return fmt.Sprintf("use %s %s or newer, but older than %s", c.Title, c.Rows[first].From, c.Rows[last].Until)
	case tested.Contains(k):
		return fmt.Sprintf("use %s %s or newer (%s supports Kubernetes %s)", c.Title, c.Rows[first].From, c.Tested, tested)
	}
	return fmt.Sprintf("use %s %s or newer", c.Title, c.Rows[first].From)
}
