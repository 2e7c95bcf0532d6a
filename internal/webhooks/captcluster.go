package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captclusters,versions=v1beta1,name=validation.captcluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captClusterRules = rules[*infrav1.CAPTCluster]{
	object: func(c *infrav1.CAPTCluster) field.ErrorList {
		return checkCluster(field.NewPath("spec"), &c.Spec)
	},
}

func checkCluster(spec *field.Path, c *infrav1.CAPTClusterSpec) field.ErrorList {
	return append(checkVariables(spec.Child("variables"), c.Variables),
		checkTags(spec.Child("additionalTags"), c.AdditionalTags)...)
}
