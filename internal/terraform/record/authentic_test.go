package record_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestRunOf(t *testing.T) {
	long := "a-name-that-is-too-long-to-be-part-of-the-id-of-a-run-as-it-is"
	for name, want := range map[string]int64{
		"capt-run-w-r1": 1, "capt-run-w-r12": 12, "capt-run-w-r0": 0, "capt-run-w-r-1": 0, "capt-run-w-r01": 0, "capt-run-w-r+1": 0,
		"capt-run-w-r9223372036854775807": 0, "capt-run-w-r": 0, "capt-run-other-r1": 0, "w-r1": 0, "capt-run-": 0, "capt-run-w-r1-r1": 0,
	} {
		id, number, ok := record.RunOf("w", name)
		g := NewWithT(t)
		g.Expect(ok).To(Equal(want > 0), name)
		g.Expect(number).To(Equal(want), name)
		if ok {
			g.Expect(record.SecretName(id)).To(Equal(name))
		}
	}
	id, _, ok := record.RunOf(long, record.SecretName(record.NewRunID(long, 3)))
	NewWithT(t).Expect(ok).To(BeTrue(), id)
}

func TestCheckedRequest(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	secret, err := record.NewRun(&terraform.Request{RunID: "w-r1", Workspace: workspace}, record.Meta(workspace, record.ComponentRun, "w-r1"))
	g.Expect(err).NotTo(HaveOccurred())
	run := terraform.Run{Namespace: "n", Workspace: "w", ID: "w-r1", Digest: secret.Annotations[record.DigestAnnotation]}
	g.Expect(record.CheckedRequest(secret, run)).To(HaveField("RunID", "w-r1"))

	for name, change := range map[string]func(*terraform.Run){
		"another digest":    func(r *terraform.Run) { r.Digest = "sha256:00" },
		"no digest":         func(r *terraform.Run) { r.Digest = "" },
		"another namespace": func(r *terraform.Run) { r.Namespace = "kube-system" },
		"another workspace": func(r *terraform.Run) { r.Workspace = "other" },
		"another run":       func(r *terraform.Run) { r.ID = "w-r2" },
	} {
		other := run
		change(&other)
		_, err := record.CheckedRequest(secret, other)
		g.Expect(err).To(MatchError(record.ErrForged), name)
	}

	g.Expect(record.SetResult(secret, &terraform.Result{RunID: "w-r1"})).To(Succeed())
	_, err = record.CheckedRequest(secret, run)
	g.Expect(err).To(MatchError(record.ErrForged), "the request was removed")
}

func TestSealedContent_changesOnlyWithWhatTheManagerReads(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	secret, err := record.NewRun(&terraform.Request{RunID: "w-r1", Workspace: workspace}, record.Meta(workspace, record.ComponentRun, "w-r1"))
	g.Expect(err).NotTo(HaveOccurred())
	before := record.SealedContent(secret)
	g.Expect(record.SetResult(secret, &terraform.Result{RunID: "w-r1"})).To(Succeed())
	delete(secret.Annotations, record.BlockMoveAnnotation)
	secret.Labels["backup"] = "yes"
	secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{Name: "other", UID: "other"})
	g.Expect(record.SealedContent(secret)).To(Equal(before))
	secret.Annotations[record.SealAnnotation], secret.Annotations["example.com/note"] = "v1:x", "y"
	g.Expect(record.SealedContent(secret)).To(Equal(before))
	secret.OwnerReferences[0].UID = "other"
	g.Expect(record.SealedContent(secret)).NotTo(Equal(before))
}

// After going back to this version, the runs of a newer one still count.
func TestSealedContent_coversAnnotationsOfNewerVersions(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	secret, err := record.NewRun(&terraform.Request{RunID: "w-r1", Workspace: workspace}, record.Meta(workspace, record.ComponentRun, "w-r1"))
	g.Expect(err).NotTo(HaveOccurred())
	secret.Annotations["capt.appthrust.io/of-a-newer-version"] = "a"
	before := record.SealedContent(secret)
	g.Expect(string(before)).To(ContainSubstring("of-a-newer-version"))
	secret.Annotations["capt.appthrust.io/of-a-newer-version"] = "b"
	g.Expect(record.SealedContent(secret)).NotTo(Equal(before))
}
