package webhooks

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspacetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,versions=v1beta1,name=validation.workspacetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspaceTemplateRules = rules[*infrav1.WorkspaceTemplate]{
	kind: &infrav1.WorkspaceTemplate{},
	object: func(t *infrav1.WorkspaceTemplate) field.ErrorList {
		spec := field.NewPath("spec", "template", "spec")
		errs := checkModule(spec.Child("forProvider"), &t.Spec.Template.Spec.ForProvider, t.Namespace)
		if ref := t.Spec.Template.Spec.WriteConnectionSecretToRef; ref != nil {
			errs = append(errs, checkConnectionName(spec.Child("writeConnectionSecretToRef", "name"), ref.Name, nil)...)
		}
		return append(errs, checkOutputs(spec.Child("outputs"), t.Spec.Template.Spec.Outputs)...)
	},
}

// checkOutputs checks that selected outputs have different names.
func checkOutputs(path *field.Path, outputs []infrav1.SelectedOutput) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, o := range outputs {
		if seen[o.Key()] {
			errs = append(errs, invalid(path.Index(i).Child("as"), o.Key(), "another output has this name: choose another one"))
		}
		seen[o.Key()] = true
	}
	return errs
}

// checkModule checks a module and its inputs. It cannot check that placeholders
// have a value, which depends on the workspace.
func checkModule(path *field.Path, m *infrav1.ModuleParameters, own string) field.ErrorList {
	var errs field.ErrorList
	if m.Source == infrav1.ModuleSourceInline {
		if m.InlineFormat == infrav1.FileFormatJSON {
			errs = append(errs, checkJSONModule(path.Child("module"), "main.tf.json", m.Module)...)
		} else {
			errs = append(errs, checkHCL(path.Child("module"), "main.tf", m.Module)...)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Files)) {
			if strings.HasSuffix(name, ".tf") {
				errs = append(errs, checkHCL(path.Child("files").Key(name), name, m.Files[name])...)
			}
		}
	}
	for i := range m.Vars {
		errs = append(errs, checkVar(path.Child("vars").Index(i), &m.Vars[i], own)...)
	}
	for i := range m.VarFiles {
		at, file := path.Child("varFiles").Index(i), &m.VarFiles[i]
		errs = append(errs, checkKey(at.Child("configMapKeyRef"), "ConfigMap", file.ConfigMapKeyReference, own)...)
		errs = append(errs, checkKey(at.Child("secretKeyRef"), "Secret", file.SecretKeyReference, own)...)
	}
	for i := range m.Env {
		at, env := path.Child("env").Index(i), &m.Env[i]
		if env.Value != nil {
			errs = append(errs, checkPlaceholders(at.Child("value"), *env.Value)...)
		}
		errs = append(errs, checkKey(at.Child("configMapKeyRef"), "ConfigMap", env.ConfigMapKeyReference, own)...)
		errs = append(errs, checkKey(at.Child("secretKeyRef"), "Secret", env.SecretKeyReference, own)...)
	}
	return errs
}

// checkVar checks a variable, whose value must come from exactly one field.
func checkVar(path *field.Path, v *infrav1.Variable, own string) field.ErrorList {
	errs := checkKey(path.Child("configMapKeyRef"), "ConfigMap", v.ConfigMapKeyReference, own)
	errs = append(errs, checkKey(path.Child("secretKeyRef"), "Secret", v.SecretKeyReference, own)...)
	given := 0
	for _, set := range []bool{!v.Value.IsZero(), v.ConfigMapKeyReference != nil, v.SecretKeyReference != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		errs = append(errs, invalid(path, string(v.Key), "set exactly one of value, configMapKeyRef and secretKeyRef"))
	}
	if v.Value.IsZero() {
		return errs
	}
	return append(errs, eachString(path.Child("value"), v.Value.Raw, checkPlaceholders)...)
}
