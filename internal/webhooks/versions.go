package webhooks

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// parseVersion parses a Kubernetes version and reports whether it has a patch.
// Without one, the patch is 0.
func parseVersion(text string) (v *version.Version, patch bool, err error) {
	text = strings.TrimPrefix(text, "v")
	core, _, _ := strings.Cut(strings.ReplaceAll(text, "+", "-"), "-")
	patch = strings.Count(core, ".") > 1
	if !patch {
		text = core + ".0" + strings.TrimPrefix(text, core)
	}
	v, err = version.ParseSemantic(text)
	return v, patch, err
}

// checkVersion rejects text that is not a version.
func checkVersion(path *field.Path, text string) field.ErrorList {
	if _, _, err := parseVersion(text); err != nil {
		return field.ErrorList{invalid(path, text, "must be a semantic version such as v1.33.0: numbers without leading zeros")}
	}
	return nil
}

// checkDowngrade rejects a version below the current one. A version without a
// patch is every patch of its minor version. Versions that do not parse are left
// to checkVersion.
func checkDowngrade(path *field.Path, current, desired string) field.ErrorList {
	from, _, err := parseVersion(current)
	if err != nil {
		return nil
	}
	to, patch, err := parseVersion(desired)
	if err != nil {
		return nil
	}
	sameMinor := from.Major() == to.Major() && from.Minor() == to.Minor()
	if !to.LessThan(from) || sameMinor && !patch {
		return nil
	}
	return field.ErrorList{invalid(path, desired, fmt.Sprintf(
		"a control plane cannot be downgraded from %s to %s: set %s or a later version", current, desired, current))}
}

// withPrefix returns a version with a leading v.
func withPrefix(text string) string {
	if text != "" && text[0] >= '0' && text[0] <= '9' {
		return "v" + text
	}
	return text
}
