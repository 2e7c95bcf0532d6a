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
	secrets, configMaps := keysOf(s)
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

// keys are the keys that Resolve reads of objects, by their names. All keys of an object are read
// if it has the empty key.
type keys map[string]map[string]bool

func (k keys) add(name, key string) {
	if k[name] == nil {
		k[name] = map[string]bool{}
	}
	k[name][key] = true
}

// keep returns the part of the data of an object that Resolve reads.
func (k keys) keep(name string, data map[string][]byte) map[string][]byte {
	if k[name][""] {
		return data
	}
	kept := map[string][]byte{}
	for key := range k[name] {
		if value, found := data[key]; found {
			kept[key] = value
		}
	}
	return kept
}

// keysOf returns the keys of Secrets and ConfigMaps that Resolve reads.
func keysOf(s Sources) (secrets, configMaps keys) {
	r := newResolver(s)
	secrets, configMaps = keys{}, keys{}
	add := func(secret, configMap *infrav1.KeyReference) {
		ref, expand, kept := refOf(secret, configMap), r.expandReference, configMaps
		if ref.secret {
			expand, kept = r.expandSecret, secrets
		}
		if ref.KeyReference == nil {
			return
		}
		if name, err := expand("", ref.Name); err == nil {
			kept.add(name, ref.Key)
		}
	}
	p := s.Template.Spec.Template.Spec.ForProvider
	if p.ModuleSecretReference != nil && !infrav1.IsReservedSecretName(p.ModuleSecretReference.Name) {
		secrets.add(p.ModuleSecretReference.Name, "")
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
	return secrets, configMaps
}

// maxData limits the data of Secrets and ConfigMaps that Resolve reads for a workspace, in bytes.
const maxData = 4 << 20

// Data collects the Secrets and ConfigMaps of a workspace. It keeps only the keys that Resolve
// reads.
type Data struct {
	sources             *Sources
	secrets, configMaps keys
	left                int
}

// NewData returns what sets the Secrets and ConfigMaps of the sources.
func NewData(s *Sources) *Data {
	s.Secrets, s.ConfigMaps = map[string]map[string][]byte{}, map[string]map[string][]byte{}
	d := &Data{sources: s, left: maxData}
	d.secrets, d.configMaps = keysOf(*s)
	return d
}

// AddSecret adds the data of a Secret. It returns a *Problem if all data are too large.
func (d *Data) AddSecret(name string, data map[string][]byte) error {
	d.sources.Secrets[name] = d.secrets.keep(name, data)
	return d.spend("Secret", name, d.sources.Secrets[name])
}

// AddConfigMap adds the data of a ConfigMap. It returns a *Problem if all data are too large.
func (d *Data) AddConfigMap(name string, data map[string][]byte) error {
	d.sources.ConfigMaps[name] = d.configMaps.keep(name, data)
	return d.spend("ConfigMap", name, d.sources.ConfigMaps[name])
}

func (d *Data) spend(kind, name string, data map[string][]byte) error {
	for _, value := range data {
		d.left -= len(value)
	}
	if d.left >= 0 {
		return nil
	}
	return problem(infrav1.InvalidVariableReason, "%s %s: the keys of all Secrets and ConfigMaps that the template and the provider config name have together more than %d bytes, the limit: use fewer or smaller ones", kind, name, maxData)
}
