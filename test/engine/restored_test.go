package engine

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// moveAlone replaces a workspace by one as clusterctl creates it, without its status and before
// any of its Secrets.
func (w *harness) moveAlone(name string) {
	w.t.Helper()
	before := w.get(name)
	w.annotate(name, clusterv1.PausedAnnotation, "")
	w.Eventually(func() metav1.ConditionStatus {
		return objecttest.Condition(w.get(name), infrav1.PausedCondition).Status
	}, testTimeout).Should(Equal(metav1.ConditionTrue))
	w.delete(name)
	w.change(name, func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil })
	w.waitDeleted(name)
	var secrets corev1.SecretList
	w.Expect(env.Client.List(w.ctx, &secrets, client.InNamespace(w.namespace), client.MatchingLabels{infrav1.WorkspaceLabel: name})).To(Succeed())
	for i := range secrets.Items {
		w.lose(&secrets.Items[i])
	}
	moved := &infrav1.WorkspaceTemplateApply{ObjectMeta: w.meta(name), Spec: before.Spec}
	moved.Labels, moved.Annotations = before.Labels, before.Annotations
	w.create(moved)
}

// A workspace without a Cluster is not paused while clusterctl moves it.
func TestRestored_createsNothingWithoutItsState(t *testing.T) {
	for _, backend := range []string{"kubernetes", "http"} {
		t.Run(backend, func(t *testing.T) {
			h := newHarness(t)
			server := h.elsewhere("key")
			if backend == "kubernetes" {
				h.template("several", several)
			} else {
				h.template("several", several, usesElsewhere)
			}
			h.apply("hello", "several", variables(map[string]string{"dir": h.dir}))
			lineage := h.waitReady("hello").Status.State.Lineage
			h.Expect(h.waitLineage("hello")).To(Equal(lineage))
			file := filepath.Join(t.TempDir(), "state")
			h.succeed("state", "pull", "hello", "--out", file)

			server.SetState("key", nil)
			h.moveAlone("hello")
			missing := h.waitReason("hello", infrav1.AppliedCondition, infrav1.StateMissingReason)
			h.Expect(missing.Message).To(HaveSuffix("none/" + lineage))
			h.Expect(h.directories()).To(Equal(4))
			h.Expect(server.State("key")).To(BeNil())
			if backend == "kubernetes" {
				h.reconsider("hello", infrav1.AppliedCondition)
				h.Expect(h.secrets()).NotTo(ContainElement(HavePrefix("tfstate-")), "clusterctl would skip the saved state")
			}

			h.succeed("state", "push", "hello", file, "--yes", "--wait")
			a := h.waitReady("hello")
			h.Expect(a.Status.State).To(HaveField("Lineage", lineage))
			h.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
			h.Expect(h.directories()).To(Equal(4), "nothing was created a second time")
			h.destroy("hello")
			h.Expect(h.directories()).To(BeZero())
		})
	}
}
