package adopt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Annotations of Crossplane.
const (
	// PausedAnnotation keeps Crossplane from reconciling an object.
	PausedAnnotation       = "crossplane.io/paused"
	externalNameAnnotation = "crossplane.io/external-name"
)

// Crossplane is a Workspace of Crossplane's Terraform provider, as CAPT's types describe it.
type Crossplane struct {
	Parameters infrav1.ModuleParameters
	// TerraformWorkspace is the workspace of Terraform that has the state.
	TerraformWorkspace string
	// Notes are what the user does.
	Notes []string
}

// FromCrossplane converts a Workspace for a namespace. It returns an error for a field that CAPT
// does not have.
func FromCrossplane(obj *unstructured.Unstructured, namespace string) (*Crossplane, error) {
	given, _, err := unstructured.NestedMap(obj.Object, "spec", "forProvider")
	if err != nil || given == nil {
		return nil, fmt.Errorf("%s %s has no spec.forProvider", obj.GetKind(), obj.GetName())
	}
	c := &Crossplane{TerraformWorkspace: obj.GetName()}
	if name := obj.GetAnnotations()[externalNameAnnotation]; name != "" {
		c.TerraformWorkspace = name
	}
	delete(given, "enableTerraformCLILogging")
	if policy, _ := given["remotePullPolicy"].(string); policy == "Always" && given["source"] == "Remote" {
		c.note("The module was fetched all the time; CAPT fetches it when the inputs change. source: Flux follows new revisions")
	}
	delete(given, "remotePullPolicy")
	if err := addVarMap(given); err != nil {
		return nil, err
	}
	if given["source"] == "Flux" {
		if err := c.setSourceRef(given, namespace); err != nil {
			return nil, err
		}
	}
	c.convert(given, namespace)
	if files, _ := given["varFiles"].([]any); len(files) > 0 {
		c.note("Write $${ for ${ in the variables files, unless it is a placeholder of CAPT")
	}
	if name, _, _ := unstructured.NestedString(obj.Object, "spec", "providerConfigRef", "name"); name != "" {
		c.note("Credentials, configuration and pluginCache of ProviderConfig %s belong into a WorkspaceProviderConfig: name it with --provider-config", name)
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("encoding spec.forProvider: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c.Parameters); err != nil {
		return nil, fmt.Errorf("spec.forProvider of %s: %w", obj.GetName(), err)
	}
	return c, nil
}

func (c *Crossplane) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// addVarMap adds the entries of varmap to vars.
func addVarMap(given map[string]any) error {
	entries, _ := given["varmap"].(map[string]any)
	delete(given, "varmap")
	if len(entries) == 0 {
		return nil
	}
	vars, _ := given["vars"].([]any)
	for _, v := range vars {
		if key, _ := v.(map[string]any)["key"].(string); entries[key] != nil {
			return fmt.Errorf("variable %s is in vars and in varmap: remove one of them", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		vars = append(vars, map[string]any{"key": key, "value": entries[key]})
	}
	given["vars"] = vars
	return nil
}

// setSourceRef replaces a module such as GitRepository::flux-system/infrastructure.
func (c *Crossplane) setSourceRef(given map[string]any, namespace string) error {
	module, _ := given["module"].(string)
	kind, path, _ := strings.Cut(module, "::")
	from, name, found := strings.Cut(path, "/")
	if !found {
		return errors.New("the module of a Flux source must have the form KIND::NAMESPACE/NAME")
	}
	if from != namespace {
		c.note("%s %s must be in namespace %s, that of the workspace", kind, name, namespace)
	}
	delete(given, "module")
	given["sourceRef"] = map[string]any{"kind": kind, "name": name}
	return nil
}

// convert escapes what CAPT would expand, and removes the namespaces of references.
func (c *Crossplane) convert(given map[string]any, namespace string) {
	for _, field := range []string{"vars", "env", "varFiles"} {
		items, _ := given[field].([]any)
		for _, item := range items {
			fields, isObject := item.(map[string]any)
			if !isObject {
				continue
			}
			if value, found := fields["value"]; found {
				fields["value"] = escape(value)
			}
			for kind, key := range map[string]string{"ConfigMap": "configMapKeyRef", "Secret": "secretKeyRef"} {
				ref, _ := fields[key].(map[string]any)
				if from, _ := ref["namespace"].(string); from != "" && from != namespace {
					c.note("%s %v of namespace %s must be copied into namespace %s", kind, ref["name"], from, namespace)
				}
				delete(ref, "namespace")
			}
			if value, _ := fields["value"].(string); field == "env" && value == "" && len(fields) > 2 {
				delete(fields, "value")
			}
		}
	}
}

// escape writes $${ for ${ in the strings of a value: Crossplane has no placeholders.
func escape(value any) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(v, "${", "$${")
	case []any:
		for i := range v {
			v[i] = escape(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = escape(v[key])
		}
	}
	return value
}
