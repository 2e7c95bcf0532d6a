package render

import (
	"encoding/base64"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

// private returns an add-on whose chart is in a private repository, and the contents of
// its Secrets.
func private(repository string) (*addonsv1.CAPTAddon, map[string]map[string][]byte) {
	addon := karpenter()
	addon.Spec.Helm.Values, addon.Spec.Helm.ValuesFrom = nil, nil
	addon.Spec.Helm.Chart.Repository = repository
	addon.Spec.Helm.Chart.SecretRef = &infrav1.LocalReference{Name: "registry"}
	addon.Spec.Helm.Chart.CertSecretRef = &infrav1.LocalReference{Name: "ca"}
	return addon, map[string]map[string][]byte{
		"registry": {
			".dockerconfigjson": []byte(`{"auths":{"registry.example.com":{"auth":"dTpw"}}}`),
			"username":          []byte("u"), "password": []byte("p"), "other": []byte("x"),
		},
		"ca":    {"ca.crt": []byte(certificate), "other": []byte("x")},
		"proxy": {"address": []byte("http://proxy.example.com:3128"), "username": []byte("u"), "password": []byte("p"), "other": []byte("x")},
	}
}

// byName returns the rendered objects by kind and name.
func byName(g Gomega, r *Rendered) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, text := range r.Data {
		parsed, err := manifest.Parse(text)
		g.Expect(err).NotTo(HaveOccurred())
		for _, obj := range parsed {
			found[obj.GetKind()+" "+obj.GetName()] = obj
		}
	}
	return found
}

