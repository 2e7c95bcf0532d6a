package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinedeployment,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments,versions=v1beta1,name=validation.captmachinedeployment.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinedeployment,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments,versions=v1beta1,name=default.captmachinedeployment.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachineDeploymentRules = rules[*infrav1.CAPTMachineDeployment]{
	object: func(d *infrav1.CAPTMachineDeployment) field.ErrorList {
		spec := field.NewPath("spec")
		errs := checkClusterLabel(field.NewPath("metadata", "labels"), d.Labels, d.Spec.ClusterName)
		errs = append(errs, checkMachineLabels(spec, &d.Spec.Selector, &d.Spec.Template.ObjectMeta, d.Spec.ClusterName)...)
		return append(errs, checkMachine(spec.Child("template", "spec"), &d.Spec.Template.Spec)...)
	},
}

func defaultMachineDeployment(d *infrav1.CAPTMachineDeployment) {
	defaultClusterLabel(d.Spec.ClusterName, &d.ObjectMeta, &d.Spec.Template.ObjectMeta, &d.Spec.Selector)
}
