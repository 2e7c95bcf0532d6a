package contract

import (
	"maps"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// objectsByKind contains one object of each kind with a role in the contract.
type objectsByKind map[schema.GroupVersionKind]objecttest.Object

// createObjects creates a Cluster and one object of each kind that belongs to it. The
// labels are on all of them.
func (h *harness) createObjects(cluster *clusterv1.Cluster, labels, annotations map[string]string) objectsByKind {
	cluster.Labels = labels
	if cluster.UID == "" {
		h.create(cluster)
	}
	created := objectsByKind{}
	for _, s := range subjects {
		obj, ok := s.sample(cluster.Name).(objecttest.Object)
		h.Expect(ok).To(BeTrue(), "%s has conditions", s.kind.Kind)
		own := map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
		maps.Copy(own, labels)
		obj.SetLabels(own)
		obj.SetAnnotations(annotations)
		obj.SetNamespace(h.namespace)
		h.Expect(controllerutil.SetOwnerReference(cluster, obj, h.env.Scheme)).To(Succeed())
		h.create(obj)
		created[s.kind] = obj
	}
	return created
}

// fresh returns the current version of an object.
func (h *harness) fresh(obj objecttest.Object) objecttest.Object {
	current, ok := obj.DeepCopyObject().(objecttest.Object)
	h.Expect(ok).To(BeTrue())
	current.SetResourceVersion("")
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(obj), current)).To(Succeed())
	return current
}

// flagged are the objects of managers with restricting flags.
type flagged struct {
	*harness
	// byNamespace is in the namespace of one manager, byLabel has the label of the
	// other, and foreign has neither.
	byNamespace, byLabel, foreign objectsByKind
}

// restricted runs two managers in a separate environment, one for a namespace and one
// for a label, until each has reconciled all of its objects.
var restricted = scenario[flagged]{
	environment: func() (*testenv.Environment, error) {
		e, err := testenv.Start()
		if err == nil {
			env.OnStop(e.Stop)
		}
		return e, err
	},
	run: func(h *harness) flagged {
		const filter = "blue"
		marked := map[string]string{clusterv1.WatchLabel: filter}
		there := newHarness(h.Gomega, h.env)
		for _, obj := range there.templates() {
			obj.SetLabels(marked)
			there.create(obj)
		}
		h.create(h.templates()...)
		f := flagged{
			harness:     h,
			byNamespace: h.createObjects(newCluster("demo"), nil, nil),
			byLabel:     there.createObjects(newCluster("marked"), marked, nil),
			foreign:     there.createObjects(newCluster("plain"), nil, nil),
		}
		for directory, flag := range map[string]string{"by-namespace": "--namespace=" + h.namespace, "by-label": "--watch-filter=" + filter} {
			stop, err := runManager(h.env, directory, flag)
			h.Expect(err).NotTo(HaveOccurred())
			h.env.OnStop(stop)
		}
		for _, created := range []objectsByKind{f.byNamespace, f.byLabel} {
			h.Eventually(func(g Gomega) {
				for kind, obj := range created {
					g.Expect(h.fresh(obj).GetConditions()).NotTo(BeEmpty(), "%s %s", kind.Kind, client.ObjectKeyFromObject(obj))
				}
				controlPlane, ok := h.fresh(created[captControlPlane.kind]).(*controlplanev1.CAPTControlPlane)
				g.Expect(ok).To(BeTrue())
				g.Expect(controlPlane.Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()), "%v", controlPlane.Status.Conditions)
			}, testTimeout, pollInterval).Should(Succeed(), "each manager reconciles its objects")
		}
		return f
	},
}

// supportsNamespace holds when a manager with the flag reconciles only objects of its
// namespace.
func supportsNamespace(c *check) {
	c.restrictedTo(func(f flagged) objectsByKind { return f.byNamespace })
}

// supportsWatchFilter holds when a manager with the flag reconciles only objects with
// the label.
func supportsWatchFilter(c *check) {
	c.restrictedTo(func(f flagged) objectsByKind { return f.byLabel })
}

func (c *check) restrictedTo(own func(flagged) objectsByKind) {
	f := restricted.in(c)
	h := c.on(f.harness)
	c.Expect(h.fresh(own(f)[c.subject.kind]).GetConditions()).NotTo(BeEmpty())
	foreign := f.foreign[c.subject.kind]
	c.Expect(h.fresh(foreign).GetResourceVersion()).To(Equal(foreign.GetResourceVersion()), "no manager writes a foreign object")
}

// pauses are the objects of each kind while they were paused, and after.
type pauses struct {
	*harness
	byCluster, byAnnotation, after objectsByKind
	// held reports whether changes of a running cluster waited for the end of a pause.
	held bool
}

