package versions

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Minor is a minor version of Kubernetes.
type Minor struct {
	// Major and Minor are its numbers.
	Major, Minor int
}

// kubernetesVersion is a version as clusters and people write it: 1.34, v1.34.2, 1.34+,
// v1.34.2-eks-1a2b3c4.
var kubernetesVersion = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]+)?(?:[-+][-+.0-9A-Za-z]*)?$`)

// ParseMinor reads the minor version of a Kubernetes version.
func ParseMinor(text string) (Minor, error) {
	found := kubernetesVersion.FindStringSubmatch(text)
	if found == nil {
		return Minor{}, fmt.Errorf("%q is no version of Kubernetes: write one such as 1.36", text)
	}
	major, err := strconv.Atoi(found[1])
	if err != nil {
		return Minor{}, fmt.Errorf("reading the Kubernetes version %q: %w", text, err)
	}
	minor, err := strconv.Atoi(found[2])
	if err != nil {
		return Minor{}, fmt.Errorf("reading the Kubernetes version %q: %w", text, err)
	}
	return Minor{Major: major, Minor: minor}, nil
}

// Less tells whether m is older than other.
func (m Minor) Less(other Minor) bool {
	return m.Major < other.Major || m.Major == other.Major && m.Minor < other.Minor
}

// String is the version as people write it.
func (m Minor) String() string { return fmt.Sprintf("%d.%d", m.Major, m.Minor) }

// UnmarshalJSON reads a minor version.
func (m *Minor) UnmarshalJSON(text []byte) error {
	parsed, err := ParseMinor(strings.Trim(string(text), `"`))
	*m = parsed
	return err
}
