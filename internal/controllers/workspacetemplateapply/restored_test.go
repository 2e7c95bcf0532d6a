package workspacetemplateapply

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// movedApply is a workspace as clusterctl creates it: with its annotations, without its status.
func movedApply(changes ...func(*infrav1.WorkspaceTemplateApply)) *infrav1.WorkspaceTemplateApply {
	return newApply(append([]func(*infrav1.WorkspaceTemplateApply){func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{infrav1.StateLineageAnnotation: "l"}
	}}, changes...)...)
}

// stateSecret is the state of the workspace in the Kubernetes backend.
func stateSecret(t *testing.T, content string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: objectMeta("tfstate-default-hello-ws"), Type: corev1.SecretTypeOpaque}
	secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: record.ComponentState}
	if content != "" {
		data, err := record.Compress([]byte(content))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		secret.Data = map[string][]byte{"tfstate": data}
	}
	return secret
}

// Every run of a moved workspace would create its resources a second time if it started
// before the state is there.
func TestRestored_waitsForItsState(t *testing.T) {
	for name, before := range map[string]*corev1.Secret{
		"no Secret":             nil,
		"an empty Secret":       stateSecret(t, ""),
		"another, empty state":  stateSecret(t, `{"version":4,"lineage":"x","serial":1}`),
		"a state of no lineage": stateSecret(t, `{"version":4}`),
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(values(), movedApply())
			if before != nil {
				objects = append(objects, before.DeepCopy())
			}
			c := newTestController(t, objects...)
			secrets := c.secrets()
			for range 2 {
				c.Expect(c.reconcile().RequeueAfter).To(Equal(execution.StateInterval))
			}
			c.Expect(c.expect(infrav1.AppliedCondition, "False StateMissing")).To(And(
				ContainSubstring("tfstate-default-hello-ws"), ContainSubstring("captctl state push"),
				HaveSuffix("run captctl state adopt --version none/l")))
			c.Expect(c.started).To(BeEmpty())
			c.Expect(c.secrets()).To(Equal(secrets), "nothing was created")
			c.Expect(c.get().Status.Runs).To(BeZero())
			running, waiting := c.reconciler.queue.Len()
			c.Expect(running+waiting).To(BeZero(), "it needs no slot")

			if before != nil {
				c.Expect(c.server.Delete(t.Context(), before.DeepCopy())).To(Succeed())
			}
			c.Expect(c.server.Create(t.Context(), stateSecret(t, `{"version":4,"lineage":"l","serial":3,"resources":[{}]}`))).To(Succeed())
			c.reconcile()
			c.Expect(c.started).To(ConsistOf("hello-r1"))
		})
	}
}

// giveUp lets the workspace start without the state that it had.
func giveUp(c *testController) {
	c.request(newAdoptOperation(infrav1.AdoptOptions{State: "none/l"}))
}

func TestRestored_startsFromNothingOnRequest(t *testing.T) {
	for name, change := range map[string]func(*testController){
		"given up": giveUp,
		"without the annotation": func(c *testController) {
			c.change(func(a *infrav1.WorkspaceTemplateApply) { delete(a.Annotations, infrav1.StateLineageAnnotation) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), movedApply())...)
			c.reconcile()
			c.Expect(c.started).To(BeEmpty())
			change(c)
			c.reconcile()
			c.Expect(c.started).To(ConsistOf("hello-r1"))
			c.finish("hello-r1", terraform.Result{
				Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "new", Serial: 1, Resources: 1},
				Outputs: map[string]terraform.Output{"id": output(`"vpc-1"`)},
			})
			c.reconcile()
			c.Expect(c.get().Annotations).To(HaveKeyWithValue(infrav1.StateLineageAnnotation, "new"))
		})
	}
}

// The state of another backend is read by a run only.
func TestRestored_tellsTheRunWhatToExpect(t *testing.T) {
	objects := values()
	config, ok := objects[1].(*infrav1.WorkspaceProviderConfig)
	NewWithT(t).Expect(ok).To(BeTrue())
	config.Spec.Backend = &infrav1.BackendConfig{Type: "s3", Configuration: `bucket = "b"`}
	c := newTestController(t, append(objects, movedApply())...)
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"))
	request, err := record.Request(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.State.Expected).To(Equal("l"))
	c.Expect(request.State.Lineage).To(BeEmpty(), "an editor can write the annotation")

	t.Log("a run that is lost does not make the workspace forget it")
	c.liveness = terraform.LivenessGone
	c.reconcile()
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1", "hello-r2"))
	request, err = record.Request(c.runSecret("hello-r2"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.State.Expected).To(Equal("l"))
}

// A user restores the state with these commands.
func TestRestored_letsAUserRestoreTheState(t *testing.T) {
	for name, test := range map[string]struct {
		requested *infrav1.WorkspaceOperation
		started   bool
	}{
		"push":    {newStateOperation(infrav1.StateOptions{Command: "push", Input: "input-1"}), true},
		"restore": {newRestoreOperation("restore", "capt-snapshot-hello-r1-0"), true},
		"pull":    {newStateOperation(infrav1.StateOptions{Command: "pull"}), false},
		"rm":      {newStateOperation(infrav1.StateOptions{Command: "rm", Args: []infrav1.AddressString{"a.b"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), movedApply(), test.requested)...)
			c.reconcile()
			if !test.started {
				c.expect(infrav1.AppliedCondition, "False StateMissing")
				c.Expect(c.started).To(BeEmpty(), "the run would reserve an empty state")
				return
			}
			c.Expect(c.started).To(ConsistOf("hello-r1"))
		})
	}
}

