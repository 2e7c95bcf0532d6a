package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspacenotification,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacenotifications,versions=v1beta1,name=validation.workspacenotification.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspaceNotificationRules = rules[*infrav1.WorkspaceNotification]{
	object: func(n *infrav1.WorkspaceNotification) field.ErrorList {
		return checkOptionalSelector(field.NewPath("spec", "selector"), n.Spec.Selector)
	},
}
