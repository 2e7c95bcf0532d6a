package e2e

import (
	"fmt"
	"path/filepath"
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
	"github.com/appthrust/capt/internal/embedded"
)

// course is what was seen of a deletion.
type course struct {
	mu sync.Mutex
	// gone is when each condition became True, let when the workspace of the
	// control plane was let go, to be destroyed.
	gone map[string]time.Time
	let  time.Time
}

// follow watches a deletion until the test ends.
func (w *world) follow() *course {
	w.t.Helper()
	c := &course{gone: map[string]time.Time{}}
	planes, err := w.client.Watch(w.ctx, &controlplanev1.CAPTControlPlaneList{}, w.ofCluster()...)
	w.Expect(err).NotTo(HaveOccurred())
	applies, err := w.client.Watch(w.ctx, &infrav1.WorkspaceTemplateApplyList{}, client.InNamespace(embedded.Namespace))
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() { planes.Stop(); applies.Stop() })
	go func() {
		for event := range planes.ResultChan() {
			plane, ok := event.Object.(*controlplanev1.CAPTControlPlane)
			if !ok {
				continue
			}
			c.mu.Lock()
			for _, kind := range []string{controlplanev1.NodesGoneCondition, controlplanev1.LoadBalancersGoneCondition, controlplanev1.AddonsGoneCondition} {
				if _, known := c.gone[kind]; !known && meta.IsStatusConditionTrue(plane.Status.Conditions, kind) {
					c.gone[kind] = time.Now()
				}
			}
			c.mu.Unlock()
		}
	}()
	go func() {
		for event := range applies.ResultChan() {
			apply, ok := event.Object.(*infrav1.WorkspaceTemplateApply)
			if !ok || apply.Name != w.name || apply.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer) {
				continue
			}
			c.mu.Lock()
			if c.let.IsZero() {
				c.let = time.Now()
			}
			c.mu.Unlock()
		}
	}()
	return c
}

// isDeleted deletes the Cluster and sees that its nodes and add-ons go before
// the workspace of its control plane.
func (w *world) isDeleted() {
	w.Expect(w.claims()).NotTo(BeEmpty(), "there are nodes to go")
	c := w.follow()
	w.Expect(w.client.Delete(w.ctx, get(w, w.name, &clusterv1.Cluster{}))).To(Succeed())
	w.Eventually(func() int {
		left := len(w.claims())
		if left == 0 {
			w.say("Karpenter's nodes are gone")
		}
		return left
	}, patience, moment).Should(BeZero(), "Karpenter's nodes go")
	none := time.Now()
	w.Eventually(func() string {
		if plane := w.controlPlane(); plane.Name != "" {
			return condition(plane.Status.Conditions, infrav1.DeletableCondition) + " " + plane.Name
		}
		var list clusterv1.ClusterList
		w.Expect(w.client.List(w.ctx, &list, client.InNamespace(embedded.Namespace))).To(Succeed())
		if len(list.Items) > 0 {
			return "the Cluster is there"
		}
		return "gone"
	}).Should(Equal("gone"), "the Cluster")
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Expect(c.let).NotTo(BeZero(), "the end of the workspace was seen")
	w.Expect(none).To(BeTemporally("<=", c.let), "the nodes are gone before the workspace is destroyed")
	for _, kind := range []string{controlplanev1.NodesGoneCondition, controlplanev1.LoadBalancersGoneCondition, controlplanev1.AddonsGoneCondition} {
		w.Expect(c.gone).To(HaveKey(kind))
		w.say("%s %.1fs before the workspace was let go", kind, c.let.Sub(c.gone[kind]).Seconds())
		w.Expect(c.gone[kind]).To(BeTemporally("<=", c.let), "%s", kind)
	}
	w.Expect(c.gone[controlplanev1.NodesGoneCondition]).To(BeTemporally("<=", c.gone[controlplanev1.AddonsGoneCondition]), "Karpenter stays until its nodes are gone")
}

// rendered are the objects of an add-on in the management cluster.
func (w *world) rendered(addon string) []string {
	w.t.Helper()
	var names []string
	var sets clusteraddonsv1.ClusterResourceSetList
	var secrets corev1.SecretList
	ours := []client.ListOption{client.InNamespace(embedded.Namespace)}
	if addon != "" {
		ours = append(ours, client.MatchingLabels{addonsv1.AddonLabel: addon})
	} else {
		ours = append(ours, client.HasLabels{addonsv1.AddonLabel})
	}
	w.Expect(w.client.List(w.ctx, &sets, ours...)).To(Succeed())
	w.Expect(w.client.List(w.ctx, &secrets, ours...)).To(Succeed())
	for _, s := range sets.Items {
		names = append(names, "ClusterResourceSet "+s.Name)
	}
	for _, s := range secrets.Items {
		names = append(names, "Secret "+s.Name)
	}
	return names
}

// leftovers are objects of the cluster in the management cluster.
func (w *world) leftovers() []string {
	w.t.Helper()
	left := w.rendered("")
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &clusteraddonsv1.ClusterResourceSetBindingList{}, &infrav1.WorkspaceTemplateApplyList{},
		&infrav1.CAPTClusterList{}, &infrav1.CAPTMachinePoolList{}, &controlplanev1.CAPTControlPlaneList{}, &clusterv1.MachinePoolList{},
	} {
		w.Expect(w.client.List(w.ctx, list, client.InNamespace(embedded.Namespace))).To(Succeed())
		w.Expect(meta.EachListItem(list, func(obj runtime.Object) error {
			named, ok := obj.(client.Object)
			if ok && (strings.Contains(named.GetName(), w.name) || named.GetLabels()[clusterv1.ClusterNameLabel] == w.name) {
				left = append(left, fmt.Sprintf("%T %s", obj, named.GetName()))
			}
			return nil
		})).To(Succeed())
	}
	return left
}

// leavesNothing looks for objects, processes and files.
func (w *world) leavesNothing() {
	w.Eventually(w.leftovers).Should(BeEmpty(), "objects of the cluster")
	w.Eventually(func() []string { return processes(filepath.Join(w.env.Dir, "clusters")) }).
		Should(BeEmpty(), "processes of the cluster")
	dirs, err := filepath.Glob(filepath.Join(w.env.Dir, "clusters", "*"))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(dirs).To(BeEmpty(), "directories of the cluster")
	for _, addon := range []string{flux, karpenter, nodePool, third} {
		w.Expect(w.standing(addon)).To(Equal("absent"), addon)
	}
}
