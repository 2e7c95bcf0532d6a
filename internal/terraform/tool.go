package terraform

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// Products of a tool.
const (
	ProductOpenTofu  = "OpenTofu"
	ProductTerraform = "Terraform"
)

// Tool is a product and its version. Both may be unknown.
type Tool struct {
	Product string `json:"product,omitempty"`
	// Version is the version without a leading v, such as 1.12.6.
	Version string `json:"version,omitempty"`
}

// String returns the tool for messages, such as OpenTofu 1.12.6.
func (t Tool) String() string {
	return ToolRequirement(t).String()
}

// Program returns the name of the program under which users know the product.
func (t Tool) Program() string {
	if t.Product == ProductTerraform {
		return "terraform"
	}
	return "tofu"
}

// Since returns the requirement for this product in this version or a newer one, or nil if
// nothing is known.
func (t Tool) Since() *ToolRequirement {
	switch {
	case toolVersion(t.Version) != "":
		return &ToolRequirement{Product: t.Product, Version: ">= " + t.Version}
	case t.Product != "":
		return &ToolRequirement{Product: t.Product}
	default:
		return nil
	}
}

// ToolRequirement is which tool, and which versions of it, a workspace requires.
type ToolRequirement struct {
	// Product is OpenTofu or Terraform. If empty, either is used.
	Product string `json:"product,omitempty"`
	// Version are version constraints as in a module, such as "~> 1.10" or ">= 1.9, < 2".
	// If empty, any version is used.
	Version string `json:"version,omitempty"`
}

// String returns the requirement for messages.
func (r ToolRequirement) String() string {
	product := r.Product
	if product == "" {
		product = "OpenTofu or Terraform"
	}
	return strings.TrimSpace(product + " " + r.Version)
}

// Validate returns an error for a requirement that cannot be met.
func (r ToolRequirement) Validate() error {
	if r.Product != "" && r.Product != ProductOpenTofu && r.Product != ProductTerraform {
		return fmt.Errorf("tool %q is unknown: use OpenTofu or Terraform", r.Product)
	}
	_, err := parseConstraints(r.Version)
	return err
}

// Meets reports whether a tool meets the requirement.
func (r ToolRequirement) Meets(product, version string) bool {
	constraints, err := parseConstraints(r.Version)
	found := toolVersion(version)
	if err != nil || found == "" || r.Product != "" && r.Product != product {
		return false
	}
	if semver.Prerelease(found) != "" && !strings.Contains(r.Version, "-") && r.Version != "" {
		// As in Terraform, a prerelease must be named.
		return false
	}
	return !slices.ContainsFunc(constraints, func(c constraint) bool { return !c.allows(found) })
}

var leadingZeros = regexp.MustCompile(`(^|[.-])0+(\d)`)

// toolVersion returns a version such as 1.10.6 or 1.11-rc1 in the form of package semver,
// or an empty string if it is not valid.
func toolVersion(text string) string {
	text = leadingZeros.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(text), "v"), "$1$2")
	end := strings.IndexAny(text+"-", "-+")
	missing := max(2-strings.Count(text[:end], "."), 0)
	return semver.Canonical("v" + text[:end] + strings.Repeat(".0", missing) + text[end:])
}

// CompareToolVersions returns -1, 0 or 1. A prerelease is before its release, and a version that
// is not valid before all others.
func CompareToolVersions(a, b string) int { return semver.Compare(toolVersion(a), toolVersion(b)) }

// constraint is one part of version constraints.
type constraint struct {
	operator, version string
	// prefix returns the part of a version that ~> keeps: all but the last number that is written.
	prefix func(version string) string
}

var constraintText = regexp.MustCompile(`^(=|!=|>=|<=|>|<|~>)?\s*(v?\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?)$`)

func parseConstraints(text string) ([]constraint, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var constraints []constraint
	for part := range strings.SplitSeq(text, ",") {
		match := constraintText.FindStringSubmatch(strings.TrimSpace(part))
		if match == nil || toolVersion(match[2]) == "" {
			return nil, errors.New("version " + strconv.Quote(text) + ` is not a version constraint: write for example "~> 1.10" or ">= 1.9, < 2"`)
		}
		c := constraint{operator: match[1], version: toolVersion(match[2]), prefix: semver.Major}
		if strings.Count(match[2], ".") > 1 {
			c.prefix = semver.MajorMinor
		}
		constraints = append(constraints, c)
	}
	return constraints, nil
}

func (c constraint) allows(version string) bool {
	order := semver.Compare(version, c.version)
	switch c.operator {
	case "!=":
		return order != 0
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case "~>":
		return order >= 0 && c.prefix(version) == c.prefix(c.version)
	default:
		return order == 0
	}
}
