package template

import (
	"maps"
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
	secrets, configMaps := map[string]bool{}, map[string]bool{}
	add := func(secret, configMap *infrav1.KeyReference) {
		ref, expand, names := refOf(secret, configMap), r.expandReference, configMaps
		if ref.secret {
			expand, names = r.expandSecret, secrets
		}
		if ref.KeyReference == nil {
			return
		}
		if name, err := expand("", ref.Name); err == nil {
			names[name] = true
		}
	}
	p := s.Template.Spec.Template.Spec.ForProvider
	for _, c := range p.ModuleCredentials {
		if !infrav1.IsReservedSecretName(c.SecretRef.Name) {
			secrets[c.SecretRef.Name] = true
		}
	}
	for _, file := range p.VarFiles {
		add(file.SecretKeyReference, file.ConfigMapKeyReference)
	}
	for _, v := range p.Vars {
		add(v.SecretKeyReference, v.ConfigMapKeyReference)
	}
	for _, e := range p.Env {
		add(e.SecretKeyReference, e.ConfigMapKeyReference)
	}
	if c := s.ProviderConfig; c != nil {
		for i := range c.Spec.Credentials {
			add(&c.Spec.Credentials[i].SecretRef, nil)
		}
		if e := c.Spec.StateEncryption; e != nil {
			add(e.PassphraseSecretRef, nil)
			add(e.ConfigurationSecretRef, nil)
		}
	}
	return References{Secrets: slices.Sorted(maps.Keys(secrets)), ConfigMaps: slices.Sorted(maps.Keys(configMaps))}
}

// keyRef names a key of a Secret or a ConfigMap.
type keyRef struct {
	*infrav1.KeyReference
	secret bool
}

// refOf returns the one of two references that is set, if any.
func refOf(secret, configMap *infrav1.KeyReference) keyRef {
	if secret != nil {
		return keyRef{secret, true}
	}
	return keyRef{configMap, false}
}

func (k keyRef) kind() string {
	if k.secret {
		return "Secret"
	}
	return "ConfigMap"
}

// maxData limits the Secrets and ConfigMaps that Resolve reads for a workspace, in bytes.
const maxData = 4 << 20

// Data collects the Secrets and ConfigMaps of a workspace.
type Data struct {
	sources *Sources
	left    int
}

// NewData returns what sets the Secrets and ConfigMaps of the sources.
func NewData(s *Sources) *Data {
	s.Secrets, s.ConfigMaps = map[string]map[string][]byte{}, map[string]map[string][]byte{}
	return &Data{sources: s, left: maxData}
}

// AddSecret adds the data of a Secret. It returns a *Problem if all data are too large.
func (d *Data) AddSecret(name string, data map[string][]byte) error {
	d.sources.Secrets[name] = data
	return d.spend("Secret", name, data)
}

// AddConfigMap adds the data of a ConfigMap. It returns a *Problem if all data are too large.
func (d *Data) AddConfigMap(name string, data map[string][]byte) error {
	d.sources.ConfigMaps[name] = data
	return d.spend("ConfigMap", name, data)
}

func (d *Data) spend(kind, name string, data map[string][]byte) error {
	for _, value := range data {
		d.left -= len(value)
	}
	if d.left >= 0 {
		return nil
	}
	return problem(infrav1.InvalidVariableReason, "%s %s: all Secrets and ConfigMaps that the template and the provider config name have together more than %d bytes, the limit: use fewer or smaller ones", kind, name, maxData)
}
