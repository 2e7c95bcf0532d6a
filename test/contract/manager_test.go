package contract

import (
	"maps"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// family is one object of each kind that plays a role.
type family map[schema.GroupVersionKind]conditioned

// family makes a Cluster and one object of each kind that belongs to it. The
// labels are on all of them.
func (w *harness) family(cluster *clusterv1.Cluster, labels, annotations map[string]string) family {
	cluster.Labels = labels
	w.create(cluster)
	made := family{}
	for _, s := range subjects {
		obj, ok := s.sample(cluster.Name).(conditioned)
		w.Expect(ok).To(BeTrue(), "%s has conditions", s.kind.Kind)
		own := map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
		maps.Copy(own, labels)
		obj.SetLabels(own)
		obj.SetAnnotations(annotations)
		obj.SetNamespace(w.namespace)
		w.Expect(controllerutil.SetOwnerReference(cluster, obj, w.env.Scheme)).To(Succeed())
		w.create(obj)
		made[s.kind] = obj
	}
	return made
}

// fresh reads an object anew.
func (w *harness) fresh(obj conditioned) conditioned {
	again, ok := obj.DeepCopyObject().(conditioned)
	w.Expect(ok).To(BeTrue())
	again.SetResourceVersion("")
	w.Expect(w.env.Client.Get(w.ctx, client.ObjectKeyFromObject(obj), again)).To(Succeed())
	return again
}

// flagged is what managers with restrictions had before them.
type flagged struct {
	*harness
	// byNamespace was in the namespace of one manager, byLabel had the label of
	// the other, and foreign had neither.
	byNamespace, byLabel, foreign family
}

// restricted runs two managers in an environment of their own, one for a
// namespace and one for a label, until each has done all of its work.
var restricted = scenario[flagged]{
	environment: func() (*testenv.Environment, error) {
		e, err := testenv.Start()
		if err == nil {
			env.OnStop(e.Stop)
		}
		return e, err
	},
	play: func(w *harness) flagged {
		const filter = "blue"
		marked := map[string]string{clusterv1.WatchLabel: filter}
		there := newHarness(w.Gomega, w.env)
		for _, obj := range there.templates() {
			obj.SetLabels(marked)
			there.create(obj)
		}
		w.create(w.templates()...)
		f := flagged{
			harness:     w,
			byNamespace: w.family(newCluster("demo"), nil, nil),
			byLabel:     there.family(newCluster("marked"), marked, nil),
			foreign:     there.family(newCluster("plain"), nil, nil),
		}
		for directory, flag := range map[string]string{"by-namespace": "--namespace=" + w.namespace, "by-label": "--watch-filter=" + filter} {
			stop, err := runManager(w.env, directory, flag)
			w.Expect(err).NotTo(HaveOccurred())
			w.env.OnStop(stop)
		}
		for _, made := range []family{f.byNamespace, f.byLabel} {
			w.Eventually(func(g Gomega) {
				for kind, obj := range made {
					g.Expect(w.fresh(obj).GetConditions()).NotTo(BeEmpty(), "%s %s", kind.Kind, client.ObjectKeyFromObject(obj))
				}
				controlPlane, ok := w.fresh(made[captControlPlane.kind]).(*controlplanev1.CAPTControlPlane)
				g.Expect(ok).To(BeTrue())
				g.Expect(controlPlane.Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()), "%v", controlPlane.Status.Conditions)
			}, patience, glance).Should(Succeed(), "a manager does its own work")
		}
		return f
	},
}

// supportsNamespace holds when a manager with the flag works in its namespace,
// and there alone.
func supportsNamespace(c *check) { c.restrictedTo(func(f flagged) family { return f.byNamespace }) }

// supportsWatchFilter holds when a manager with the flag works on objects with
// the label, and on them alone.
func supportsWatchFilter(c *check) { c.restrictedTo(func(f flagged) family { return f.byLabel }) }

func (c *check) restrictedTo(own func(flagged) family) {
	f := restricted.in(c)
	w := c.on(f.harness)
	c.Expect(w.fresh(own(f)[c.subject.kind]).GetConditions()).NotTo(BeEmpty())
	foreign := f.foreign[c.subject.kind]
	c.Expect(w.fresh(foreign).GetResourceVersion()).To(Equal(foreign.GetResourceVersion()), "no manager touches a foreign object")
}

// pauses is how objects of each kind were while they were paused, and after.
type pauses struct {
	*harness
	byCluster, byAnnotation, after family
	// held tells that changes of a running cluster waited for the end of a pause.
	held bool
}

