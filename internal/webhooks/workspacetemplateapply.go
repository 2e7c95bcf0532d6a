package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspacetemplateapply,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,versions=v1beta1,name=validation.workspacetemplateapply.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspaceTemplateApplyRules = rules[*infrav1.WorkspaceTemplateApply]{
	kind: &infrav1.WorkspaceTemplateApply{},
	object: func(a *infrav1.WorkspaceTemplateApply) field.ErrorList {
		spec := field.NewPath("spec")
		errs := checkNames(spec.Child("variables"), a.Spec.Variables)
		if ref := a.Spec.WriteConnectionSecretToRef; ref != nil {
			path := spec.Child("writeConnectionSecretToRef")
			errs = append(errs, checkConnectionName(path.Child("name"), ref.Name, a.Spec.Variables)...)
			errs = append(errs, checkOwnNamespace(path.Child("namespace"), "Secret", ref.Namespace, a.Namespace)...)
		}
		errs = append(errs, checkWaitForSecrets(spec.Child("waitForSecrets"), a)...)
		return append(errs, checkWaitForWorkspaces(spec.Child("waitForWorkspaces"), a)...)
	},
	live:      checkLending,
	defaulter: authors{},
}

// checkLending rejects variables that a template of another namespace does not let this one
// set.
func checkLending(ctx context.Context, reader client.Reader, a *infrav1.WorkspaceTemplateApply) field.ErrorList {
	key := a.Spec.TemplateRef.Key(a.Namespace)
	if key.Namespace == a.Namespace || len(a.Spec.Variables) == 0 {
		return nil
	}
	template := &infrav1.WorkspaceTemplate{}
	if err := reader.Get(ctx, key, template); err != nil {
		return nil
	}
	var errs field.ErrorList
	for _, name := range sortedKeys(a.Spec.Variables) {
		if !template.MaySet(a.Namespace, name) {
			errs = append(errs, invalid(field.NewPath("spec", "variables").Key(name), name,
				fmt.Sprintf("WorkspaceTemplate %s does not let other namespaces set this variable: remove it, or ask the owners of the template to add it to spec.lending.variables", key)))
		}
	}
	return errs
}

func checkWaitForSecrets(path *field.Path, a *infrav1.WorkspaceTemplateApply) field.ErrorList {
	errs := checkList(path, "Secret", a.Spec.WaitForSecrets, a)
	for i, ref := range a.Spec.WaitForSecrets {
		errs = append(errs, checkOwnNamespace(path.Index(i).Child("namespace"), "Secret", ref.Namespace, a.Namespace)...)
		if own := a.Spec.WriteConnectionSecretToRef; own != nil && own.Name == ref.Name {
			errs = append(errs, invalid(path.Index(i).Child("name"), ref.Name,
				"the workspace writes this Secret itself (writeConnectionSecretToRef) and would wait forever: remove it"))
		}
	}
	return errs
}

func checkWaitForWorkspaces(path *field.Path, a *infrav1.WorkspaceTemplateApply) field.ErrorList {
	errs := checkList(path, "WorkspaceTemplateApply", a.Spec.WaitForWorkspaces, a)
	for i, ref := range a.Spec.WaitForWorkspaces {
		if ref.Name == a.Name && (ref.Namespace == "" || ref.Namespace == a.Namespace) {
			errs = append(errs, invalid(path.Index(i).Child("name"), ref.Name,
				"a workspace cannot wait for itself: remove it"))
		}
	}
	return errs
}
