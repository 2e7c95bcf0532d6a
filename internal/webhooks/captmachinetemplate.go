package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinetemplates,versions=v1beta1,name=validation.captmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinetemplates,versions=v1beta1,name=default.captmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachineTemplateRules = rules[*infrav1.CAPTMachineTemplate]{
	object: func(t *infrav1.CAPTMachineTemplate) field.ErrorList {
		template := field.NewPath("spec", "template")
		return append(t.Spec.Template.ObjectMeta.Validate(template.Child("metadata")),
			checkMachine(template.Child("spec"), &t.Spec.Template.Spec)...)
	},
	change: immutableTemplate("CAPTMachineTemplate", func(t *infrav1.CAPTMachineTemplate) any { return t.Spec.Template }),
}

func referencesOfMachine(t *infrav1.CAPTMachineTemplate) []*infrav1.TemplateReference {
	return []*infrav1.TemplateReference{&t.Spec.Template.Spec.WorkspaceTemplateRef}
}
