package captaddon

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestSummarizeRendering(t *testing.T) {
	wait, stall, other := fault.Wait("SourceNotFound", "no Secret"), fault.Stall("MissingKey", "no key"), errors.New("timeout")
	for name, test := range map[string]struct {
		errs []error
		want string
	}{
		"fine":                        {[]error{nil, nil}, ""},
		"waiting":                     {[]error{wait, nil}, ""},
		"stalled":                     {[]error{nil, stall}, "MissingKey: Cluster b: no key"},
		"first stall":                 {[]error{stall, fault.Stall("Empty", "nothing")}, "MissingKey: Cluster a: no key"},
		"an error is retried":         {[]error{stall, other}, "timeout"},
		"all errors":                  {[]error{other, errors.New("refused")}, "timeout\nrefused"},
		"a stall after a wait counts": {[]error{wait, stall}, "MissingKey: Cluster b: no key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{}
			for i, err := range test.errs {
				s.installations = append(s.installations, &installation{name: string(rune('a' + i)), renderErr: err})
			}
			err := s.summarizeRendering()
			NewWithT(t).Expect(textOf(err)).To(Equal(test.want))
		})
	}
}

type unsupported struct{}

func (unsupported) CheckAddon(*addonsv1.CAPTAddon, string) error { return errors.New("too old") }

func (unsupported) CheckDependency(*addonsv1.CAPTAddon, *addonsv1.CAPTAddon) error { return nil }

// oldDependency supports every version of Kubernetes, and no dependency.
type oldDependency struct{}

func (oldDependency) CheckAddon(*addonsv1.CAPTAddon, string) error { return nil }

func (oldDependency) CheckDependency(_, dependency *addonsv1.CAPTAddon) error {
	return errors.New(dependency.Name + " is too old")
}

func (unsupported) CheckPath(_ context.Context, _ string, _ addonsv1.ChartSource, path string) error {
	if path == "bad" {
		return errors.New("does not exist")
	}
	return nil
}

func TestCheckVersion_needsAVersion(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{addon: newAddon("flux")}, selected("a")
	g.Expect((&Reconciler{Versions: unsupported{}}).checkVersion(s, in)).To(Succeed(), "the version is unknown")
	in.cluster.Spec.Topology.Version = "v1.30.0"
	g.Expect((&Reconciler{}).checkVersion(s, in)).To(Succeed(), "versions are not checked")
	g.Expect((&Reconciler{Versions: unsupported{}}).checkVersion(s, in)).To(MatchError("VersionUnsupported: Add-on flux: too old"))
}

func TestCheckVersion_checksDependencies(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{addon: newAddon("karpenter"), addons: []addonsv1.CAPTAddon{*newAddon("karpenter"), *newAddon("flux"), *newAddon("other")}}, selected("a")
	in.cluster.Spec.Topology.Version = "v1.32.0"
	r := &Reconciler{Versions: oldDependency{}}
	g.Expect(r.checkVersion(s, in)).To(Succeed(), "it depends on none")
	s.addon = newAddon("karpenter", "flux")
	g.Expect(r.checkVersion(s, in)).To(MatchError("VersionUnsupported: Add-on karpenter: flux is too old"))
}

func TestCheckChartPaths_namesTheEntry(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("flux")}
	r := &Reconciler{Charts: unsupported{}}
	g.Expect(r.checkChartPaths(t.Context(), s)).To(Succeed(), "no chart")
	s.addon.Spec.Helm = &addonsv1.HelmRelease{ValuesFrom: []addonsv1.OutputValue{{TargetPath: "good"}, {TargetPath: "bad"}}}
	g.Expect((&Reconciler{}).checkChartPaths(t.Context(), s)).To(Succeed(), "charts are not checked")
	g.Expect(r.checkChartPaths(t.Context(), s)).To(MatchError("InvalidTargetPath: Add-on flux: helm.valuesFrom[1].targetPath: does not exist"))
}

func TestCheckChartPaths_skipsChartsThatNeedCredentials(t *testing.T) {
	s := &scope{addon: newAddon("flux")}
	s.addon.Spec.Helm = &addonsv1.HelmRelease{
		Chart: addonsv1.ChartSource{SecretRef: &infrav1.LocalReference{Name: "registry"}}, ValuesFrom: []addonsv1.OutputValue{{TargetPath: "bad"}},
	}
	NewWithT(t).Expect((&Reconciler{Charts: unsupported{}}).checkChartPaths(t.Context(), s)).To(Succeed())
}

