// Package versions checks which versions of Kubernetes and of add-on components
// work together. The compatibility matrix is data with its sources, in
// addons/versions.yaml.
package versions

import (
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

// Default returns the built-in matrix, which is loaded once. Tests check that it is consistent.
var Default = sync.OnceValues(func() (*Matrix, error) {
	text, err := addons.Files.ReadFile(addons.VersionsFile)
	if err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	m := &Matrix{}
	if err := yaml.UnmarshalStrict(text, m); err != nil {
		return nil, fmt.Errorf("reading the version matrix: %w", err)
	}
	return m, nil
})

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
