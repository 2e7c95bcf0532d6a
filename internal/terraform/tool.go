package terraform

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
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

// Since returns the requirement for this product in this version or a newer one, or nil if
// nothing is known.
func (t Tool) Since() *ToolRequirement {
	_, valid := ParseToolVersion(t.Version)
	switch {
	case valid:
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
	found, ok := ParseToolVersion(version)
	if err != nil || !ok || r.Product != "" && r.Product != product {
		return false
	}
	if found.pre != "" && !strings.Contains(r.Version, "-") && r.Version != "" {
		// As in Terraform, a prerelease must be named.
		return false
	}
	for _, c := range constraints {
		if !c.allows(found) {
			return false
		}
	}
	return true
}

// ToolVersion is a version of a tool.
type ToolVersion struct {
	numbers [3]int
	pre     string
}

var toolVersion = regexp.MustCompile(`^v?(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)

// ParseToolVersion parses a version such as 1.10.6 or 1.11.0-rc1.
func ParseToolVersion(text string) (version ToolVersion, ok bool) {
	match := toolVersion.FindStringSubmatch(strings.TrimSpace(text))
	if match == nil {
		return version, false
	}
	for i := range version.numbers {
		version.numbers[i], _ = strconv.Atoi(match[i+1]) // A missing part is 0.
	}
	version.pre = match[4]
	return version, true
}

// Compare returns -1, 0 or 1. A prerelease is before its release.
func (v ToolVersion) Compare(other ToolVersion) int {
	for i := range v.numbers {
		if v.numbers[i] != other.numbers[i] {
			return sign(v.numbers[i] - other.numbers[i])
		}
	}
	switch {
	case v.pre == other.pre:
		return 0
	case v.pre == "":
		return 1
	case other.pre == "":
		return -1
	default:
		return strings.Compare(v.pre, other.pre)
	}
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// constraint is one part of version constraints.
type constraint struct {
	operator string
	version  ToolVersion
	// parts is how many numbers the version has.
	parts int
}

var constraintText = regexp.MustCompile(`^(=|!=|>=|<=|>|<|~>)?\s*(v?\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?)$`)

func parseConstraints(text string) ([]constraint, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var constraints []constraint
	for part := range strings.SplitSeq(text, ",") {
		match := constraintText.FindStringSubmatch(strings.TrimSpace(part))
		if match == nil {
			return nil, errors.New("version " + strconv.Quote(text) + ` is not a version constraint: write for example "~> 1.10" or ">= 1.9, < 2"`)
		}
		version, _ := ParseToolVersion(match[2])
		constraints = append(constraints, constraint{operator: match[1], version: version, parts: strings.Count(match[2], ".") + 1})
	}
	return constraints, nil
}

func (c constraint) allows(v ToolVersion) bool {
	order := v.Compare(c.version)
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
		// Only the last number that is written may increase.
		for i := range max(c.parts-1, 1) {
			if v.numbers[i] != c.version.numbers[i] {
				return false
			}
		}
		return order >= 0
	default:
		return order == 0
	}
}
