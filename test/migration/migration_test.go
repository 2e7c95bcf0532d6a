package migration

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/migrate"
	"github.com/appthrust/capt/internal/local/environment"
)

const name = "demo"

// untouched is what a look or a refusal may not change.
func (w *harness) untouched() map[string]any {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	w.Expect(w.client.Get(w.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, cluster)).To(Succeed())
	var addons addonsv1.CAPTAddonList
	w.Expect(w.client.List(w.ctx, &addons)).To(Succeed())
	plane, ws := w.plane(w, name), w.workspace(name)
	return map[string]any{
		"labels": cluster.Labels, "template": plane.Spec, "annotations": plane.Annotations, "workspace": ws.Spec,
		"add-ons": len(addons.Items), "uids": w.identity(name), "state": w.inState(name),
	}
}

// helmRelease is Flux' object, or nil.
func (w *harness) helmRelease() *unstructured.Unstructured {
	w.t.Helper()
	hr := &unstructured.Unstructured{}
	hr.SetGroupVersionKind(schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"})
	err := w.inside(name).Get(w.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, hr)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	w.Expect(err).NotTo(HaveOccurred())
	return hr
}

// A running Karpenter goes from Terraform to Flux and back; no pod notices, and
// captctl may be killed at any stage.
func TestMigration_keepsPodsOnTheWayToFluxAndBack(t *testing.T) {
	w := newHarness(t)
	w.template("v1", "v1.tf")
	w.template("v2", "v2.tf")
	w.template("careless", "careless.tf")
	w.cluster(name)
	uids, before := w.identity(name), w.untouched()
	w.Expect(w.inState(name)).To(BeTrue())

	out, err := w.run("--to", "v2", "--cluster", name)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(out).To(And(ContainSubstring("restarts   none"), ContainSubstring("→ Forget"), ContainSubstring("→ Adopt"), ContainSubstring("karpenter 1.14.1")))
	w.Expect(w.untouched()).To(Equal(before), "a dry run changes nothing")

	// What blocks is named, and nothing is touched.
	out, err = w.run("--to", "absent", "--cluster", name, "--apply", "--yes")
	w.Expect(err).To(HaveOccurred())
	w.Expect(out).To(ContainSubstring("WorkspaceTemplate absent does not exist"))
	w.Expect(w.untouched()).To(Equal(before))

	migrateIt := []string{"--to", "v2", "--cluster", name, "--apply", "--yes"}
	w.Expect(w.kill("Add-ons", 0, migrateIt...)).To(BeTrue())
	w.Expect(w.kill("Flux", 0, migrateIt...)).To(BeTrue())

	// A template that would destroy the release is refused, after its plan.
	out, err = w.run("--to", "careless", "--cluster", name, "--apply", "--yes")
	w.Expect(err).To(HaveOccurred())
	w.Expect(out).To(And(ContainSubstring("would delete helm_release.karpenter"), ContainSubstring("template v1 was restored")))
	now := w.untouched()
	for _, key := range []string{"template", "annotations", "workspace", "uids", "state"} {
		w.Expect(now[key]).To(Equal(before[key]), key)
	}

	for _, stage := range []string{"Forget", "Adopt"} {
		for _, after := range []time.Duration{0, 400 * time.Millisecond, 1500 * time.Millisecond} {
			w.Expect(w.kill(stage, after, migrateIt...)).To(BeTrue())
			w.Expect(w.identity(name)).To(Equal(uids))
		}
	}
	out, err = w.run(migrateIt...)
	w.Expect(err).NotTo(HaveOccurred(), out)
	w.checkFlux(uids, before)

	w.rollBack(uids)
	// Once more, with an old template that takes the release over without an import.
	out, err = w.run(migrateIt...)
	w.Expect(err).NotTo(HaveOccurred(), out)
	w.takesOver("v1")
	out, err = w.run("--to", "v2", "--cluster", name, "--rollback", "--yes")
	w.Expect(err).NotTo(HaveOccurred(), out)
	w.checkTerraform(uids)
}

// checkFlux checks a cluster that was migrated.
func (w *harness) checkFlux(uids []string, before map[string]any) {
	w.t.Helper()
	w.Expect(w.identity(name)).To(Equal(uids), "the same Deployment and pods")
	w.Expect(w.inState(name)).To(BeFalse(), "Terraform has forgotten the release")
	plane, ws := w.plane(w, name), w.workspace(name)
	w.Expect(plane.Spec.WorkspaceTemplateRef.Name).To(Equal("v2"))
	w.Expect(plane.Annotations).To(HaveKeyWithValue(migrate.RecordAnnotation, ContainSubstring("migratedAt")))
	w.Expect(ws.Spec.Approval).To(Equal(before["workspace"].(infrav1.WorkspaceTemplateApplySpec).Approval))
	for _, run := range ws.Status.History {
		w.Expect(run.Summary).NotTo(MatchRegexp(`[1-9]\d* destroyed`))
	}
	hr := w.helmRelease()
	w.Expect(hr).NotTo(BeNil())
	history, _, err := unstructured.NestedSlice(hr.Object, "status", "history")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(history[0]).To(HaveKeyWithValue("version", BeNumerically(">", 1)), "the release's history continues")

	out, err := w.run("--to", "v2", "--cluster", name, "--apply", "--yes")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(out).To(ContainSubstring("the cluster is migrated"))
}

// rollBack gives the release back, with interruptions.
func (w *harness) rollBack(uids []string) {
	w.t.Helper()
	out, err := w.run("--to", "v2", "--cluster", name, "--rollback", "--dry-run")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(out).To(And(ContainSubstring("→ Release"), ContainSubstring("→ Import")))
	back := []string{"--to", "v2", "--cluster", name, "--rollback", "--yes"}
	for _, stage := range []string{"Release", "Import"} {
		for _, after := range []time.Duration{0, 400 * time.Millisecond, 1500 * time.Millisecond} {
			w.Expect(w.kill(stage, after, back...)).To(BeTrue())
			w.Expect(w.identity(name)).To(Equal(uids))
		}
	}
	out, err = w.run(back...)
	w.Expect(err).NotTo(HaveOccurred(), out)
	w.checkTerraform(uids)
}

// checkTerraform checks a cluster that was rolled back.
func (w *harness) checkTerraform(uids []string) {
	w.t.Helper()
	w.Expect(w.identity(name)).To(Equal(uids), "the same Deployment and pods")
	w.Expect(w.inState(name)).To(BeTrue(), "Terraform has the release again")
	w.Expect(w.helmRelease()).To(BeNil(), "Flux no longer manages it")
	plane, ws := w.plane(w, name), w.workspace(name)
	w.Expect(plane.Spec.WorkspaceTemplateRef.Name).To(Equal("v1"))
	w.Expect(plane.Spec.Variables).To(And(HaveKey("karpenter_repository"), Not(HaveKey(migrate.ImportVariable))))
	w.Expect(plane.Annotations).NotTo(HaveKey(migrate.RecordAnnotation))
	w.Expect(ws.Spec.Approval).To(BeEmpty())

	// Nothing is left to do for Terraform.
	changed := ws.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[infrav1.RunRequestedAnnotation] = "after-run-" + strconv.FormatInt(ws.Status.Runs, 10)
	w.Expect(w.client.Patch(w.ctx, changed, client.MergeFrom(ws))).To(Succeed())
	w.Eventually(func(g Gomega) {
		now := w.workspace(name)
		g.Expect(now.Status.HandledRequest).To(Equal(changed.Annotations[infrav1.RunRequestedAnnotation]))
		g.Expect(string(now.Status.History[0].Outcome)).To(Equal("NoChanges"), now.Status.History[0].Summary)
	}, testTimeout, time.Second).Should(Succeed(), "the plan is empty")
	w.Expect(w.identity(name)).To(Equal(uids))
}
