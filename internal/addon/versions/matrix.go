// Package versions knows which versions of Kubernetes and of the things that
// add-ons install fit together. The knowledge is data with its sources, in
// addons/versions.yaml.
package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/addons"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// Matrix is a set of components with the versions that are known of them.
type Matrix struct {
	// Components are in the order of the file.
	Components []Component `json:"components"`
}

// Component is something that an add-on installs.
type Component struct {
	// Name is what spec.versions.matrix of an add-on says.
	Name string `json:"name"`
	// Title is how people call it.
	Title string `json:"title"`
	// Tested is the version that the built-in add-on installs.
	Tested Version `json:"tested"`
	// Requires is what every version of it needs besides.
	Requires []Requirement `json:"requires,omitempty"`
	// Rows are in the order of their versions, without gaps or overlaps.
	Rows []Row `json:"rows"`
}

// Row says which Kubernetes a range of versions is for.
type Row struct {
	// From is the first version of the row.
	From Version `json:"from"`
	// Until is the first version after the row.
	Until Version `json:"until"`
	// Kubernetes is the range of Kubernetes versions.
	Kubernetes Range `json:"kubernetes"`
	// Sources are the addresses where it is written.
	Sources []string `json:"sources"`
}

// Range is a range of Kubernetes' minor versions, both ends included.
type Range struct {
	// Min is the oldest.
	Min kubeversion.Minor `json:"min"`
	// Max is the newest. Nil: every later one.
	Max *kubeversion.Minor `json:"max,omitempty"`
}

// Requirement is another component that must be there.
type Requirement struct {
	// Component is the other component's name.
	Component string `json:"component"`
	// From is the oldest version of it that serves.
	From Version `json:"from"`
	// Why says what it is needed for.
	Why string `json:"why"`
	// Source is the address where it is written.
	Source string `json:"source"`
}

// Default returns the built-in matrix. It is read once.
var Default = sync.OnceValues(func() (*Matrix, error) {
	text, err := addons.Files.ReadFile(addons.VersionsFile)
	if err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	return Load(text)
})

// Load reads a matrix. Fields that it does not know are an error, and so are rows
// out of order, with gaps or without a source.
func Load(text []byte) (*Matrix, error) {
	m := &Matrix{}
	if err := yaml.UnmarshalStrict(text, m); err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	var errs []error
	for i := range m.Components {
		errs = append(errs, m.Components[i].validate()...)
		for _, r := range m.Components[i].Requires {
			if m.component(r.Component) == nil {
				errs = append(errs, fmt.Errorf("%s requires %s, which is no component", m.Components[i].Name, r.Component))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	return m, nil
}

func (c *Component) validate() []error {
	var errs []error
	complain := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", c.Name, fmt.Sprintf(format, args...)))
	}
	if c.Name == "" || c.Title == "" || len(c.Rows) == 0 {
		complain("needs a name, a title and rows")
		return errs
	}
	for i, r := range c.Rows {
		switch {
		case len(r.Sources) == 0:
			complain("the row from %s names no source", r.From)
		case !r.From.LT(r.Until.Version):
			complain("the row from %s ends at %s, before it begins", r.From, r.Until)
		case r.Kubernetes.Max != nil && r.Kubernetes.Max.Less(r.Kubernetes.Min):
			complain("the row from %s is for Kubernetes %s, which is empty", r.From, r.Kubernetes)
		case i > 0 && !c.Rows[i-1].Until.EQ(r.From.Version):
			complain("the row from %s does not follow the one until %s", r.From, c.Rows[i-1].Until)
		}
	}
	if c.row(c.Tested) == nil {
		complain("the tested version %s is in no row", c.Tested)
	}
	return errs
}

// Names lists the components.
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

// row is the row of a version. A pre-release counts as the version it leads to.
func (c *Component) row(v Version) *Row {
	v.Pre, v.Build = nil, nil
	if i := slices.IndexFunc(c.Rows, func(r Row) bool { return v.GE(r.From.Version) && v.LT(r.Until.Version) }); i >= 0 {
		return &c.Rows[i]
	}
	return nil
}

// Contains tells whether a Kubernetes version is in the range.
func (r Range) Contains(k kubeversion.Minor) bool {
	return !k.Less(r.Min) && (r.Max == nil || !r.Max.Less(k))
}

// String is the range as people say it.
func (r Range) String() string {
	switch {
	case r.Max == nil:
		return r.Min.String() + " or newer"
	case *r.Max == r.Min:
		return r.Min.String()
	}
	return r.Min.String() + " to " + r.Max.String()
}

// Version is a version of a component, such as 1.14.1.
type Version struct{ semver.Version }

// ParseVersion reads a version, with or without a leading v.
func ParseVersion(text string) (Version, error) {
	v, err := semver.Parse(strings.TrimPrefix(text, "v"))
	if err != nil {
		return Version{}, fmt.Errorf("%q is no version: write one such as 1.14.1", text)
	}
	return Version{Version: v}, nil
}

// UnmarshalJSON reads a version.
func (v *Version) UnmarshalJSON(text []byte) error {
	parsed, err := ParseVersion(strings.Trim(string(text), `"`))
	*v = parsed
	return err
}
