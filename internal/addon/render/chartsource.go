package render

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// privateECR matches the private registries of AWS. Flux signs in with the identity of
// its source controller.
var privateECR = regexp.MustCompile(`^[0-9]{12}\.dkr[.-]ecr(-fips)?\.[a-z0-9-]+\.(amazonaws\.com|amazonaws\.com\.cn|on\.aws|on\.amazonwebservices\.com\.cn)(/|$)`)

// ChartHost returns the host of the repository of a chart, in lower case.
func ChartHost(chart addonsv1.ChartSource) string {
	parsed, err := url.Parse(chart.Repository)
	if err != nil {
		return ""
	}
	return strings.ToLower(parsed.Hostname())
}

// ChartSecretNames returns the names of the Secrets of the chart's repository.
func ChartSecretNames(addon *addonsv1.CAPTAddon) []string {
	if addon.Spec.Helm == nil {
		return nil
	}
	chart := addon.Spec.Helm.Chart
	var names []string
	for _, ref := range []*infrav1.LocalReference{chart.SecretRef, chart.CertSecretRef, chart.ProxySecretRef} {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	return names
}

// chartSource returns the source object of the chart, with its Secrets, and refers to it
// in the spec of the release.
func (in *Input) chartSource(spec map[string]any, secrets chartSecrets) *unstructured.Unstructured {
	helm, chart := in.Addon.Spec.Helm, in.Addon.Spec.Helm.Chart
	var source *unstructured.Unstructured
	if registry, oci := strings.CutPrefix(chart.Repository, "oci://"); oci {
		spec["chartRef"] = map[string]any{"kind": "OCIRepository", "name": in.Addon.Name}
		source = newSource("OCIRepository", helm.Namespace, in.Addon.Name, ociRepository(helm, registry))
	} else {
		spec["chart"] = map[string]any{"spec": map[string]any{
			"chart": chart.Name, "version": chart.Version, "interval": interval(helm),
			"sourceRef": map[string]any{"kind": "HelmRepository", "name": in.Addon.Name},
		}}
		source = newSource("HelmRepository", helm.Namespace, in.Addon.Name, map[string]any{"interval": interval(helm), "url": chart.Repository})
	}
	secrets.set(source)
	return source
}

// ociRepository returns the spec of an OCIRepository.
func ociRepository(helm *addonsv1.HelmRelease, registry string) map[string]any {
	chart := helm.Chart
	repository := map[string]any{
		"interval": interval(helm), "url": "oci://" + strings.TrimSuffix(registry, "/") + "/" + chart.Name,
		// A tag cannot contain a plus sign.
		"ref":           map[string]any{"tag": strings.ReplaceAll(chart.Version, "+", "_")},
		"layerSelector": map[string]any{"mediaType": ChartMediaType, "operation": "copy"},
	}
	if chart.Insecure != nil && *chart.Insecure {
		repository["insecure"] = true
	}
	switch {
	case chart.Provider != "":
		repository["provider"] = chart.Provider
	case chart.SecretRef == nil && privateECR.MatchString(registry):
		repository["provider"] = "aws"
	}
	return repository
}

// chartSecret is a Secret of the chart's repository, as Flux reads it.
type chartSecret struct {
	// field is the field of the source that refers to it.
	field string
	*unstructured.Unstructured
}

type chartSecrets []chartSecret

func (s chartSecrets) objects() []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, len(s))
	for i := range s {
		objects[i] = s[i].Unstructured
	}
	return objects
}

// set refers to the Secrets in a source. Flux does not watch them, so a changed one
// requests a reconciliation.
func (s chartSecrets) set(source *unstructured.Unstructured) {
	if len(s) == 0 {
		return
	}
	spec := source.Object["spec"].(map[string]any)
	var contents []string
	for _, secret := range s {
		spec[secret.field] = map[string]any{"name": secret.GetName()}
		// The keys of a map are sorted.
		content, _ := json.Marshal(secret.Object)
		contents = append(contents, string(content))
	}
	source.SetAnnotations(map[string]string{fluxRequestedAt: digest(contents...)})
}

