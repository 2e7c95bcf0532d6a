package captaddon

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestAppliedByClusterAPI(t *testing.T) {
	resource := func(name, hash string, applied *bool) clusteraddonsv1.ResourceBinding {
		return clusteraddonsv1.ResourceBinding{ResourceRef: clusteraddonsv1.ResourceRef{Name: name, Kind: "Secret"}, Hash: hash, Applied: applied}
	}
	for name, test := range map[string]struct {
		set                string
		resources          []clusteraddonsv1.ResourceBinding
		attempted, applied bool
	}{
		"nothing":          {"flux", nil, false, false},
		"applied":          {"flux", []clusteraddonsv1.ResourceBinding{resource("other", "new", new(true)), resource("flux", "new", new(true))}, true, true},
		"failed":           {"flux", []clusteraddonsv1.ResourceBinding{resource("flux", "new", new(false))}, true, false},
		"not reported":     {"flux", []clusteraddonsv1.ResourceBinding{resource("flux", "new", nil)}, true, false},
		"old content":      {"flux", []clusteraddonsv1.ResourceBinding{resource("flux", "old", new(true))}, false, true},
		"old failure":      {"flux", []clusteraddonsv1.ResourceBinding{resource("flux", "old", new(false))}, false, false},
		"another resource": {"flux", []clusteraddonsv1.ResourceBinding{resource("other", "new", new(true))}, false, false},
		"another set":      {"other", []clusteraddonsv1.ResourceBinding{resource("flux", "new", new(true))}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			binding := &clusteraddonsv1.ClusterResourceSetBinding{Spec: clusteraddonsv1.ClusterResourceSetBindingSpec{
				Bindings: []clusteraddonsv1.ResourceSetBinding{{ClusterResourceSetName: "another"}, {ClusterResourceSetName: test.set, Resources: test.resources}},
			}}
			attempted, applied := appliedByClusterAPI(binding, "flux", "new")
			g.Expect(attempted).To(Equal(test.attempted))
			g.Expect(applied).To(Equal(test.applied))
		})
	}
}

// These need no binding, and so no client.
func TestEnsureApplied_remembersWhatWasApplied(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{addon: newAddon("flux")}, selected("a")
	in.previous.AppliedHash = "new"
	g.Expect((&Reconciler{}).ensureApplied(t.Context(), s, in)).To(Succeed())

	in.previous.AppliedHash = "old"
	s.addon.Spec.Strategy = addonsv1.StrategyApplyOnce
	g.Expect((&Reconciler{}).ensureApplied(t.Context(), s, in)).To(Succeed())
}

func TestLabelCluster_patchesOnce(t *testing.T) {
	in := selected("a")
	in.cluster.Labels[addonsv1.ClusterLabel] = "a"
	NewWithT(t).Expect((&Reconciler{}).labelCluster(t.Context(), in)).To(Succeed(), "no client is needed")
}

func TestWithoutSecrets(t *testing.T) {
	g := NewWithT(t)
	err := errors.New(`invalid value "hunter2"`)
	g.Expect(withoutSecrets(&unstructured.Unstructured{Object: map[string]any{"kind": "Secret"}}, err)).NotTo(ContainSubstring("hunter2"))
	g.Expect(withoutSecrets(&unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap"}}, err)).To(ContainSubstring("hunter2"))
}

func TestConnectionError(t *testing.T) {
	g := NewWithT(t)
	g.Expect(connectionError(fmt.Errorf("getting client: %w", clustercache.ErrClusterNotConnected))).To(MatchError("WaitingForControlPlane: Workload cluster is unreachable"))
	err := connectionError(errors.New("refused"))
	g.Expect(err).To(MatchError("connecting to the workload cluster: refused"))
	g.Expect(fault.Is(err)).To(BeFalse())
}