// paused creates paused objects of every kind, in both ways, and pauses a running
// cluster.
var paused = scenario[pauses]{run: func(h *harness) pauses {
	h.create(h.templates()...)
	stopped := newCluster("stopped")
	stopped.Spec.Paused = new(true)
	noted := newCluster("noted")
	h.create(stopped, noted)
	// The manager knows the Clusters, since it knows a later one.
	earlier := newHarness(h.Gomega, h.env)
	earlier.waitResumed(earlier.createObjects(newCluster("earlier"), nil, nil))
	p := pauses{harness: h}
	byCluster := h.createObjects(stopped, nil, nil)
	byAnnotation := h.createObjects(noted, nil, map[string]string{clusterv1.PausedAnnotation: ""})
	p.byCluster, p.byAnnotation = h.waitPaused(byCluster), h.waitPaused(byAnnotation)
	// The controllers reconcile objects that are created later. They wait for templates.
	later := newHarness(h.Gomega, h.env)
	later.waitResumed(later.createObjects(newCluster("later"), nil, nil))
	var applies infrav1.WorkspaceTemplateApplyList
	h.Expect(h.env.Client.List(h.ctx, &applies, client.InNamespace(h.namespace))).To(Succeed())
	h.Expect(applies.Items).To(BeEmpty(), "paused objects are not reconciled")
	for _, created := range []objectsByKind{byCluster, byAnnotation} {
		for _, obj := range created {
			h.Expect(h.fresh(obj).GetConditions()).To(ConsistOf(HaveField("Type", clusterv1.PausedCondition)), "paused objects are not reconciled")
		}
	}

	change(h, "stopped", emptyCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	for _, obj := range byAnnotation {
		change(h, obj.GetName(), h.fresh(obj), func(o objecttest.Object) { o.SetAnnotations(nil) })
	}
	p.after = h.waitResumed(byCluster)
	h.waitResumed(byAnnotation)
	p.held = h.pauseRunning("stopped")
	return p
}}

// waitPaused waits until every object reports that it is paused.
func (h *harness) waitPaused(created objectsByKind) objectsByKind {
	seen := objectsByKind{}
	for kind, obj := range created {
		h.Eventually(func(g Gomega) {
			seen[kind] = h.fresh(obj)
			g.Expect(objecttest.Condition(seen[kind], clusterv1.PausedCondition).Status).To(Equal(metav1.ConditionTrue), "%s %s", kind.Kind, obj.GetName())
		}, testTimeout, pollInterval).Should(Succeed())
	}
	return seen
}

// waitResumed waits until every object reports that it is not paused, and is
// reconciled.
func (h *harness) waitResumed(created objectsByKind) objectsByKind {
	seen := objectsByKind{}
	for kind, obj := range created {
		h.Eventually(func(g Gomega) {
			seen[kind] = h.fresh(obj)
			g.Expect(objecttest.Condition(seen[kind], clusterv1.PausedCondition).Status).To(Equal(metav1.ConditionFalse), "%s %s", kind.Kind, obj.GetName())
			g.Expect(string(objecttest.Condition(seen[kind], clusterv1.ReadyCondition).Status)).NotTo(Equal("Missing"), "%s %s", kind.Kind, obj.GetName())
		}, testTimeout, pollInterval).Should(Succeed())
	}
	return seen
}

// pauseRunning reports whether a change of a running cluster is applied only after the
// pause.
func (h *harness) pauseRunning(name string) bool {
	h.waitReady(name)
	change(h, name, emptyCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	waitCondition(h, name, emptyInfra(), clusterv1.PausedCondition, "True")
	waitCondition(h, name, emptyControlPlane(), clusterv1.PausedCondition, "True")
	change(h, name, emptyInfra(), func(c *infrav1.CAPTCluster) { c.Spec.AdditionalTags = map[string]string{"team": "a"} })
	change(h, name, emptyControlPlane(), func(c *controlplanev1.CAPTControlPlane) { c.Spec.AdditionalTags = map[string]string{"team": "b"} })
	given := func(g Gomega, has bool) {
		for _, workspace := range []string{name, name + "-vpc"} {
			variables := get(h, workspace, &infrav1.WorkspaceTemplateApply{}).Spec.Variables
			_, found := variables["tags"]
			g.Expect(found).To(Equal(has), workspace)
		}
	}
	// The conditions are those of the new generation: a change waits.
	waitCondition(h, name, emptyInfra(), clusterv1.PausedCondition, "True")
	waitCondition(h, name, emptyControlPlane(), clusterv1.PausedCondition, "True")
	given(h, false)
	change(h, name, emptyCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	h.Eventually(func(g Gomega) { given(g, true) }, testTimeout, pollInterval).Should(Succeed(), "a change is applied after the pause")
	return true
}

// pausesByBoth holds when an object is not reconciled while its Cluster is paused or
// while it has the annotation, and is reconciled after.
func pausesByBoth(c *check) {
	p := paused.in(c)
	for _, created := range []objectsByKind{p.byCluster, p.byAnnotation} {
		c.Expect(created[c.subject.kind].GetConditions()).To(HaveLen(1), "nothing but Paused was reported")
	}
	c.Expect(p.held).To(BeTrue())
	c.Expect(objecttest.Condition(p.after[c.subject.kind], clusterv1.ReadyCondition).Status).NotTo(BeEmpty())
}

// showsPause holds when the condition names the cause of the pause, and is False after.
func showsPause(c *check) {
	p := paused.in(c)
	byCluster := objecttest.Condition(p.byCluster[c.subject.kind], clusterv1.PausedCondition)
	c.Expect(objecttest.Text(byCluster)).To(And(HavePrefix("True "+clusterv1.PausedReason), ContainSubstring("spec.paused")))
	byAnnotation := objecttest.Condition(p.byAnnotation[c.subject.kind], clusterv1.PausedCondition)
	c.Expect(objecttest.Text(byAnnotation)).To(And(HavePrefix("True "+clusterv1.PausedReason), ContainSubstring(clusterv1.PausedAnnotation)))
	after := objecttest.Condition(p.after[c.subject.kind], clusterv1.PausedCondition)
	c.Expect(objecttest.Text(after)).To(HavePrefix("False " + clusterv1.NotPausedReason))
}