// paused pauses objects of every kind from the beginning, in both ways, and a
// running cluster later.
var paused = scenario[pauses]{play: func(w *harness) pauses {
	w.create(w.templates()...)
	stopped := newCluster("stopped")
	stopped.Spec.Paused = new(true)
	p := pauses{harness: w}
	byCluster := w.family(stopped, nil, nil)
	byAnnotation := w.family(newCluster("noted"), nil, map[string]string{clusterv1.PausedAnnotation: ""})
	p.byCluster, p.byAnnotation = w.waitPaused(byCluster), w.waitPaused(byAnnotation)
	w.Consistently(func(g Gomega) {
		var applies infrav1.WorkspaceTemplateApplyList
		g.Expect(w.env.Client.List(w.ctx, &applies, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(applies.Items).To(BeEmpty())
		for _, made := range []family{byCluster, byAnnotation} {
			for _, obj := range made {
				g.Expect(w.fresh(obj).GetConditions()).To(ConsistOf(HaveField("Type", clusterv1.PausedCondition)))
			}
		}
	}, 2*time.Second, glance).Should(Succeed(), "nothing is done while it is paused")

	change(w, "stopped", emptyCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	for _, obj := range byAnnotation {
		change(w, obj.GetName(), w.fresh(obj), func(o conditioned) { o.SetAnnotations(nil) })
	}
	p.after = w.waitResumed(byCluster)
	w.waitResumed(byAnnotation)
	p.held = w.pauseRunning("stopped")
	return p
}}

// waitPaused waits until every object says that it is paused.
func (w *harness) waitPaused(made family) family {
	seen := family{}
	for kind, obj := range made {
		w.Eventually(func(g Gomega) {
			seen[kind] = w.fresh(obj)
			g.Expect(conditionOf(seen[kind], clusterv1.PausedCondition).Status).To(Equal(metav1.ConditionTrue), "%s %s", kind.Kind, obj.GetName())
		}, patience, glance).Should(Succeed())
	}
	return seen
}

// waitResumed waits until every object says that it is not, and is worked on.
func (w *harness) waitResumed(made family) family {
	seen := family{}
	for kind, obj := range made {
		w.Eventually(func(g Gomega) {
			seen[kind] = w.fresh(obj)
			g.Expect(conditionOf(seen[kind], clusterv1.PausedCondition).Status).To(Equal(metav1.ConditionFalse), "%s %s", kind.Kind, obj.GetName())
			g.Expect(string(conditionOf(seen[kind], clusterv1.ReadyCondition).Status)).NotTo(Equal("Missing"), "%s %s", kind.Kind, obj.GetName())
		}, patience, glance).Should(Succeed())
	}
	return seen
}

// pauseRunning reports whether a change of a running cluster waits while it is
// paused, and is made after.
func (w *harness) pauseRunning(name string) bool {
	w.waitReady(name)
	change(w, name, emptyCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	waitCondition(w, name, emptyInfra(), clusterv1.PausedCondition, "True")
	waitCondition(w, name, emptyControlPlane(), clusterv1.PausedCondition, "True")
	change(w, name, emptyInfra(), func(c *infrav1.CAPTCluster) { c.Spec.AdditionalTags = map[string]string{"team": "a"} })
	change(w, name, emptyControlPlane(), func(c *controlplanev1.CAPTControlPlane) { c.Spec.AdditionalTags = map[string]string{"team": "b"} })
	given := func(g Gomega, has bool) {
		for _, workspace := range []string{name, name + "-vpc"} {
			variables := get(w, workspace, &infrav1.WorkspaceTemplateApply{}).Spec.Variables
			_, found := variables["tags"]
			g.Expect(found).To(Equal(has), workspace)
		}
	}
	w.Consistently(func(g Gomega) { given(g, false) }, 2*time.Second, glance).Should(Succeed(), "a change waits")
	change(w, name, emptyCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	w.Eventually(func(g Gomega) { given(g, true) }, patience, glance).Should(Succeed(), "a change is made after the pause")
	return true
}

// pausesByBoth holds when an object stands still while its Cluster is paused, or
// while it has the annotation, and continues after.
func pausesByBoth(c *check) {
	p := paused.in(c)
	for _, made := range []family{p.byCluster, p.byAnnotation} {
		c.Expect(made[c.subject.kind].GetConditions()).To(HaveLen(1), "nothing but Paused was reported")
	}
	c.Expect(p.held).To(BeTrue())
	c.Expect(conditionOf(p.after[c.subject.kind], clusterv1.ReadyCondition).Status).NotTo(BeEmpty())
}

// showsPause holds when the condition says what pauses the object, and that
// nothing does.
func showsPause(c *check) {
	p := paused.in(c)
	byCluster := conditionOf(p.byCluster[c.subject.kind], clusterv1.PausedCondition)
	c.Expect(text(byCluster)).To(And(HavePrefix("True "+clusterv1.PausedReason), ContainSubstring("spec.paused")))
	byAnnotation := conditionOf(p.byAnnotation[c.subject.kind], clusterv1.PausedCondition)
	c.Expect(text(byAnnotation)).To(And(HavePrefix("True "+clusterv1.PausedReason), ContainSubstring(clusterv1.PausedAnnotation)))
	after := conditionOf(p.after[c.subject.kind], clusterv1.PausedCondition)
	c.Expect(text(after)).To(HavePrefix("False " + clusterv1.NotPausedReason))
}
