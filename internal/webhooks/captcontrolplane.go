package webhooks

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,versions=v1beta1,name=validation.captcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,versions=v1beta1,name=default.captcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captControlPlaneRules = rules[*controlplanev1.CAPTControlPlane]{
	object: func(c *controlplanev1.CAPTControlPlane) field.ErrorList {
		spec := field.NewPath("spec")
		errs := checkVersion(spec.Child("version"), c.Spec.Version)
		errs = append(errs, checkControlPlaneConfig(spec.Child("controlPlaneConfig"), c.Spec.ControlPlaneConfig)...)
		errs = append(errs, checkTags(spec.Child("additionalTags"), c.Spec.AdditionalTags)...)
		return append(errs, checkVariables(spec.Child("variables"), c.Spec.Variables)...)
	},
	change: func(_ context.Context, before, after *controlplanev1.CAPTControlPlane) field.ErrorList {
		if before.Spec.Version == after.Spec.Version {
			return nil
		}
		path := field.NewPath("spec", "version")
		if errs := checkDowngrade(path, before.Spec.Version, after.Spec.Version); len(errs) > 0 {
			return errs
		}
		return checkDowngrade(path, before.Status.Version, after.Spec.Version)
	},
	warn: WarnOfSupport,
}

// WarnOfSupport returns a warning if the version of an EKS control plane is not in
// standard support, and an empty string otherwise.
func WarnOfSupport(c *controlplanev1.CAPTControlPlane, now time.Time) string {
	if !signsForEKS(c.Spec.Kubeconfig) {
		return ""
	}
	if warning := kubeversion.EKSWarning(c.Spec.Version, now); warning != "" {
		return "spec.version: " + warning
	}
	return ""
}

// signsForEKS reports whether a kubeconfig is one of an EKS cluster, which is the
// default.
func signsForEKS(c *controlplanev1.KubeconfigConfig) bool {
	return c == nil || c.Source == "" || c.Source == controlplanev1.KubeconfigSourceEKS
}

func checkControlPlaneConfig(path *field.Path, c *controlplanev1.ControlPlaneConfig) field.ErrorList {
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	for i, addon := range c.Addons {
		if addon.ConfigurationValues == "" {
			continue
		}
		var values map[string]any
		if err := json.Unmarshal([]byte(addon.ConfigurationValues), &values); err != nil || values == nil {
			errs = append(errs, invalid(path.Child("addons").Index(i).Child("configurationValues"), addon.ConfigurationValues,
				`must be a JSON object, for example {"replicaCount": 2}`))
		}
	}
	return errs
}

func defaultControlPlane(c *controlplanev1.CAPTControlPlane) {
	c.Spec.Version = withPrefix(c.Spec.Version)
}
