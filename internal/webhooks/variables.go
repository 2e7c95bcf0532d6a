package webhooks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_]*$`)

// terraformNames are the names that Terraform reserves: no module can declare such
// a variable.
var terraformNames = []string{"source", "version", "providers", "count", "for_each", "lifecycle", "depends_on", "locals"}

// workspaceName is the placeholder for the name of a workspace.
const workspaceName = "WORKSPACE_NAME"

// workspacePlaceholders are the placeholders that CAPT sets.
var workspacePlaceholders = []string{workspaceName, "WORKSPACE_NAMESPACE", "WORKSPACE_UID"}

// checkVariables rejects names that no variable of a module can have.
func checkVariables(path *field.Path, variables map[string]infrav1.Value) field.ErrorList {
	errs := checkNames(path, variables)
	for _, name := range terraformNames {
		if _, ok := variables[name]; ok {
			errs = append(errs, invalid(path.Key(name), name,
				"the name is reserved by Terraform: use another one, for example kubernetes_version"))
		}
	}
	return errs
}

// checkNames rejects names that neither a variable nor a placeholder can have.
func checkNames(path *field.Path, variables map[string]infrav1.Value) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(variables) {
		switch {
		case len(name) > 128 || !variableName.MatchString(name):
			errs = append(errs, invalid(path.Key(name), name,
				"the name of a variable must start with a letter or '_' and have up to 128 letters, digits, '_' and '-'"))
		case slices.Contains(workspacePlaceholders, name):
			errs = append(errs, invalid(path.Key(name), name, fmt.Sprintf("${%s} is set by CAPT: remove it", name)))
		}
	}
	return errs
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// The limits of AWS for tags.
const (
	maxTagKey   = 128
	maxTagValue = 256
)

// checkTags rejects tags that AWS does not accept, before a run fails.
func checkTags(path *field.Path, tags map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(tags) {
		at := path.Key(key)
		switch {
		case key == "" || utf8.RuneCountInString(key) > maxTagKey:
			errs = append(errs, invalid(at, key, fmt.Sprintf("a tag's key must have 1 to %d characters", maxTagKey)))
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			errs = append(errs, invalid(at, key, "keys that start with aws: are reserved by AWS: use another key, for example team"))
		}
		if utf8.RuneCountInString(tags[key]) > maxTagValue {
			errs = append(errs, invalid(at, tags[key], fmt.Sprintf("a tag's value must have at most %d characters", maxTagValue)))
		}
	}
	return errs
}
