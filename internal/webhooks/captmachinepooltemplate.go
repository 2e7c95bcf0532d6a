package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinepooltemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepooltemplates,versions=v1beta1,name=validation.captmachinepooltemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinepooltemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepooltemplates,versions=v1beta1,name=default.captmachinepooltemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachinePoolTemplateRules = rules[*infrav1.CAPTMachinePoolTemplate]{
	object: func(t *infrav1.CAPTMachinePoolTemplate) field.ErrorList {
		template := field.NewPath("spec", "template")
		return append(t.Spec.Template.ObjectMeta.Validate(template.Child("metadata")),
			checkMachinePool(template.Child("spec"), &t.Spec.Template.Spec)...)
	},
	change: immutableTemplate("CAPTMachinePoolTemplate", func(t *infrav1.CAPTMachinePoolTemplate) any { return t.Spec.Template }),
}

func referencesOfMachinePool(t *infrav1.CAPTMachinePoolTemplate) []*infrav1.TemplateReference {
	return []*infrav1.TemplateReference{&t.Spec.Template.Spec.WorkspaceTemplateRef}
}