// A deletion without the state would leave the resources behind.
func TestRestored_isNotDeletedWithoutItsState(t *testing.T) {
	for name, change := range map[string]func(*testController){
		"retained": func(c *testController) {
			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
		},
		"given up": giveUp,
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), movedApply())...)
			c.reconcile()
			c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
			c.reconcile()
			c.Expect(c.expect(infrav1.DestroyedCondition, "False StateMissing")).To(ContainSubstring("retainWorkspaceOnDelete"))
			change(c)
			c.reconcile()
			c.Expect(c.deleted()).To(BeTrue())
			c.Expect(c.started).To(BeEmpty())
		})
	}
}

func TestRestored_destroysWithItsState(t *testing.T) {
	c := newTestController(t, append(values(), movedApply(), stateSecret(t, `{"version":4,"lineage":"l","serial":3,"resources":[{}]}`))...)
	apply := c.get()
	apply.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
	c.Expect(c.server.Update(t.Context(), apply)).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), apply)).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(ConsistOf("hello-r1"))
}

// The annotation is written when the lineage becomes known, and not again.
func TestRestored_recordsTheLineageOnce(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.Expect(c.get().Annotations).NotTo(HaveKey(infrav1.StateLineageAnnotation), "a workspace that never ran has no state")
	t.Log("the run has created the state")
	secret := c.runSecret("hello-r1")
	secret.Data["state"] = []byte(`{"lineage":"l","serial":1}`)
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	c.reconcile()
	c.Expect(c.get().Annotations).To(HaveKeyWithValue(infrav1.StateLineageAnnotation, "l"))
	c.finish("hello-r1", outputsResult)
	for range 3 {
		c.reconcile()
	}
	c.expect(infrav1.ReadyCondition, "True Ready")
	before := c.get().ResourceVersion
	c.reconcile()
	c.Expect(c.get().ResourceVersion).To(Equal(before), "nothing is written in the steady state")

	t.Log("an editor changes it")
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[infrav1.StateLineageAnnotation] = "forged" })
	c.reconcile()
	c.Expect(c.get().Annotations).To(HaveKeyWithValue(infrav1.StateLineageAnnotation, "l"))
	c.Expect(c.started).To(ConsistOf("hello-r1"))
}

// clusterctl creates a workspace first and its Secrets later, one by one. A history of some
// of the runs would not be that of the workspace.
func TestRestored_waitsForItsRuns(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*infrav1.WorkspaceTemplateApply)
		created time.Duration
		wait    time.Duration
		reason  string
	}{
		"just created":            {func(*infrav1.WorkspaceTemplateApply) {}, -time.Second, quietPeriod - time.Second, infrav1.WaitingForSecretReason},
		"created before":          {func(*infrav1.WorkspaceTemplateApply) {}, -quietPeriod, execution.StateInterval, infrav1.StateMissingReason},
		"by a clock that is fast": {func(*infrav1.WorkspaceTemplateApply) {}, time.Hour, execution.StateInterval, infrav1.StateMissingReason},
		"of a cluster, which was paused": {
			func(a *infrav1.WorkspaceTemplateApply) {
				a.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
			},
			-time.Second, execution.StateInterval, infrav1.StateMissingReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), &clusterv1.Cluster{ObjectMeta: objectMeta("demo")}, movedApply(test.change, func(a *infrav1.WorkspaceTemplateApply) {
				a.CreationTimestamp = metav1.NewTime(noon.Add(test.created))
			}))...)
			c.Expect(c.reconcile().RequeueAfter).To(Equal(test.wait))
			c.expect(infrav1.ReadyCondition, "False "+test.reason)
		})
	}
}

func TestRestored_continuesFromAllOfItsRuns(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.request(newRunOperation("now"))
	c.reconcile()
	c.finish("hello-r2", outputsResult)
	c.reconcile()
	runs := []*corev1.Secret{c.runSecret("hello-r1"), c.runSecret("hello-r2")}

	moved := c.get()
	moved.Status, moved.ResourceVersion = infrav1.WorkspaceTemplateApplyStatus{}, ""
	moved.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	target := newTestController(t, append(values(), moved)...)
	other, err := seal.New(seal.Generate(), testKey.Created())
	target.Expect(err).NotTo(HaveOccurred())
	target.reconciler.SealKey = keyed(other)
	target.reconcile()
	for _, run := range runs {
		run.ResourceVersion, run.CreationTimestamp = "", metav1.NewTime(noon)
		target.Expect(target.server.Create(t.Context(), run)).To(Succeed())
		target.Expect(target.reconcile().RequeueAfter).To(Equal(quietPeriod))
		target.Expect(target.get().Status.Runs).To(BeZero())
	}
	target.reconciler.Now = func() time.Time { return noon.Add(quietPeriod) }
	for range 4 {
		target.reconcile()
	}
	target.Expect(target.get().Status.History).To(HaveLen(2))
	target.expect(infrav1.ReadyCondition, "True Ready")
	target.Expect(target.started).To(BeEmpty(), "nothing has to be planned again")
}

// A workspace that had a state of its own does not become a guest before it has its Secrets.
func TestRestored_isNoGuest(t *testing.T) {
	c := newGrantController(t, both...)
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{infrav1.StateLineageAnnotation: "l"}
	})
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False WaitingForProviderConfig")
	c.Expect(c.get().Annotations).NotTo(HaveKey(infrav1.HostedInAnnotation))
}

// A workspace without its state can be deleted alone, also after a run that was lost.
func TestRestored_savesTheStateOfALostRunBeforeResourcesAreRetained(t *testing.T) {
	state := stateSecret(t, `{"version":4,"lineage":"l","serial":3,"resources":[{}]}`)
	c := newTestController(t, append(values(), state, movedApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true }))...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: runs.OutcomeLost})
	c.Expect(c.server.Delete(t.Context(), state)).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "SaveState"))
}
