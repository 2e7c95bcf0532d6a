package template

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// References are the names of the Secrets and ConfigMaps that Resolve reads.
type References struct {
	Secrets    []string
	ConfigMaps []string
}

// ReferencesOf returns the objects to read before Resolve. It omits names with
// unresolved placeholders and those of Secrets of CAPT, which Resolve reports.
func ReferencesOf(s Sources) References {
	r := newResolver(s)
	var refs References
	secret := func(ref *infrav1.KeyReference) {
		if ref == nil {
			return
		}
		if name, err := r.expandSecret("", ref.Name); err == nil {
			refs.Secrets = append(refs.Secrets, name)
		}
	}
	configMap := func(ref *infrav1.KeyReference) {
		if ref == nil {
			return
		}
		if name, err := r.expandReference("", ref.Name); err == nil {
			refs.ConfigMaps = append(refs.ConfigMaps, name)
		}
	}
	p := s.Template.Spec.Template.Spec.ForProvider
	if p.ModuleSecretReference != nil && !infrav1.IsReservedSecretName(p.ModuleSecretReference.Name) {
		refs.Secrets = append(refs.Secrets, p.ModuleSecretReference.Name)
	}
	for _, file := range p.VarFiles {
		secret(file.SecretKeyReference)
		configMap(file.ConfigMapKeyReference)
	}
	for _, v := range p.Vars {
		secret(v.SecretKeyReference)
		configMap(v.ConfigMapKeyReference)
	}
	for _, e := range p.Env {
		secret(e.SecretKeyReference)
		configMap(e.ConfigMapKeyReference)
	}
	if c := s.ProviderConfig; c != nil {
		for i := range c.Spec.Credentials {
			secret(&c.Spec.Credentials[i].SecretRef)
		}
		if e := c.Spec.StateEncryption; e != nil {
			secret(e.PassphraseSecretRef)
			secret(e.ConfigurationSecretRef)
		}
	}
	for _, list := range []*[]string{&refs.Secrets, &refs.ConfigMaps} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return refs
}
