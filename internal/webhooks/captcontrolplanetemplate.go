package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,versions=v1beta1,name=validation.captcontrolplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplanetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,versions=v1beta1,name=default.captcontrolplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captControlPlaneTemplateRules = rules[*controlplanev1.CAPTControlPlaneTemplate]{
	object: func(t *controlplanev1.CAPTControlPlaneTemplate) field.ErrorList {
		template := field.NewPath("spec", "template")
		spec, c := template.Child("spec"), &t.Spec.Template.Spec
		errs := t.Spec.Template.ObjectMeta.Validate(template.Child("metadata"))
		errs = append(errs, checkControlPlaneConfig(spec.Child("controlPlaneConfig"), c.ControlPlaneConfig)...)
		errs = append(errs, checkTags(spec.Child("additionalTags"), c.AdditionalTags)...)
		return append(errs, checkVariables(spec.Child("variables"), c.Variables)...)
	},
	change: immutableTemplate("CAPTControlPlaneTemplate", func(t *controlplanev1.CAPTControlPlaneTemplate) any { return t.Spec.Template }),
}

func referencesOfControlPlane(t *controlplanev1.CAPTControlPlaneTemplate) []*infrav1.TemplateReference {
	return []*infrav1.TemplateReference{&t.Spec.Template.Spec.WorkspaceTemplateRef}
}
