package cluster

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// moved are the kinds that clusterctl moves, owners first.
var moved = []schema.GroupVersionKind{
	infrav1.GroupVersion.WithKind("WorkspaceTemplate"),
	clusterv1.GroupVersion.WithKind("Cluster"),
	infrav1.GroupVersion.WithKind("CAPTCluster"),
	controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
	{Version: "v1", Kind: "Secret"},
}

// The test does what clusterctl move does: it pauses the cluster, copies every object
// without its status to the other API server with the new UIDs of its owners, deletes
// the old objects without any controller acting, and unpauses.
func TestMove_changesNothing(t *testing.T) {
	h := newHarness(t)
	order := h.tracedTemplates(false)
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.waitReady("demo")
	vpc, endpoint := h.infra("demo").Status.VPCID, h.controlPlane("demo").Spec.ControlPlaneEndpoint

	target := testenv.New(t, testenv.WithClusterAPI(), testenv.WithControllerManager(), testenv.WithStarted(startManager))
	there := newHarnessOn(t, target)

	change(h, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	for _, obj := range []objecttest.Object{&infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}, &infrav1.WorkspaceTemplateApply{}} {
		waitCondition(h, "demo", obj, infrav1.PausedCondition, "True")
	}
	copyObjects(h, there)
	change(there, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })

	there.waitReady("demo")
	there.Expect(order()).To(Equal([]string{"create vpc", "create cluster"}), "nothing was created or destroyed")
	for _, name := range []string{"demo-vpc", "demo"} {
		there.Expect(there.apply(name).Status.Runs).To(BeEquivalentTo(1), "the runs of %s are on record, and there was no other", name)
	}
	there.Expect(there.infra("demo").Status.VPCID).To(Equal(vpc))
	there.Expect(there.controlPlane("demo").Spec.ControlPlaneEndpoint).To(Equal(endpoint))

	// The moved objects can be deleted there.
	there.destroy(there.cluster("demo"))
	there.Expect(order()).To(Equal([]string{"create vpc", "create cluster", "destroy cluster", "destroy vpc"}))
}

func copyObjects(from, to *harness) {
	from.t.Helper()
	uids := map[types.UID]types.UID{}
	for _, gvk := range moved {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		from.Expect(from.env.Client.List(from.ctx, list, client.InNamespace(from.namespace))).To(Succeed())
		for i := range list.Items {
			obj := &list.Items[i]
			old := obj.GetUID()
			copied := obj.DeepCopy()
			unstructured.RemoveNestedField(copied.Object, "status")
			copied.SetNamespace(to.namespace)
			copied.SetUID("")
			copied.SetResourceVersion("")
			copied.SetManagedFields(nil)
			owners := copied.GetOwnerReferences()
			for i := range owners {
				from.Expect(uids).To(HaveKey(owners[i].UID), "the owner %s of %s is copied first", owners[i].Name, obj.GetName())
				owners[i].UID = uids[owners[i].UID]
			}
			copied.SetOwnerReferences(owners)
			to.Expect(to.env.Client.Create(to.ctx, copied)).To(Succeed())
			uids[old] = copied.GetUID()
		}
	}
	// The old objects are deleted without any controller acting on them.
	for _, gvk := range slices.Backward(moved) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		from.Expect(from.env.Client.List(from.ctx, list, client.InNamespace(from.namespace))).To(Succeed())
		for i := range list.Items {
			obj := &list.Items[i]
			from.Eventually(func() error {
				return client.IgnoreNotFound(from.env.Client.Patch(from.ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			}, testTimeout).Should(Succeed())
			from.Expect(client.IgnoreNotFound(from.env.Client.Delete(from.ctx, obj))).To(Succeed())
		}
	}
}
