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
// unresolved placeholders, which Resolve reports.
func ReferencesOf(s Sources) References {
	r := &resolver{Sources: s, used: map[string]bool{}}
	var refs References
	add := func(list *[]string, ref *infrav1.KeyReference) {
		if ref == nil {
			return
		}
		if name, err := r.expandReference("", ref.Name); err == nil {
			*list = append(*list, name)
		}
	}
	p := s.Template.Spec.Template.Spec.ForProvider
	if p.ModuleSecretReference != nil {
		refs.Secrets = append(refs.Secrets, p.ModuleSecretReference.Name)
	}
	for _, file := range p.VarFiles {
		add(&refs.Secrets, file.SecretKeyReference)
		add(&refs.ConfigMaps, file.ConfigMapKeyReference)
	}
	for _, v := range p.Vars {
		add(&refs.Secrets, v.SecretKeyReference)
		add(&refs.ConfigMaps, v.ConfigMapKeyReference)
	}
	for _, e := range p.Env {
		add(&refs.Secrets, e.SecretKeyReference)
		add(&refs.ConfigMaps, e.ConfigMapKeyReference)
	}
	if c := s.ProviderConfig; c != nil {
		for i := range c.Spec.Credentials {
			add(&refs.Secrets, &c.Spec.Credentials[i].SecretRef)
		}
		if e := c.Spec.StateEncryption; e != nil {
			add(&refs.Secrets, e.PassphraseSecretRef)
			add(&refs.Secrets, e.ConfigurationSecretRef)
		}
	}
	for _, list := range []*[]string{&refs.Secrets, &refs.ConfigMaps} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return refs
}
