package validate

import (
	"fmt"
	"reflect"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
)

// reference is what a field refers to.
type reference struct {
	path string
	key
}

// checkReferences looks for what objects refer to among what was given.
func (s *set) checkReferences() {
	for _, o := range s.objects {
		typed := s.typed[o]
		if typed == nil {
			continue
		}
		for _, r := range references(typed, typed.GetNamespace()) {
			s.checkReference(o, r)
		}
	}
}

func (s *set) checkReference(o *Object, r reference) {
	if s.byKey[r.key] != nil || strings.Contains(r.name, "${") {
		return
	}
	severity := Warning
	if s.Strict {
		severity = Error
	}
	text := fmt.Sprintf("%s %s is not among the given manifests: it must exist in namespace %s of the cluster", r.kind, r.name, r.namespace)
	var names []string
	for k := range s.byKey {
		switch {
		case k.group != r.group || k.kind != r.kind:
		case k.namespace == r.namespace:
			names = append(names, k.name)
		case k.name == r.name && r.kind == "WorkspaceProviderConfig":
			// It is looked for where workspaces are, not where their template is.
			return
		case k.name == r.name:
			text = fmt.Sprintf("%s %s is not in namespace %s but in %s: write its namespace, or move it", r.kind, r.name, r.namespace, k.namespace)
		}
	}
	if nearest, found := message.Nearest(r.name, names); found {
		text = fmt.Sprintf("%s %s is not among the given manifests: did you mean %s?", r.kind, r.name, nearest)
	}
	s.add(o.finding(severity, RuleReference, r.path, text))
}

// references are what an object's spec refers to.
func references(typed any, namespace string) []reference {
	spec := reflect.Indirect(reflect.ValueOf(typed)).FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	var found []reference
	walk(spec, "spec", "spec", func(path, name string, value any) bool {
		r, isReference := read(name, value, namespace)
		if r.path = path; isReference && r.name != "" && r.kind != "" {
			found = append(found, r)
		}
		return isReference
	})
	return found
}

// named are the kinds that fields with these names refer to.
var named = map[string]key{
	"providerConfigRef": {group: infrav1.GroupVersion.Group, kind: "WorkspaceProviderConfig"},
	"nodeGroupRef":      {group: infrav1.GroupVersion.Group, kind: "CAPTMachinePool"},
	"configMapRef":      {kind: "ConfigMap"},
	"dependsOn":         {group: addonsv1.GroupVersion.Group, kind: "CAPTAddon"},
	"waitForWorkspaces": {group: infrav1.GroupVersion.Group, kind: "WorkspaceTemplateApply"},
	"clusterName":       {group: clusterv1.GroupVersion.Group, kind: "Cluster"},
}

// read tells what a field refers to, if it refers to anything. Secrets are
// seldom kept in files, so references to them are left alone.
func read(name string, value any, namespace string) (r reference, isReference bool) {
	r.namespace = namespace
	elsewhere := ""
	switch v := value.(type) {
	case infrav1.TemplateReference:
		r.group, r.kind, r.name, elsewhere = infrav1.GroupVersion.Group, "WorkspaceTemplate", v.Name, v.Namespace
	case infrav1.LocalReference:
		r.key, r.name = named[name], v.Name
		r.namespace = namespace
	case infrav1.ObjectReference:
		r.key, r.name, elsewhere = named[name], v.Name, v.Namespace
		r.namespace = namespace
	case infrav1.KeyReference:
	case clusterv1.ContractVersionedObjectReference:
		r.group, r.kind, r.name = v.APIGroup, v.Kind, v.Name
	case clusterv1.ClusterClassTemplateReference:
		r.group, _, _ = strings.Cut(v.APIVersion, "/")
		r.kind, r.name = v.Kind, v.Name
	case clusterv1.ClusterClassRef:
		r.group, r.kind, r.name, elsewhere = clusterv1.GroupVersion.Group, "ClusterClass", v.Name, v.Namespace
	case string:
		if name != "clusterName" {
			return r, false
		}
		r.key, r.name = named[name], v
		r.namespace = namespace
	default:
		return r, false
	}
	if elsewhere != "" {
		r.namespace = elsewhere
	}
	return r, true
}

// walk visits every field of a value with its path and its name in JSON, until
// visit says that a field needs no closer look.
func walk(value reflect.Value, path, name string, visit func(path, name string, value any) bool) {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		if value.IsNil() {
			return
		}
		value = value.Elem()
	}
	if !value.CanInterface() || visit(path, name, value.Interface()) {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			f := value.Type().Field(i)
			child, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() || child == "-":
			case child == "" || strings.Contains(options, "inline"):
				walk(value.Field(i), path, name, visit)
			default:
				walk(value.Field(i), path+"."+child, child, visit)
			}
		}
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range value.Len() {
			walk(value.Index(i), fmt.Sprintf("%s[%d]", path, i), name, visit)
		}
	case reflect.Map:
		for _, k := range value.MapKeys() {
			walk(value.MapIndex(k), fmt.Sprintf("%s[%v]", path, k), name, visit)
		}
	default:
	}
}

// checkCycles finds objects that wait for each other in a circle.
func (s *set) checkCycles() {
	for _, field := range []string{"dependsOn", "waitForWorkspaces"} {
		waits := map[key][]reference{}
		for k, o := range s.byKey {
			typed := s.typed[o]
			if typed == nil || k.kind != named[field].kind || k.group != named[field].group {
				continue
			}
			for _, r := range references(typed, k.namespace) {
				if r.kind == k.kind && r.group == k.group {
					waits[k] = append(waits[k], r)
				}
			}
		}
		for k := range waits {
			if circle := circleFrom(waits, k); circle != nil {
				s.add(s.byKey[k].fail(RuleCycle, waits[k][0].path, "these wait for each other: %s: remove one of the references", strings.Join(circle, " → ")))
			}
		}
	}
}

// circleFrom is the way back to where it began, if there is one of several
// steps; an object that waits for itself is refused by the schema.
func circleFrom(waits map[key][]reference, start key) []string {
	seen := map[key]bool{}
	var follow func(at key, way []string) []string
	follow = func(at key, way []string) []string {
		for _, r := range waits[at] {
			if r.key == start {
				if len(way) > 1 {
					return append(way, start.name)
				}
				continue
			}
			if seen[r.key] {
				continue
			}
			seen[r.key] = true
			if circle := follow(r.key, append(way, r.name)); circle != nil {
				return circle
			}
		}
		return nil
	}
	return follow(start, []string{start.name})
}
