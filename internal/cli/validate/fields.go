package validate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/appthrust/capt/internal/message"
)

// unknownField words a field that a kind does not have.
func unknownField(path string, known []string) string {
	name := path[strings.LastIndexAny(path, ".")+1:]
	text := fmt.Sprintf("unknown field %q", path)
	if nearest, found := message.Nearest(name, known); found {
		return text + fmt.Sprintf(": did you mean %s?", nearest)
	}
	if len(known) == 0 {
		return text + ": remove it"
	}
	slices.Sort(known)
	const most = 12
	more := ""
	if len(known) > most {
		known, more = known[:most], " …"
	}
	return text + ": known are " + strings.Join(known, ", ") + more
}

var index = regexp.MustCompile(`\[\d+\]`)

// schemaPath is the path to the parent of a field, as a schema goes.
func schemaPath(path string) []string {
	parts := strings.Split(index.ReplaceAllString(path, ".[]"), ".")
	return parts[:len(parts)-1]
}

// strictError is how the JSON library words a field that a type does not have.
var strictError = regexp.MustCompile(`^unknown field "(.*)"$`)

// decode reads an object into its Go type. Fields that the type does not have
// are findings; an object that cannot be read at all has an error.
func (o *Object) decode(scheme *runtime.Scheme) (runtime.Object, []Finding, error) {
	typed, err := scheme.New(o.GroupVersionKind())
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return nil, nil, err
	}
	strict, err := kjson.UnmarshalStrict(text, typed)
	if err != nil {
		return nil, nil, err
	}
	var findings []Finding
	for _, problem := range strict {
		match := strictError.FindStringSubmatch(problem.Error())
		if match == nil {
			findings = append(findings, o.fail(RuleUnknownField, "", "%v", problem))
			continue
		}
		findings = append(findings, o.finding(Error, RuleUnknownField, match[1], unknownField(match[1], fieldsOf(typed, match[1]))))
	}
	return typed, findings, nil
}

// knownKinds are the kinds of a group, for a kind that it does not have.
func knownKinds(all map[schema.GroupVersionKind]*kind, scheme *runtime.Scheme, group string) (kinds, versions []string) {
	for gvk := range all {
		if gvk.Group == group {
			kinds, versions = append(kinds, gvk.Kind), append(versions, gvk.GroupVersion().String())
		}
	}
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Group == group && gvk.Version != runtime.APIVersionInternal && !strings.HasSuffix(gvk.Kind, "List") && !strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "WatchEvent" {
			kinds, versions = append(kinds, gvk.Kind), append(versions, gvk.GroupVersion().String())
		}
	}
	slices.Sort(kinds)
	slices.Sort(versions)
	return slices.Compact(kinds), slices.Compact(versions)
}
