package webhooks

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinepool,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,versions=v1beta1,name=validation.captmachinepool.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachinePoolRules = rules[*infrav1.CAPTMachinePool]{
	object: func(p *infrav1.CAPTMachinePool) field.ErrorList {
		return checkMachinePool(field.NewPath("spec"), &p.Spec)
	},
}

func checkMachinePool(spec *field.Path, p *infrav1.CAPTMachinePoolSpec) field.ErrorList {
	errs := metav1validation.ValidateLabels(p.Labels, spec.Child("labels"))
	errs = append(errs, checkTags(spec.Child("tags"), p.Tags)...)
	return append(errs, checkVariables(spec.Child("variables"), p.Variables)...)
}
