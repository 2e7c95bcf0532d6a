package render

import (
	"encoding/base64"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// releaseSpec renders an add-on and returns the spec of its HelmRelease, and all
// objects by kind.
func releaseSpec(t *testing.T, addon *addonsv1.CAPTAddon) (map[string]any, map[string]*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	r := rendered(g, input(addon, map[string]string{"cluster_name": "a", "role": "b"}))
	all := objects(g, r)
	spec, found, err := unstructured.NestedMap(all["HelmRelease"].Object, "spec")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeTrue())
	return spec, all
}

func TestRelease_hasDefaults(t *testing.T) {
	g := NewWithT(t)
	spec, all := releaseSpec(t, karpenter())
	g.Expect(spec).To(HaveKeyWithValue("interval", "5m0s"))
	g.Expect(spec).To(HaveKeyWithValue("releaseName", "karpenter"))
	g.Expect(spec).To(HaveKeyWithValue("driftDetection", map[string]any{"mode": "enabled"}))
	g.Expect(spec).To(HaveKeyWithValue("chartRef", map[string]any{"kind": "OCIRepository", "name": "karpenter"}))
	g.Expect(spec).NotTo(HaveKey("timeout"))
	g.Expect(spec).To(HaveKeyWithValue("install", map[string]any{
		"crds": "Create", "disableWait": true, "remediation": map[string]any{"retries": int64(2)},
	}))
	g.Expect(spec).To(HaveKeyWithValue("upgrade", map[string]any{
		"crds": "CreateReplace", "disableWait": true, "remediation": map[string]any{"retries": int64(2), "remediateLastFailure": true},
	}))
	for _, kind := range []string{"HelmRelease", "OCIRepository"} {
		g.Expect(all[kind].GetFinalizers()).To(Equal([]string{"finalizers.fluxcd.io"}), kind)
	}
}

func TestRelease_followsTheSpec(t *testing.T) {
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for name, test := range map[string]struct {
		change func(*addonsv1.CAPTAddonSpec)
		check  func(g Gomega, spec map[string]any, all map[string]*unstructured.Unstructured)
	}{
		"release name": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.ReleaseName = "other" },
			func(g Gomega, spec map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(spec).To(HaveKeyWithValue("releaseName", "other"))
				g.Expect(all["HelmRelease"].GetName()).To(Equal("karpenter"))
			},
		},
		"interval": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Interval = duration(time.Hour) },
			func(g Gomega, spec map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(spec).To(HaveKeyWithValue("interval", "1h0m0s"))
				g.Expect(all["OCIRepository"].Object["spec"]).To(HaveKeyWithValue("interval", "1h0m0s"))
			},
		},
		"wait with a timeout": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Wait, s.Timeout = "Always", duration(20*time.Minute) },
			func(g Gomega, spec map[string]any, _ map[string]*unstructured.Unstructured) {
				g.Expect(spec).To(HaveKeyWithValue("timeout", "20m0s"))
				g.Expect(spec["install"]).To(HaveKeyWithValue("disableWait", false))
				g.Expect(spec["upgrade"]).To(HaveKeyWithValue("disableWait", false))
			},
		},
		"wait without a timeout": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Wait = "Always" },
			func(g Gomega, spec map[string]any, _ map[string]*unstructured.Unstructured) {
				g.Expect(spec).NotTo(HaveKey("timeout"))
			},
		},
		"timeout without a wait": {
			func(s *addonsv1.CAPTAddonSpec) { s.Timeout = duration(20 * time.Minute) },
			func(g Gomega, spec map[string]any, _ map[string]*unstructured.Unstructured) {
				g.Expect(spec).NotTo(HaveKey("timeout"), "CAPT waits, Flux does not")
			},
		},
		"skip CRDs": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.CRDs = "Skip" },
			func(g Gomega, spec map[string]any, _ map[string]*unstructured.Unstructured) {
				g.Expect(spec["install"]).To(HaveKeyWithValue("crds", "Skip"))
				g.Expect(spec["upgrade"]).To(HaveKeyWithValue("crds", "Skip"))
			},
		},
		"create CRDs only": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.CRDs = "Create" },
			func(g Gomega, spec map[string]any, _ map[string]*unstructured.Unstructured) {
				g.Expect(spec["install"]).To(HaveKeyWithValue("crds", "Create"))
				g.Expect(spec["upgrade"]).To(HaveKeyWithValue("crds", "Create"))
			},
		},
		"no values": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Values, s.Helm.ValuesFrom = nil, nil },
			func(g Gomega, spec map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(spec).NotTo(HaveKey("values"))
				g.Expect(spec).NotTo(HaveKey("valuesFrom"))
				g.Expect(all).NotTo(HaveKey("Secret"), "nothing to copy")
			},
		},
		"empty values": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Values = &infrav1.Value{} },
			func(g Gomega, spec map[string]any, _ map[string]*unstructured.Unstructured) {
				g.Expect(spec).NotTo(HaveKey("values"))
			},
		},
		"insecure registry": {
			func(s *addonsv1.CAPTAddonSpec) {
				s.Helm.Chart.Insecure, s.Helm.Chart.Repository, s.Helm.Chart.Version = new(true), "oci://registry:5000/", "1.0.0+abc"
			},
			func(g Gomega, _ map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(all["OCIRepository"].Object["spec"]).To(HaveKeyWithValue("insecure", true))
				g.Expect(all["OCIRepository"].Object["spec"]).To(HaveKeyWithValue("url", "oci://registry:5000/karpenter"))
				g.Expect(all["OCIRepository"].Object["spec"]).To(HaveKeyWithValue("ref", map[string]any{"tag": "1.0.0_abc"}))
			},
		},
		"secure registry": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Chart.Insecure = new(false) },
			func(g Gomega, _ map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(all["OCIRepository"].Object["spec"]).NotTo(HaveKey("insecure"))
				g.Expect(all["OCIRepository"].Object["spec"]).To(HaveKeyWithValue("layerSelector", HaveKeyWithValue("operation", "copy")))
			},
		},
		"Helm repository": {
			func(s *addonsv1.CAPTAddonSpec) { s.Helm.Chart.Repository = "https://charts.example.com" },
			func(g Gomega, spec map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(all).NotTo(HaveKey("OCIRepository"))
				g.Expect(all["HelmRepository"].Object["spec"]).To(Equal(map[string]any{"interval": "5m0s", "url": "https://charts.example.com"}))
				g.Expect(spec).NotTo(HaveKey("chartRef"))
				g.Expect(spec).To(HaveKeyWithValue("chart", map[string]any{"spec": map[string]any{
					"chart": "karpenter", "version": "1.14.1", "interval": "5m0s",
					"sourceRef": map[string]any{"kind": "HelmRepository", "name": "karpenter"},
				}}))
			},
		},
		"required keys are copied": {
			func(s *addonsv1.CAPTAddonSpec) {
				s.Helm.ValuesFrom, s.Connection = nil, &addonsv1.ConnectionSource{Keys: []string{"role"}}
			},
			func(g Gomega, spec map[string]any, all map[string]*unstructured.Unstructured) {
				g.Expect(spec).NotTo(HaveKey("valuesFrom"))
				g.Expect(all["Secret"].Object["data"]).To(Equal(map[string]any{"role": base64.StdEncoding.EncodeToString([]byte("b"))}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			addon := karpenter()
			test.change(&addon.Spec)
			spec, all := releaseSpec(t, addon)
			test.check(NewWithT(t), spec, all)
		})
	}
}

