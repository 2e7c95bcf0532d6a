package webhooks

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// parseVersion reads a Kubernetes version; without a patch it stands for every
// patch of its minor.
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

// checkVersion refuses what is no version.
func checkVersion(path *field.Path, text string) field.ErrorList {
	if _, _, err := parseVersion(text); err != nil {
		return field.ErrorList{invalid(path, text, "must be a semantic version such as v1.33.0: numbers without leading zeros")}
	}
	return nil
}

// checkDowngrade refuses a version below the current one. Versions that do not
// parse are another rule's concern.
func checkDowngrade(path *field.Path, current, wanted string) field.ErrorList {
	from, _, err := parseVersion(current)
	if err != nil {
		return nil
	}
	to, patch, err := parseVersion(wanted)
	if err != nil {
		return nil
	}
	sameMinor := from.Major() == to.Major() && from.Minor() == to.Minor()
	if !to.LessThan(from) || sameMinor && !patch {
		return nil
	}
	return field.ErrorList{invalid(path, wanted, fmt.Sprintf(
		"a control plane cannot be downgraded: it is at %s, and %s is wanted; write %s or a later version", current, wanted, current))}
}

// withPrefix puts the v before a version that lacks it.
func withPrefix(text string) string {
	if text != "" && text[0] >= '0' && text[0] <= '9' {
		return "v" + text
	}
	return text
}
