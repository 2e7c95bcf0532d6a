package webhooks

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachines,versions=v1beta1,name=validation.captmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachineRules = rules[*infrav1.CAPTMachine]{
	object: func(m *infrav1.CAPTMachine) field.ErrorList {
		return checkMachine(field.NewPath("spec"), &m.Spec)
	},
}

func checkMachine(spec *field.Path, m *infrav1.CAPTMachineSpec) field.ErrorList {
	errs := metav1validation.ValidateLabels(m.Labels, spec.Child("labels"))
	errs = append(errs, checkTags(spec.Child("tags"), m.Tags)...)
	return append(errs, checkVariables(spec.Child("variables"), m.Variables)...)
}