func TestRelease_rendersNoBuiltInNamespace(t *testing.T) {
	for namespace, rendered := range map[string]bool{
		"karpenter": true, "kubernetes": true, "default-2": true,
		"default": false, "kube-system": false, "kube-public": false,
	} {
		t.Run(namespace, func(t *testing.T) {
			addon := karpenter()
			addon.Spec.Helm.Namespace = namespace
			_, all := releaseSpec(t, addon)
			_, found := all["Namespace"]
			NewWithT(t).Expect(found).To(Equal(rendered))
		})
	}
}

// Flux resets its failure count only if it is asked to.
func TestRelease_resetsFailuresFromTheSecondRoundOn(t *testing.T) {
	values := map[string]string{"cluster_name": "a", "role": "b"}
	triggered := karpenter()
	triggered.Annotations = map[string]string{addonsv1.TriggerAnnotation: "now"}
	for name, test := range map[string]struct {
		in     Input
		resets bool
	}{
		"first":     {input(karpenter(), values), false},
		"second":    {func() Input { in := input(karpenter(), values); in.Round = 1; return in }(), true},
		"triggered": {input(triggered, values), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := rendered(g, test.in)
			annotations := objects(g, r)["HelmRelease"].GetAnnotations()
			g.Expect(annotations).To(HaveKeyWithValue("reconcile.fluxcd.io/requestedAt", r.Release.Token))
			if test.resets {
				g.Expect(annotations).To(HaveKeyWithValue("reconcile.fluxcd.io/resetAt", r.Release.Token))
			} else {
				g.Expect(annotations).NotTo(HaveKey("reconcile.fluxcd.io/resetAt"))
			}
		})
	}
}

func TestRelease_refusesInvalidValues(t *testing.T) {
	addon := karpenter()
	addon.Spec.Helm.Values = &infrav1.Value{Raw: []byte(`{"password":"hunter2`)}
	_, err := Render(input(addon, map[string]string{"cluster_name": "a", "role": "b"}))
	NewWithT(t).Expect(err).To(MatchError("InvalidManifest: Add-on karpenter: helm.values is not valid JSON"))
}
