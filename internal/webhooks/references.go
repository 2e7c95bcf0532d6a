package webhooks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// checkName rejects names that are not valid after their placeholders are
// resolved.
func checkName(path *field.Path, kind, name string) field.ErrorList {
	resolved, err := placeholder.Expand(name, func(string) (string, bool) { return "x", true })
	if err != nil {
		return field.ErrorList{invalid(path, name, err.Error())}
	}
	if len(validation.IsDNS1123Subdomain(resolved)) > 0 {
		return field.ErrorList{invalid(path, name, fmt.Sprintf(
			"must be the name of a %s: lower-case letters, digits, '-' and '.', and ${...} placeholders", kind))}
	}
	return nil
}

// checkExpandedName is checkName with the values that a workspace has for the placeholders. The
// controller reports those without a value.
func checkExpandedName(path *field.Path, kind, name string, variables map[string]infrav1.Value) field.ErrorList {
	if errs := checkName(path, kind, name); len(errs) > 0 {
		return errs
	}
	const limit = validation.DNS1123SubdomainMaxLength
	resolved, err := placeholder.ExpandUpTo(name, limit, func(variable string) (string, bool) {
		value, found := variables[variable]
		if !found {
			return "x", true
		}
		return placeholder.Value(value.Raw, limit), true
	})
	if err != nil {
		return field.ErrorList{invalid(path, name, err.Error())}
	}
	if len(validation.IsDNS1123Subdomain(resolved)) > 0 {
		return field.ErrorList{invalid(path, name, fmt.Sprintf(
			"must be the name of a %s with the values of spec.variables, not %q: lower-case letters, digits, '-' and '.'", kind, message.TruncateWidth(resolved, maxQuoted)))}
	}
	return nil
}

// checkConnectionName rejects the names of Secrets that belong to CAPT or Cluster API. The
// controller checks names with placeholders.
func checkConnectionName(path *field.Path, name string, variables map[string]infrav1.Value) field.ErrorList {
	if infrav1.IsReservedSecretName(name) || infrav1.IsClusterSecretName(name) {
		return field.ErrorList{invalid(path, name,
			"CAPT or Cluster API uses Secrets with such names for something else: choose another name, for example ${WORKSPACE_NAME}-connection")}
	}
	return checkExpandedName(path, "Secret", name, variables)
}

// checkOwnNamespace rejects a namespace other than that of the object itself.
func checkOwnNamespace(path *field.Path, kind, namespace, own string) field.ErrorList {
	if namespace == "" || namespace == own {
		return nil
	}
	return field.ErrorList{invalid(path, namespace, fmt.Sprintf(
		"must be %s, the namespace of this object, or empty: a %s in another namespace cannot be used", own, kind))}
}

// checkKey checks a reference to a key of a Secret or ConfigMap.
func checkKey(path *field.Path, kind string, ref *infrav1.KeyReference, own string) field.ErrorList {
	if ref == nil {
		return nil
	}
	return append(checkName(path.Child("name"), kind, ref.Name),
		checkOwnNamespace(path.Child("namespace"), kind, ref.Namespace, own)...)
}

// checkList checks the references of a workspace's list and rejects duplicates.
func checkList(path *field.Path, kind string, refs []infrav1.ObjectReference, a *infrav1.WorkspaceTemplateApply) field.ErrorList {
	var errs field.ErrorList
	seen := make(map[infrav1.ObjectReference]bool, len(refs))
	for i, ref := range refs {
		errs = append(errs, checkExpandedName(path.Index(i).Child("name"), kind, ref.Name, a.Spec.Variables)...)
		if ref.Namespace == "" {
			ref.Namespace = a.Namespace
		}
		if seen[ref] {
			errs = append(errs, duplicate(path.Index(i), ref.Namespace+"/"+ref.Name))
		}
		seen[ref] = true
	}
	return errs
}
