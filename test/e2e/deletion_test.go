package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

// observation is when something was first observed: the time, and the resource version
// of the object. Resource versions increase in the order of writes.
type observation struct {
	at      time.Time
	version int
}

// deletionTimeline is the first observation of each event of a deletion.
type deletionTimeline struct {
	mu           sync.Mutex
	observations map[string]observation
}

// record records the first observation of an event.
func (c *deletionTimeline) record(what string, obj client.Object) {
	version, err := strconv.Atoi(obj.GetResourceVersion())
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.observations[what]; !known {
		c.observations[what] = observation{at: time.Now(), version: version}
	}
}

// released is the event in which the owner releases the control plane's workspace,
// which is then destroyed.
const released = "the workspace is released"

// watchDeletion watches a deletion until the end of the test.
func (h *harness) watchDeletion() *deletionTimeline {
	h.t.Helper()
	c := &deletionTimeline{observations: map[string]observation{}}
	for list, note := range map[client.ObjectList]func(runtime.Object){
		&controlplanev1.CAPTControlPlaneList{}: func(obj runtime.Object) {
			plane, ok := obj.(*controlplanev1.CAPTControlPlane)
			for _, kind := range []string{controlplanev1.LoadBalancersGoneCondition, controlplanev1.NodesGoneCondition} {
				if ok && meta.IsStatusConditionTrue(plane.Status.Conditions, kind) {
					c.record(kind, plane)
				}
			}
		},
		&addonsv1.CAPTAddonList{}: func(obj runtime.Object) {
			if addon, ok := obj.(*addonsv1.CAPTAddon); ok && len(addon.Status.Clusters) == 0 {
				c.record(addon.Name, addon)
			}
		},
		&infrav1.WorkspaceTemplateApplyList{}: func(obj runtime.Object) {
			apply, ok := obj.(*infrav1.WorkspaceTemplateApply)
			if ok && apply.Name == h.name && !apply.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer) {
				c.record(released, apply)
			}
		},
	} {
		events, err := h.client.Watch(h.ctx, list, client.InNamespace(environment.Namespace))
		h.Expect(err).NotTo(HaveOccurred())
		h.t.Cleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				note(event.Object)
			}
		}()
	}
	return c
}

// deletesInOrder deletes the Cluster and checks that its nodes, then its add-ons, are
// deleted before the workspace of its control plane.
func (h *harness) deletesInOrder() {
	h.Expect(h.claims()).NotTo(BeEmpty(), "nodes to delete")
	c, began := h.watchDeletion(), time.Now()
	h.Expect(h.client.Delete(h.ctx, get(h, h.name, &clusterv1.Cluster{}))).To(Succeed())
	h.Eventually(func() int { return len(h.claims()) }, testTimeout, measureInterval).Should(BeZero(), "Karpenter's nodes are deleted")
	none := time.Now()
	h.logf("Karpenter's nodes are deleted")
	h.Eventually(func() string {
		if plane := h.controlPlane(); plane.Name != "" {
			return condition(plane.Status.Conditions, infrav1.ReadyCondition)
		}
		var list clusterv1.ClusterList
		h.Expect(h.client.List(h.ctx, &list, client.InNamespace(environment.Namespace))).To(Succeed())
		if len(list.Items) > 0 {
			return "the Cluster exists"
		}
		return "deleted"
	}).Should(Equal("deleted"), "the Cluster")
	c.mu.Lock()
	defer c.mu.Unlock()
	order := []string{controlplanev1.LoadBalancersGoneCondition, controlplanev1.NodesGoneCondition, nodePool, karpenter, flux, released}
	for i, what := range order {
		h.Expect(c.observations).To(HaveKey(what))
		h.logf("%.1fs after the deletion: %s", c.observations[what].at.Sub(began).Seconds(), what)
		if i > 0 && what != flux {
			// Flux is not uninstalled, so only the workspace waits for it.
			h.Expect(c.observations[what].version).To(BeNumerically(">=", c.observations[order[i-1]].version), "%s comes after %s", what, order[i-1])
		}
	}
	h.Expect(c.observations[released].version).To(BeNumerically(">", c.observations[karpenter].version))
	h.Expect(none).To(BeTemporally("<=", c.observations[released].at), "the nodes are deleted before the workspace is destroyed")
}

// rendered returns the objects of an add-on in the management cluster.
func (h *harness) rendered(addon string) []string {
	h.t.Helper()
	var names []string
	var sets clusteraddonsv1.ClusterResourceSetList
	var secrets corev1.SecretList
	ours := []client.ListOption{client.InNamespace(environment.Namespace)}
	if addon != "" {
		ours = append(ours, client.MatchingLabels{addonsv1.AddonLabel: addon})
	} else {
		ours = append(ours, client.HasLabels{addonsv1.AddonLabel})
	}
	h.Expect(h.client.List(h.ctx, &sets, ours...)).To(Succeed())
	h.Expect(h.client.List(h.ctx, &secrets, ours...)).To(Succeed())
	for _, s := range sets.Items {
		names = append(names, "ClusterResourceSet "+s.Name)
	}
	for _, s := range secrets.Items {
		names = append(names, "Secret "+s.Name)
	}
	return names
}

// leftovers returns the objects of the cluster in the management cluster.
func (h *harness) leftovers() []string {
	h.t.Helper()
	left := h.rendered("")
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &clusteraddonsv1.ClusterResourceSetBindingList{}, &infrav1.WorkspaceTemplateApplyList{},
		&infrav1.CAPTClusterList{}, &infrav1.CAPTMachinePoolList{}, &controlplanev1.CAPTControlPlaneList{}, &clusterv1.MachinePoolList{},
	} {
		h.Expect(h.client.List(h.ctx, list, client.InNamespace(environment.Namespace))).To(Succeed())
		h.Expect(meta.EachListItem(list, func(obj runtime.Object) error {
			named, ok := obj.(client.Object)
			if ok && (strings.Contains(named.GetName(), h.name) || named.GetLabels()[clusterv1.ClusterNameLabel] == h.name) {
				left = append(left, fmt.Sprintf("%T %s", obj, named.GetName()))
			}
			return nil
		})).To(Succeed())
	}
	return left
}

// leavesNothing checks that no objects, processes and files are left.
func (h *harness) leavesNothing() {
	h.Eventually(h.leftovers).Should(BeEmpty(), "objects of the cluster")
	h.Eventually(func() []string { return testenv.ProcessesOf(filepath.Join(h.env.Dir, "clusters")) }).
		Should(BeEmpty(), "processes of the cluster")
	h.Expect(filepath.Glob(filepath.Join(h.env.Dir, "clusters", "*"))).To(BeEmpty(), "directories of the cluster")
	for _, addon := range []string{flux, karpenter, nodePool, third} {
		h.Expect(h.addonStatus(addon)).To(Equal("absent"), addon)
	}
}
