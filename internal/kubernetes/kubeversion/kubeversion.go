// Package kubeversion parses and compares minor versions of Kubernetes.
package kubeversion

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Minor is a minor version of Kubernetes, such as 1.34.
type Minor struct {
	Major, Minor int
}

// form matches versions as clusters and users write them: 1.34, v1.34.2, 1.34+,
// v1.34.2-eks-1a2b3c4.
var form = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]+)?(?:[-+][-+.0-9A-Za-z]*)?$`)

// Parse returns the minor version of a Kubernetes version. The patch and any
// suffix are ignored.
func Parse(text string) (Minor, error) {
	found := form.FindStringSubmatch(text)
	if found == nil {
		return Minor{}, fmt.Errorf("%q is not a Kubernetes version: write one such as 1.36", text)
	}
	// The expression limits both to four digits, so neither can fail.
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	return Minor{Major: major, Minor: minor}, nil
}

// MinorOf returns the minor version of a Kubernetes version, such as 1.33 for v1.33.2,
// or an empty string if text is not a version.
func MinorOf(text string) string {
	minor, err := Parse(text)
	if err != nil {
		return ""
	}
	return minor.String()
}

// Older reports whether version a is older than version b. It reports false if either
// is not a version.
func Older(a, b string) bool {
	first, errFirst := Parse(a)
	second, errSecond := Parse(b)
	return errFirst == nil && errSecond == nil && first.Less(second)
}

// Less reports whether m is older than other.
func (m Minor) Less(other Minor) bool {
	return m.Major < other.Major || m.Major == other.Major && m.Minor < other.Minor
}

// Next returns the minor version after m.
func (m Minor) Next() Minor { return Minor{Major: m.Major, Minor: m.Minor + 1} }

// String returns the version without a prefix, such as "1.34".
func (m Minor) String() string { return fmt.Sprintf("%d.%d", m.Major, m.Minor) }

// UnmarshalJSON parses a version that is a string or a number.
func (m *Minor) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(strings.Trim(string(text), `"`))
	*m = parsed
	return err
}