func encoded(data map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range data {
		out[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return out
}

func TestChartSource_hasTheSecretsOfAnOCIRegistry(t *testing.T) {
	g := NewWithT(t)
	addon, secrets := private("oci://registry.example.com/charts")
	addon.Spec.Helm.Chart.ProxySecretRef = &infrav1.LocalReference{Name: "proxy"}
	in := input(addon, nil)
	in.ChartSecrets = secrets
	r := rendered(g, in)
	all := byName(g, r)
	g.Expect(all["OCIRepository karpenter"].Object["spec"]).To(And(
		HaveKeyWithValue("secretRef", map[string]any{"name": "karpenter-chart-pull"}),
		HaveKeyWithValue("certSecretRef", map[string]any{"name": "karpenter-chart-ca"}),
		HaveKeyWithValue("proxySecretRef", map[string]any{"name": "karpenter-chart-proxy"}),
		Not(HaveKey("provider")),
	))
	pull := all["Secret karpenter-chart-pull"]
	g.Expect(pull.Object["type"]).To(Equal("kubernetes.io/dockerconfigjson"), "Flux ignores other types")
	g.Expect(pull.GetNamespace()).To(Equal("karpenter"))
	g.Expect(pull.Object["data"]).To(Equal(encoded(map[string]string{".dockerconfigjson": `{"auths":{"registry.example.com":{"auth":"dTpw"}}}`})))
	g.Expect(all["Secret karpenter-chart-ca"].Object["data"]).To(Equal(encoded(map[string]string{"ca.crt": certificate})), "only the keys that Flux reads")
	g.Expect(all["Secret karpenter-chart-proxy"].Object["data"]).To(Equal(encoded(map[string]string{"address": "http://proxy.example.com:3128", "username": "u", "password": "p"})))
}

func TestChartSource_hasTheSecretsOfAHelmRepository(t *testing.T) {
	g := NewWithT(t)
	addon, secrets := private("https://charts.example.com")
	secrets["ca"] = map[string][]byte{"tls.crt": []byte(certificate), "tls.key": []byte("key")}
	in := input(addon, nil)
	in.ChartSecrets = secrets
	r := rendered(g, in)
	all := byName(g, r)
	g.Expect(all["HelmRepository karpenter"].Object["spec"]).To(And(
		HaveKeyWithValue("secretRef", map[string]any{"name": "karpenter-chart-login"}),
		HaveKeyWithValue("certSecretRef", map[string]any{"name": "karpenter-chart-ca"}),
	))
	g.Expect(all["Secret karpenter-chart-login"].Object).To(HaveKeyWithValue("type", "Opaque"))
	g.Expect(all["Secret karpenter-chart-login"].Object["data"]).To(Equal(encoded(map[string]string{"username": "u", "password": "p"})))
	g.Expect(all["Secret karpenter-chart-ca"].Object["data"]).To(Equal(encoded(map[string]string{"tls.crt": certificate, "tls.key": "key"})))
}

// Flux does not watch the Secrets of a source.
func TestChartSource_isReconciledWhenASecretChanges(t *testing.T) {
	g := NewWithT(t)
	requested := func(password string) (source, release string) {
		addon, secrets := private("https://charts.example.com")
		secrets["registry"]["password"] = []byte(password)
		in := input(addon, nil)
		in.ChartSecrets = secrets
		r := rendered(g, in)
		all := byName(g, r)
		return all["HelmRepository karpenter"].GetAnnotations()[fluxRequestedAt], all["HelmRelease karpenter"].GetAnnotations()[fluxRequestedAt]
	}
	source, release := requested("a")
	g.Expect(source).NotTo(BeEmpty())
	again, _ := requested("a")
	g.Expect(again).To(Equal(source))
	changedSource, changedRelease := requested("b")
	g.Expect(changedSource).NotTo(Equal(source))
	g.Expect(changedRelease).NotTo(Equal(release))
}

func TestChartSource_hasTheProviderOfTheRegistry(t *testing.T) {
	const ecr = "oci://123456789012.dkr.ecr.eu-central-1.amazonaws.com/charts"
	for name, test := range map[string]struct {
		repository, provider string
		secret               bool
		want                 any
	}{
		"public":                      {repository: "oci://public.ecr.aws/karpenter"},
		"private registry of AWS":     {repository: ecr, want: "aws"},
		"of AWS in China":             {repository: "oci://123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", want: "aws"},
		"a name that begins like it":  {repository: "oci://123456789012.dkr.ecr.eu-central-1.amazonaws.com.example.com/x"},
		"another name of the same":    {repository: "oci://registry.example.com/charts", provider: "aws", want: "aws"},
		"another cloud":               {repository: "oci://example.azurecr.io/charts", provider: "azure", want: "azure"},
		"generic overrides":           {repository: ecr, provider: "generic", want: "generic"},
		"credentials need no sign-in": {repository: ecr, secret: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			addon, secrets := private(test.repository)
			addon.Spec.Helm.Chart.Provider, addon.Spec.Helm.Chart.CertSecretRef = test.provider, nil
			if !test.secret {
				addon.Spec.Helm.Chart.SecretRef = nil
			}
			in := input(addon, nil)
			in.ChartSecrets = secrets
			r := rendered(g, in)
			spec := byName(g, r)["OCIRepository karpenter"].Object["spec"].(map[string]any)
			if test.want == nil {
				g.Expect(spec).NotTo(HaveKey("provider"))
				return
			}
			g.Expect(spec).To(HaveKeyWithValue("provider", test.want))
		})
	}
}

func TestChartSource_refusesSecretsThatFluxCannotUse(t *testing.T) {
	for name, test := range map[string]struct {
		repository, secret string
		data               map[string]string
		want               string
	}{
		"not a pull secret": {
			"oci://r.example.com/c", "registry",
			map[string]string{"username": "u", "password": "hunter2"},
			"MissingKey: Add-on karpenter: helm.chart.secretRef: Secret registry has no key .dockerconfigjson: create it with kubectl create secret docker-registry",
		},
		"not JSON": {
			"oci://r.example.com/c", "registry",
			map[string]string{".dockerconfigjson": "hunter2"},
			`InvalidSecret: Add-on karpenter: helm.chart.secretRef: .dockerconfigjson of Secret registry is not a configuration of Docker with "auths"`,
		},
		"no password": {
			"https://c.example.com", "registry",
			map[string]string{"username": "u"},
			"MissingKey: Add-on karpenter: helm.chart.secretRef: Secret registry has no key password: a Helm repository needs username and password",
		},
		"no certificate": {
			"https://c.example.com", "ca",
			map[string]string{"ca.pem": "x"},
			"MissingKey: Add-on karpenter: helm.chart.certSecretRef: Secret ca has no key ca.crt, and not both tls.crt and tls.key",
		},
		"half a key pair": {
			"https://c.example.com", "ca",
			map[string]string{"ca.crt": certificate, "tls.crt": certificate},
			"MissingKey: Add-on karpenter: helm.chart.certSecretRef: Secret ca has only one of tls.crt and tls.key: add the other",
		},
		"not a certificate": {
			"https://c.example.com", "ca",
			map[string]string{"ca.crt": "hunter2"},
			"InvalidSecret: Add-on karpenter: helm.chart.certSecretRef: ca.crt of Secret ca is not a certificate in PEM format",
		},
		"no address": {
			"oci://r.example.com/c", "proxy",
			map[string]string{"username": "u"},
			"MissingKey: Add-on karpenter: helm.chart.proxySecretRef: Secret proxy has no key address: add one, for example http://proxy.example.com:3128",
		},
		"not an address": {
			"oci://r.example.com/c", "proxy",
			map[string]string{"address": "hunter2"},
			"InvalidSecret: Add-on karpenter: helm.chart.proxySecretRef: address of Secret proxy is not a URL such as http://proxy.example.com:3128",
		},
	} {
		t.Run(name, func(t *testing.T) {
			addon, secrets := private(test.repository)
			addon.Spec.Helm.Chart.ProxySecretRef = &infrav1.LocalReference{Name: "proxy"}
			secrets[test.secret] = map[string][]byte{}
			for key, value := range test.data {
				secrets[test.secret][key] = []byte(value)
			}
			in := input(addon, nil)
			in.ChartSecrets = secrets
			_, err := Render(in)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}

func TestChartHost(t *testing.T) {
	for repository, want := range map[string]string{
		"oci://Registry.example.com:5000/charts": "registry.example.com",
		"https://user@charts.example.com/a":      "charts.example.com",
		"oci://[2001:db8::1]:5000/c":             "2001:db8::1",
		"http://charts.example.com":              "charts.example.com",
	} {
		NewWithT(t).Expect(ChartHost(addonsv1.ChartSource{Repository: repository})).To(Equal(want), repository)
	}
}
