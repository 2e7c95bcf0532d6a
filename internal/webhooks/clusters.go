package webhooks

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captclusters,versions=v1beta1,name=validation.captcluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captclustertemplates,versions=v1beta1,name=validation.captclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captclustertemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captclustertemplates,versions=v1beta1,name=default.captclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,versions=v1beta1,name=validation.captcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,versions=v1beta1,name=default.captcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,versions=v1beta1,name=validation.captcontrolplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1beta1-captcontrolplanetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,versions=v1beta1,name=default.captcontrolplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1beta1-captbootstrapconfigtemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigtemplates,versions=v1beta1,name=validation.captbootstrapconfigtemplate.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captClusterRules = rules[*infrav1.CAPTCluster]{
	kind: &infrav1.CAPTCluster{},
	object: func(c *infrav1.CAPTCluster) field.ErrorList {
		return checkCluster(field.NewPath("spec"), &c.Spec)
	},
}

var captClusterTemplateRules = templateRules(&infrav1.CAPTClusterTemplate{}, func(t *infrav1.CAPTClusterTemplate) templated {
	return templated{
		metadata: &t.Spec.Template.ObjectMeta, content: t.Spec.Template, ref: t.Spec.Template.Spec.TemplateRef(),
		check: func(spec *field.Path) field.ErrorList { return checkCluster(spec, &t.Spec.Template.Spec) },
	}
})

func checkCluster(spec *field.Path, c *infrav1.CAPTClusterSpec) field.ErrorList {
	return append(checkVariables(spec.Child("variables"), c.Variables),
		checkTags(spec.Child("additionalTags"), c.AdditionalTags)...)
}

var captBootstrapConfigTemplateRules = rules[*bootstrapv1.CAPTBootstrapConfigTemplate]{
	kind: &bootstrapv1.CAPTBootstrapConfigTemplate{},
	object: func(t *bootstrapv1.CAPTBootstrapConfigTemplate) field.ErrorList {
		return t.Spec.Template.ObjectMeta.Validate(field.NewPath("spec", "template", "metadata"))
	},
	change: immutableTemplate(func(t *bootstrapv1.CAPTBootstrapConfigTemplate) any { return t.Spec.Template }),
}

var captControlPlaneRules = rules[*controlplanev1.CAPTControlPlane]{
	kind: &controlplanev1.CAPTControlPlane{},
	object: func(c *controlplanev1.CAPTControlPlane) field.ErrorList {
		spec := field.NewPath("spec")
		return append(checkVersion(spec.Child("version"), c.Spec.Version), checkControlPlane(spec, c.Spec.ControlPlaneConfig, c.Spec.AdditionalTags, c.Spec.Variables)...)
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
	warn:      WarnOfSupport,
	defaulter: defaults[*controlplanev1.CAPTControlPlane](func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = withPrefix(c.Spec.Version) }),
}

var captControlPlaneTemplateRules = templateRules(&controlplanev1.CAPTControlPlaneTemplate{}, func(t *controlplanev1.CAPTControlPlaneTemplate) templated {
	c := &t.Spec.Template.Spec
	return templated{
		metadata: &t.Spec.Template.ObjectMeta, content: t.Spec.Template, ref: &c.WorkspaceTemplateRef,
		check: func(spec *field.Path) field.ErrorList {
			return checkControlPlane(spec, c.ControlPlaneConfig, c.AdditionalTags, c.Variables)
		},
	}
})

func checkControlPlane(spec *field.Path, config *controlplanev1.ControlPlaneConfig, tags map[string]string, variables map[string]infrav1.Value) field.ErrorList {
	errs := checkControlPlaneConfig(spec.Child("controlPlaneConfig"), config)
	errs = append(errs, checkTags(spec.Child("additionalTags"), tags)...)
	return append(errs, checkVariables(spec.Child("variables"), variables)...)
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
