package migration

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// snapshot returns the state that a dry run or a refusal must not change.
func (h *harness) snapshot() map[string]any {
	h.t.Helper()
	cluster := &clusterv1.Cluster{}
	h.Expect(h.client.Get(h.ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, cluster)).To(Succeed())
	var addons addonsv1.CAPTAddonList
	h.Expect(h.client.List(h.ctx, &addons)).To(Succeed())
	plane, ws := h.plane(h, name), h.workspace(name)
	return map[string]any{
		"labels": cluster.Labels, "template": plane.Spec, "annotations": plane.Annotations, "workspace": ws.Spec,
		"add-ons": len(addons.Items), "uids": h.identity(name), "state": h.inState(name),
	}
}

// helmRelease returns the HelmRelease of Karpenter, or nil.
func (h *harness) helmRelease() *unstructured.Unstructured {
	h.t.Helper()
	hr := &unstructured.Unstructured{}
	hr.SetGroupVersionKind(schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"})
	err := h.workloadClient(name).Get(h.ctx, client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}, hr)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	h.Expect(err).NotTo(HaveOccurred())
	return hr
}

// A running Karpenter is moved from Terraform to Flux and back; pods are not restarted,
// and captctl may be killed at any stage.
func TestMigration_keepsPods(t *testing.T) {
	h := newHarness(t)
	h.template("v1", "v1.tf")
	h.template("v2", "v2.tf")
	h.template("careless", "careless.tf")
	h.cluster(name)
	uids, before := h.identity(name), h.snapshot()
	h.Expect(h.inState(name)).To(BeTrue())

	out, err := h.run("--to", "v2", "--cluster", name)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(out).To(And(ContainSubstring("restarts   none"), ContainSubstring("→ Forget"), ContainSubstring("→ Adopt"), ContainSubstring("karpenter 1.14.1")))
	h.Expect(h.snapshot()).To(Equal(before), "a dry run changes nothing")

	// Blockers are reported, and nothing is changed.
	out, err = h.run("--to", "absent", "--cluster", name, "--apply", "--yes")
	h.Expect(err).To(HaveOccurred())
	h.Expect(out).To(ContainSubstring("WorkspaceTemplate absent does not exist"))
	h.Expect(h.snapshot()).To(Equal(before))

	migrateIt := []string{"--to", "v2", "--cluster", name, "--apply", "--yes"}
	h.Expect(h.kill("Add-ons", 0, migrateIt...)).To(BeTrue())
	h.Expect(h.kill("Flux", 0, migrateIt...)).To(BeTrue())

	// A template that would destroy the release is rejected after its plan.
	out, err = h.run("--to", "careless", "--cluster", name, "--apply", "--yes")
	h.Expect(err).To(HaveOccurred())
	h.Expect(out).To(And(ContainSubstring("would delete helm_release.karpenter"), ContainSubstring("template v1 was restored")))
	now := h.snapshot()
	for _, key := range []string{"template", "annotations", "workspace", "uids", "state"} {
		h.Expect(now[key]).To(Equal(before[key]), key)
	}

	for _, stage := range []string{"Forget", "Adopt"} {
		for _, after := range []time.Duration{0, 400 * time.Millisecond, 1500 * time.Millisecond} {
			h.Expect(h.kill(stage, after, migrateIt...)).To(BeTrue())
			h.Expect(h.identity(name)).To(Equal(uids))
		}
	}
	out, err = h.run(migrateIt...)
	h.Expect(err).NotTo(HaveOccurred(), out)
	h.checkFlux(uids, before)

	h.rollBack(uids)
	// Again, with an old template that adopts the release without an import.
	out, err = h.run(migrateIt...)
	h.Expect(err).NotTo(HaveOccurred(), out)
	h.withUpgradeInstall("v1")
	out, err = h.run("--to", "v2", "--cluster", name, "--rollback", "--yes")
	h.Expect(err).NotTo(HaveOccurred(), out)
	h.checkTerraform(uids)
}

