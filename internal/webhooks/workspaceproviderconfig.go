package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspaceproviderconfig,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs,versions=v1beta1,name=validation.workspaceproviderconfig.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspaceProviderConfigRules = rules[*infrav1.WorkspaceProviderConfig]{
	kind: &infrav1.WorkspaceProviderConfig{},
	object: func(c *infrav1.WorkspaceProviderConfig) field.ErrorList {
		spec := field.NewPath("spec")
		errs := checkCredentials(spec.Child("credentials"), c.Spec.Credentials, c.Namespace)
		errs = append(errs, checkHCL(spec.Child("configuration"), "provider.tf", c.Spec.Configuration)...)
		if b := c.Spec.Backend; b != nil {
			path := spec.Child("backend", "configuration")
			errs = append(errs, checkHCL(path, "backend.tf", b.Configuration)...)
			errs = append(errs, checkPlaceholders(path, b.Configuration)...)
		}
		if e := c.Spec.StateEncryption; e != nil {
			path := spec.Child("stateEncryption")
			errs = append(errs, checkKey(path.Child("passphraseSecretRef"), "Secret", e.PassphraseSecretRef, c.Namespace)...)
			errs = append(errs, checkKey(path.Child("configurationSecretRef"), "Secret", e.ConfigurationSecretRef, c.Namespace)...)
		}
		return errs
	},
}

func checkCredentials(path *field.Path, credentials []infrav1.ProviderCredential, own string) field.ErrorList {
	var errs field.ErrorList
	seen := make(map[[2]string]bool, len(credentials))
	for i := range credentials {
		at, c := path.Index(i), &credentials[i]
		errs = append(errs, checkKey(at.Child("secretRef"), "Secret", &c.SecretRef, own)...)
		target := [2]string{c.Filename, c.Env}
		if seen[target] {
			errs = append(errs, duplicate(at, c.Filename+c.Env))
		}
		seen[target] = true
	}
	return errs
}
