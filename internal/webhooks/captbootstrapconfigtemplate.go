package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1beta1-captbootstrapconfigtemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigtemplates,versions=v1beta1,name=validation.captbootstrapconfigtemplate.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captBootstrapConfigTemplateRules = rules[*bootstrapv1.CAPTBootstrapConfigTemplate]{
	object: func(t *bootstrapv1.CAPTBootstrapConfigTemplate) field.ErrorList {
		return t.Spec.Template.ObjectMeta.Validate(field.NewPath("spec", "template", "metadata"))
	},
	change: immutableTemplate("CAPTBootstrapConfigTemplate", func(t *bootstrapv1.CAPTBootstrapConfigTemplate) any { return t.Spec.Template }),
}