func TestCheckChartHost(t *testing.T) {
	g := NewWithT(t)
	addon := newAddon("flux")
	r := &Reconciler{ChartHosts: &dial.Policy{Hosts: []string{"ghcr.io", "*.example.com"}}}
	g.Expect(r.checkChartHost(addon)).To(Succeed(), "no chart")
	for repository, allowed := range map[string]bool{
		"oci://ghcr.io/charts": true, "oci://GHCR.io:443/charts": true, "https://charts.example.com": true,
		"https://example.com": false, "oci://ghcr.io.example.org/charts": false, "https://ghcr.io@evil.example.org": false,
	} {
		addon.Spec.Helm = &addonsv1.HelmRelease{Chart: addonsv1.ChartSource{Repository: repository}}
		g.Expect((&Reconciler{}).checkChartHost(addon)).To(Succeed(), "hosts are not limited")
		g.Expect((&Reconciler{ChartHosts: &dial.Policy{}}).checkChartHost(addon)).To(Succeed(), "an empty list allows all")
		if allowed {
			g.Expect(r.checkChartHost(addon)).To(Succeed(), repository)
			continue
		}
		g.Expect(r.checkChartHost(addon)).To(MatchError(And(HavePrefix("NotAllowed: Add-on flux: the host "), HaveSuffix(" of helm.chart.repository is not in the manager's list --allowed-chart-hosts"))), repository)
	}
}

// Only a CAPTControlPlane writes a connection Secret: clusters of other providers have none.
func TestRenderOne_needsAConnectionSecretForRequiredOutputsOnly(t *testing.T) {
	for name, test := range map[string]struct {
		values []addonsv1.OutputValue
		keys   []string
		ofCAPT bool
		want   string
	}{
		"no output":        {},
		"default":          {values: []addonsv1.OutputValue{{ValuesKey: "a", TargetPath: "a", Default: new("x")}}},
		"optional":         {values: []addonsv1.OutputValue{{ValuesKey: "a", TargetPath: "a", Optional: new(true)}}},
		"required":         {values: []addonsv1.OutputValue{{ValuesKey: "a", TargetPath: "a"}}, want: "WaitingForConnectionSecret: Secret a-eks-connection does not exist"},
		"key":              {keys: []string{"a"}, want: "WaitingForConnectionSecret: Secret a-eks-connection does not exist"},
		"default, of CAPT": {values: []addonsv1.OutputValue{{ValuesKey: "a", TargetPath: "a", Default: new("x")}}, ofCAPT: true, want: "WaitingForConnectionSecret: Secret cp-outputs does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: newAddon("tools"), now: now}, selected("a")
			s.addon.Spec.Helm = &addonsv1.HelmRelease{Namespace: "tools", Chart: addonsv1.ChartSource{Repository: "https://example.com", Name: "tools", Version: "1.0.0"}, ValuesFrom: test.values}
			if test.keys != nil {
				s.addon.Spec.Connection = &addonsv1.ConnectionSource{Keys: test.keys}
			}
			if in.ofCAPT = test.ofCAPT; test.ofCAPT {
				in.controlPlane = &controlplanev1.CAPTControlPlane{}
				in.controlPlane.Status.WorkspaceRef = &infrav1.LocalReference{Name: "a"}
				in.controlPlane.Status.ConnectionSecretName = "cp-outputs"
			}
			err := newReconciler(interceptor.Funcs{}).renderOne(t.Context(), s, in)
			g.Expect(textOf(err)).To(Equal(test.want))
		})
	}
}

func TestRender_skipsClustersThatCannotHaveTheAddon(t *testing.T) {
	g := NewWithT(t)
	removed, uninitialized := selected("a"), selected("b")
	removed.selected = false
	uninitialized.cluster.Status.Initialization.ControlPlaneInitialized = nil
	s := &scope{addon: newAddon("flux"), installations: []*installation{removed, uninitialized}}
	g.Expect((&Reconciler{}).render(t.Context(), s)).To(Succeed())
	g.Expect(removed.renderErr).NotTo(HaveOccurred())
	g.Expect(uninitialized.renderErr).NotTo(HaveOccurred())
}

func TestWithoutData_keepsTheOriginal(t *testing.T) {
	g := NewWithT(t)
	rendered := &render.Rendered{Hash: "h", Data: map[string][]byte{"a": nil}}
	slim := withoutData(rendered, "inputs")
	g.Expect(slim.Data).To(BeNil())
	g.Expect(slim.Hash).To(Equal("h"))
	g.Expect(slim.inputs).To(Equal("inputs"))
	g.Expect(rendered.Data).NotTo(BeNil())
}
