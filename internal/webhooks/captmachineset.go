package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachineset,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,versions=v1beta1,name=validation.captmachineset.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachineset,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,versions=v1beta1,name=default.captmachineset.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachineSetRules = rules[*infrav1.CAPTMachineSet]{
	object: func(s *infrav1.CAPTMachineSet) field.ErrorList {
		spec := field.NewPath("spec")
		errs := checkClusterLabel(field.NewPath("metadata", "labels"), s.Labels, s.Spec.ClusterName)
		errs = append(errs, checkMachineLabels(spec, &s.Spec.Selector, &s.Spec.Template.ObjectMeta, s.Spec.ClusterName)...)
		return append(errs, checkMachine(spec.Child("template", "spec"), &s.Spec.Template.Spec)...)
	},
}

func defaultMachineSet(s *infrav1.CAPTMachineSet) {
	defaultClusterLabel(s.Spec.ClusterName, &s.ObjectMeta, &s.Spec.Template.ObjectMeta, &s.Spec.Selector)
}
