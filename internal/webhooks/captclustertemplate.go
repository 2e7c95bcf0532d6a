package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captclustertemplates,versions=v1beta1,name=validation.captclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captclustertemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captclustertemplates,versions=v1beta1,name=default.captclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captClusterTemplateRules = rules[*infrav1.CAPTClusterTemplate]{
	object: func(t *infrav1.CAPTClusterTemplate) field.ErrorList {
		template := field.NewPath("spec", "template")
		return append(t.Spec.Template.ObjectMeta.Validate(template.Child("metadata")),
			checkCluster(template.Child("spec"), &t.Spec.Template.Spec)...)
	},
	change: immutableTemplate("CAPTClusterTemplate", func(t *infrav1.CAPTClusterTemplate) any { return t.Spec.Template }),
}

func referencesOfCluster(t *infrav1.CAPTClusterTemplate) []*infrav1.TemplateReference {
	return []*infrav1.TemplateReference{t.Spec.Template.Spec.VPCTemplateRef}
}
