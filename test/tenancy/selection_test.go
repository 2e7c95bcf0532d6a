package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// Cluster API installs the add-ons of a cluster, with its outputs, in each Cluster with its label.
func TestEditor_getsNoAddonsOfAnotherCluster(t *testing.T) {
	g := NewWithT(t)
	ctx, ns := t.Context(), env.Namespace(t)
	user := editor(t, ns)
	labelled := func(name, value string) *clusterv1.Cluster {
		cluster := clusterWith(ns, name, reference("CAPTCluster", name))
		cluster.Labels = map[string]string{addonsv1.ClusterLabel: value}
		return cluster
	}
	refused := And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("installs the add-ons of the Cluster victim")))

	// The authorizer may not have the binding yet, and the API server not the policy.
	g.Eventually(func() error { return user.Create(ctx, labelled("attack", "victim"), client.DryRunAll) }, testTimeout).Should(refused)
	g.Expect(user.Create(ctx, clusterWith(ns, "plain", reference("CAPTCluster", "plain")))).To(Succeed())
	generated := labelled("attack", "victim")
	generated.Name, generated.GenerateName = "", "attack-"
	g.Expect(user.Create(ctx, generated)).To(refused)
	label := []byte(`{"metadata":{"labels":{"` + addonsv1.ClusterLabel + `":"victim"}}}`)
	plain := clusterWith(ns, "plain", reference("CAPTCluster", "plain"))
	g.Expect(user.Patch(ctx, plain, client.RawPatch("application/merge-patch+json", label))).To(refused)
	g.Expect(user.Create(ctx, labelled("own", "own"))).To(Succeed())
}