// chartSecrets returns copies of the Secrets of the chart's repository, with only the
// keys that Flux reads. The types of Secrets cannot be changed, so each has a name of its
// own.
func (in *Input) chartSecrets(b *budget) (chartSecrets, error) {
	chart := in.Addon.Spec.Helm.Chart
	var secrets chartSecrets
	add := func(field string, ref *infrav1.LocalReference, suffix string, kind corev1.SecretType, check func(secretReader) ([]string, error)) error {
		if ref == nil {
			return nil
		}
		r := secretReader{addon: in.Addon.Name, field: "helm.chart." + field, name: ref.Name, data: in.ChartSecrets[ref.Name], budget: b}
		keys, err := check(r)
		if err != nil {
			return err
		}
		data := map[string]any{}
		for _, key := range keys {
			if value, found := r.data[key]; found {
				data[key] = base64.StdEncoding.EncodeToString(value)
			}
		}
		secrets = append(secrets, chartSecret{field, newObject("v1", "Secret", in.Addon.Spec.Helm.Namespace, in.Addon.Name+suffix, map[string]any{"type": string(kind), "data": data})})
		return nil
	}
	var err error
	if strings.HasPrefix(chart.Repository, "oci://") {
		err = add("secretRef", chart.SecretRef, "-chart-pull", corev1.SecretTypeDockerConfigJson, secretReader.pull)
	} else {
		err = add("secretRef", chart.SecretRef, "-chart-login", corev1.SecretTypeOpaque, secretReader.login)
	}
	if err != nil {
		return nil, err
	}
	if err := add("certSecretRef", chart.CertSecretRef, "-chart-ca", corev1.SecretTypeOpaque, secretReader.certificates); err != nil {
		return nil, err
	}
	if err := add("proxySecretRef", chart.ProxySecretRef, "-chart-proxy", corev1.SecretTypeOpaque, secretReader.proxy); err != nil {
		return nil, err
	}
	return secrets, nil
}

// secretReader checks the content of a Secret of the chart's repository. Its faults
// contain no values.
type secretReader struct {
	addon, field, name string
	data               map[string][]byte
	budget             *budget
}

func (r secretReader) has(key string) bool { return len(r.data[key]) > 0 }

func (r secretReader) missing(text string) error {
	return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s: Secret %s %s", r.addon, r.field, r.name, text)
}

func (r secretReader) invalid(key, text string) error {
	return fault.Stall(addonsv1.InvalidSecretReason, "Add-on %s: %s: %s of Secret %s %s", r.addon, r.field, key, r.name, text)
}

// pull returns the key of the credentials of an OCI registry.
func (r secretReader) pull() ([]string, error) {
	const key = corev1.DockerConfigJsonKey
	if !r.has(key) {
		return nil, r.missing("has no key " + key + ": create it with kubectl create secret docker-registry")
	}
	if err := r.budget.memory.CheckJSON(r.data[key]); err != nil {
		return nil, r.invalid(key, "is too large: "+err.Error())
	}
	var config struct {
		Auths map[string]any `json:"auths"`
	}
	if json.Unmarshal(r.data[key], &config) != nil || len(config.Auths) == 0 {
		return nil, r.invalid(key, `is not a configuration of Docker with "auths"`)
	}
	return []string{key}, nil
}

// login returns the keys of the credentials of a Helm repository.
func (r secretReader) login() ([]string, error) {
	keys := []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}
	for _, key := range keys {
		if !r.has(key) {
			return nil, r.missing("has no key " + key + ": a Helm repository needs username and password")
		}
	}
	return keys, nil
}

// certificates returns the keys of the certificates.
func (r secretReader) certificates() ([]string, error) {
	const ca, cert, key = "ca.crt", corev1.TLSCertKey, corev1.TLSPrivateKeyKey
	switch {
	case !r.has(ca) && (!r.has(cert) || !r.has(key)):
		return nil, r.missing("has no key ca.crt, and not both tls.crt and tls.key")
	case r.has(cert) != r.has(key):
		return nil, r.missing("has only one of tls.crt and tls.key: add the other")
	}
	for _, name := range []string{ca, cert} {
		if block, _ := pem.Decode(r.data[name]); r.has(name) && (block == nil || block.Type != "CERTIFICATE") {
			return nil, r.invalid(name, "is not a certificate in PEM format")
		}
	}
	return []string{ca, cert, key}, nil
}

// proxy returns the keys of a proxy.
func (r secretReader) proxy() ([]string, error) {
	const example = "http://proxy.example.com:3128"
	if !r.has("address") {
		return nil, r.missing("has no key address: add one, for example " + example)
	}
	address, err := url.Parse(string(r.data["address"]))
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, r.invalid("address", "is not a URL such as "+example)
	}
	return []string{"address", corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}, nil
}
