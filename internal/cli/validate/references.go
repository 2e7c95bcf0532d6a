package validate

import (
	"fmt"
	"reflect"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/message"
)

// reference is a field and the object it refers to.
type reference struct {
	path string
	key
}

// checkReferences reports references to objects that are not among the manifests.
func (c *checker) checkReferences() {
	for _, o := range c.objects {
		typed := c.typed[o]
		if typed == nil {
			continue
		}
		for _, r := range references(typed, typed.GetNamespace()) {
			if !c.checkContract(o, r) {
				c.checkReference(o, r)
			}
		}
	}
}

func (c *checker) checkReference(o *Object, r reference) {
	if c.byKey[r.key] != nil || strings.Contains(r.name, "${") {
		return
	}
	severity := Warning
	if c.Strict {
		severity = Error
	}
	text := fmt.Sprintf("%s %s is not among the manifests: it must exist in namespace %s of the cluster", r.kind, r.name, r.namespace)
	var names []string
	for k := range c.byKey {
		switch {
		case k.group != r.group || k.kind != r.kind:
		case k.namespace == r.namespace:
			names = append(names, k.name)
		case k.name == r.name && r.kind == "WorkspaceProviderConfig":
			// Its namespace is that of the workspace, not of the template.
			return
		case k.name == r.name:
			text = fmt.Sprintf("%s %s is not in namespace %s but in %s: set the namespace of the reference, or move the object", r.kind, r.name, r.namespace, k.namespace)
		}
	}
	if nearest, found := message.Nearest(r.name, names); found {
		text = fmt.Sprintf("%s %s is not among the manifests: did you mean %s?", r.kind, r.name, nearest)
	}
	c.add(o.finding(severity, RuleReference, r.path, text))
}

// references returns the references in the spec of an object.
func references(typed any, namespace string) []reference {
	spec := reflect.Indirect(reflect.ValueOf(typed)).FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	var found []reference
	walk(spec, "spec", "spec", func(path, name string, value any) bool {
		r, isReference := referenceOf(name, value, namespace)
		if r.path = path; isReference && r.name != "" && r.kind != "" {
			found = append(found, r)
		}
		return isReference
	})
	return found
}

// kindOfField are the kinds that fields with these names refer to.
var kindOfField = map[string]key{
	"providerConfigRef": {group: infrav1.GroupVersion.Group, kind: "WorkspaceProviderConfig"},
	"nodeGroupRef":      {group: infrav1.GroupVersion.Group, kind: "CAPTMachinePool"},
	"configMapRef":      {kind: "ConfigMap"},
	"dependsOn":         {group: addonsv1.GroupVersion.Group, kind: "CAPTAddon"},
	"waitForWorkspaces": {group: infrav1.GroupVersion.Group, kind: "WorkspaceTemplateApply"},
	"clusterName":       {group: clusterv1.GroupVersion.Group, kind: "Cluster"},
}

// referenceOf returns the reference of a field, and whether the field is one. References
// to Secrets have no kind and are not checked, because Secrets are rarely among the
// manifests.
func referenceOf(name string, value any, namespace string) (r reference, isReference bool) {
	r.namespace = namespace
	explicit := ""
	switch v := value.(type) {
	case infrav1.TemplateReference:
		r.group, r.kind, r.name, explicit = infrav1.GroupVersion.Group, "WorkspaceTemplate", v.Name, v.Namespace
	case infrav1.LocalReference:
		r.key, r.name = kindOfField[name], v.Name
		r.namespace = namespace
	case infrav1.ObjectReference:
		r.key, r.name, explicit = kindOfField[name], v.Name, v.Namespace
		r.namespace = namespace
	case infrav1.KeyReference:
	case clusterv1.ContractVersionedObjectReference:
		r.group, r.kind, r.name = v.APIGroup, v.Kind, v.Name
	case clusterv1.ClusterClassTemplateReference:
		r.group, _, _ = strings.Cut(v.APIVersion, "/")
		r.kind, r.name = v.Kind, v.Name
	case clusterv1.MachineHealthCheckRemediationTemplateReference:
		r.group, _, _ = strings.Cut(v.APIVersion, "/")
		r.kind, r.name = v.Kind, v.Name
	case clusterv1.ClusterClassRef:
		r.group, r.kind, r.name, explicit = clusterv1.GroupVersion.Group, "ClusterClass", v.Name, v.Namespace
	case string:
		if name != "clusterName" {
			return r, false
		}
		r.key, r.name = kindOfField[name], v
		r.namespace = namespace
	default:
		return r, false
	}
	if explicit != "" {
		r.namespace = explicit
	}
	return r, true
}

// walk calls visit for every field of a value with its path and JSON name. It does not
// descend into fields for which visit returns true.
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

// checkCycles reports objects that depend on each other in a cycle.
func (c *checker) checkCycles() {
	for _, field := range []string{"dependsOn", "waitForWorkspaces"} {
		dependencies := map[key][]reference{}
		for k, o := range c.byKey {
			typed := c.typed[o]
			if typed == nil || k.kind != kindOfField[field].kind || k.group != kindOfField[field].group {
				continue
			}
			for _, r := range references(typed, k.namespace) {
				if r.kind == k.kind && r.group == k.group {
					dependencies[k] = append(dependencies[k], r)
				}
			}
		}
		for k := range dependencies {
			if cycle := cycleFrom(dependencies, k); cycle != nil {
				c.add(c.byKey[k].fail(RuleCycle, dependencies[k][0].path, "dependency cycle %s: remove one of the references", strings.Join(cycle, " → ")))
			}
		}
	}
}

// cycleFrom returns the names on a path from start back to start, or nil. It ignores
// objects that depend on themselves, which the schema rejects.
func cycleFrom(dependencies map[key][]reference, start key) []string {
	// Reading a map does not fail.
	cycle, _ := object.Cycle(start, func(k key) ([]key, error) {
		var others []key
		for _, r := range dependencies[k] {
			if r.key != k {
				others = append(others, r.key)
			}
		}
		return others, nil
	})
	var names []string
	for _, k := range cycle {
		names = append(names, k.name)
	}
	return names
}
