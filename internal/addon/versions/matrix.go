// Package versions checks which versions of Kubernetes and of add-on components
// work together. The compatibility matrix is data with its sources, in
// addons/versions.yaml.
package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/addons"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// Matrix is a list of components with their known versions.
type Matrix struct {
	// Components are in the order of the file.
	Components []Component `json:"components"`
}

// Component is a program that an add-on installs.
type Component struct {
	// Name is the value of an add-on's spec.versions.matrix.
	Name string `json:"name"`
	// Title is the name to show to users.
	Title string `json:"title"`
	// Tested is the version that the built-in add-on installs, or that CAPT is tested
	// with.
	Tested Version `json:"tested"`
	// Requires are the components that every version of this one requires.
	Requires []Requirement `json:"requires,omitempty"`
	// Rows are sorted by version, without gaps or overlaps.
	Rows []Row `json:"rows"`
}

// Row states which Kubernetes versions a range of component versions supports.
type Row struct {
	// From is the first version of the row.
	From Version `json:"from"`
	// Until is the first version after the row.
	Until Version `json:"until"`
	// Kubernetes is the range of supported Kubernetes versions.
	Kubernetes Range `json:"kubernetes"`
	// Includes are the components that are part of these versions, each with the oldest
	// version that is.
	Includes map[string]Version `json:"includes,omitempty"`
	// Sources are the URLs that document the support.
	Sources []string `json:"sources"`
}

// Range is a range of Kubernetes minor versions, both ends included.
type Range struct {
	// Min is the oldest version.
	Min kubeversion.Minor `json:"min"`
	// Max is the newest version. Nil means that there is no upper limit.
	Max *kubeversion.Minor `json:"max,omitempty"`
}

// Requirement is another component that must be installed.
type Requirement struct {
	// Component is the name of the other component.
	Component string `json:"component"`
	// From is its oldest sufficient version.
	From Version `json:"from"`
	// Mode limits the requirement to add-ons that pass outputs in this mode. It is empty
	// for all add-ons.
	Mode string `json:"mode,omitempty"`
	// Why states what it is required for.
	Why string `json:"why"`
	// Source is the URL that documents the requirement.
	Source string `json:"source"`
}

// Default returns the built-in matrix, which is loaded once.
var Default = sync.OnceValues(func() (*Matrix, error) {
	text, err := addons.Files.ReadFile(addons.VersionsFile)
	if err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	return Load(text)
})

// Load parses a matrix. It fails on unknown fields, on rows that are out of
// order, have gaps or name no source, and on missing versions.
func Load(text []byte) (*Matrix, error) {
	m := &Matrix{}
	if err := yaml.UnmarshalStrict(text, m); err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	var errs []error
	for i := range m.Components {
		c := &m.Components[i]
		errs = append(errs, c.validate()...)
		errs = append(errs, m.validateReferences(c)...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	return m, nil
}

// validateReferences checks what a component says about others.
func (m *Matrix) validateReferences(c *Component) []error {
	var errs []error
	for _, r := range c.Requires {
		if m.component(r.Component) == nil {
			errs = append(errs, fmt.Errorf("%s requires %s, which is not a component", c.Name, r.Component))
		}
		if r.From.Version == nil {
			errs = append(errs, fmt.Errorf("%s requires %s without a version", c.Name, r.Component))
		}
	}
	for _, r := range c.Rows {
		for name, v := range r.Includes {
			if other := m.component(name); other == nil || v.Version == nil || other.row(v) == nil {
				errs = append(errs, fmt.Errorf("%s %s includes %s %s, which is not in the matrix", c.Name, r.From, name, v))
			}
		}
	}
	return errs
}

func (c *Component) validate() []error {
	var errs []error
	report := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", c.Name, fmt.Sprintf(format, args...)))
	}
	if c.Name == "" || c.Title == "" || c.Tested.Version == nil || len(c.Rows) == 0 {
		report("name, title, tested and rows are required")
		return errs
	}
	for i, r := range c.Rows {
		if r.From.Version == nil || r.Until.Version == nil {
			report("row %d needs from and until", i+1)
			return errs
		}
		switch {
		case len(r.Sources) == 0:
			report("the row from %s names no source", r.From)
		case !r.From.LessThan(r.Until.Version):
			report("the row from %s ends at %s, before it begins", r.From, r.Until)
		case r.Kubernetes.Max != nil && r.Kubernetes.Max.Less(r.Kubernetes.Min):
			report("the row from %s supports Kubernetes %s, which is an empty range", r.From, r.Kubernetes)
		case i > 0 && !c.Rows[i-1].Until.EqualTo(r.From.Version):
			report("the row from %s does not follow the one until %s", r.From, c.Rows[i-1].Until)
		}
	}
	if c.row(c.Tested) == nil {
		report("the tested version %s is in no row", c.Tested)
	}
	return errs
}

// Names returns the names of the components.
func (m *Matrix) Names() []string {
	names := make([]string, len(m.Components))
	for i := range m.Components {
		names[i] = m.Components[i].Name
	}
	return names
}

func (m *Matrix) component(name string) *Component {
	if i := slices.IndexFunc(m.Components, func(c Component) bool { return c.Name == name }); i >= 0 {
		return &m.Components[i]
	}
	return nil
}

// row returns the row of a version, or nil. A pre-release is in the row of its
// release.
func (c *Component) row(v Version) *Row {
	release := version.MajorMinor(v.Major(), v.Minor()).WithPatch(v.Patch())
	contains := func(r Row) bool { return release.AtLeast(r.From.Version) && release.LessThan(r.Until.Version) }
	if i := slices.IndexFunc(c.Rows, contains); i >= 0 {
		return &c.Rows[i]
	}
	return nil
}

// Contains reports whether a Kubernetes version is in the range.
func (r Range) Contains(k kubeversion.Minor) bool {
	return !k.Less(r.Min) && (r.Max == nil || !r.Max.Less(k))
}

// String returns the range in words, such as "1.26 to 1.36".
func (r Range) String() string {
	switch {
	case r.Max == nil:
		return r.Min.String() + " or newer"
	case *r.Max == r.Min:
		return r.Min.String()
	}
	return r.Min.String() + " to " + r.Max.String()
}

// Version is a semantic version of a component, such as 1.14.1.
type Version struct{ *version.Version }

// ParseVersion parses a semantic version, with or without a leading v.
func ParseVersion(text string) (Version, error) {
	v, err := version.ParseSemantic(text)
	if err != nil || strings.TrimSpace(text) != text {
		return Version{}, fmt.Errorf("%q is not a version: write one such as 1.14.1", text)
	}
	return Version{Version: v}, nil
}

// UnmarshalJSON parses a version.
func (v *Version) UnmarshalJSON(text []byte) error {
	parsed, err := ParseVersion(strings.Trim(string(text), `"`))
	*v = parsed
	return err
}