// checkFlux checks a migrated cluster.
func (h *harness) checkFlux(uids []string, before map[string]any) {
	h.t.Helper()
	h.Expect(h.identity(name)).To(Equal(uids), "the same Deployment and pods")
	h.Expect(h.inState(name)).To(BeFalse(), "the release is not in Terraform's state")
	plane, ws := h.plane(h, name), h.workspace(name)
	h.Expect(plane.Spec.WorkspaceTemplateRef.Name).To(Equal("v2"))
	h.Expect(plane.Annotations).To(HaveKeyWithValue(migrate.RecordAnnotation, ContainSubstring("migratedAt")))
	h.Expect(ws.Spec.Approval).To(Equal(before["workspace"].(infrav1.WorkspaceTemplateApplySpec).Approval))
	for _, run := range ws.Status.History {
		h.Expect(run.Summary).NotTo(MatchRegexp(`[1-9]\d* destroyed`))
	}
	hr := h.helmRelease()
	h.Expect(hr).NotTo(BeNil())
	history, _, err := unstructured.NestedSlice(hr.Object, "status", "history")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(history[0]).To(HaveKeyWithValue("version", BeNumerically(">", 1)), "the release's history continues")

	h.Expect(h.run("--to", "v2", "--cluster", name, "--apply", "--yes")).To(ContainSubstring("the cluster is migrated"))
}

// rollBack moves the release back to Terraform, with interruptions.
func (h *harness) rollBack(uids []string) {
	h.t.Helper()
	out, err := h.run("--to", "v2", "--cluster", name, "--rollback", "--dry-run")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(out).To(And(ContainSubstring("→ Release"), ContainSubstring("→ Import")))
	back := []string{"--to", "v2", "--cluster", name, "--rollback", "--yes"}
	for _, stage := range []string{"Release", "Import"} {
		for _, after := range []time.Duration{0, 400 * time.Millisecond, 1500 * time.Millisecond} {
			h.Expect(h.kill(stage, after, back...)).To(BeTrue())
			h.Expect(h.identity(name)).To(Equal(uids))
		}
	}
	out, err = h.run(back...)
	h.Expect(err).NotTo(HaveOccurred(), out)
	h.checkTerraform(uids)
}

// checkTerraform checks a cluster after a rollback.
func (h *harness) checkTerraform(uids []string) {
	h.t.Helper()
	h.Expect(h.identity(name)).To(Equal(uids), "the same Deployment and pods")
	h.Expect(h.inState(name)).To(BeTrue(), "Terraform has the release again")
	h.Expect(h.helmRelease()).To(BeNil(), "Flux no longer manages it")
	plane, ws := h.plane(h, name), h.workspace(name)
	h.Expect(plane.Spec.WorkspaceTemplateRef.Name).To(Equal("v1"))
	h.Expect(plane.Spec.Variables).To(And(HaveKey("karpenter_repository"), Not(HaveKey(migrate.ImportVariable))))
	h.Expect(plane.Annotations).NotTo(HaveKey(migrate.RecordAnnotation))
	h.Expect(ws.Spec.Approval).To(BeEmpty())

	// The next plan is empty.
	again := &infrav1.WorkspaceOperation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ws.Namespace, GenerateName: ws.Name + "-"},
		Spec:       infrav1.WorkspaceOperationSpec{Workspace: ws.Name, WorkspaceUID: ws.UID, Type: infrav1.OperationRun},
	}
	h.Expect(h.client.Create(h.ctx, again)).To(Succeed())
	h.Eventually(func(g Gomega) {
		g.Expect(h.client.Get(h.ctx, client.ObjectKeyFromObject(again), again)).To(Succeed())
		g.Expect(again.Status.Phase).To(Equal(infrav1.OperationSucceeded), again.Status.Message)
		now := h.workspace(name)
		g.Expect(string(now.Status.History[0].Outcome)).To(Equal("NoChanges"), now.Status.History[0].Summary)
	}, testTimeout, time.Second).Should(Succeed(), "the plan is empty")
	h.Expect(h.identity(name)).To(Equal(uids))
}
