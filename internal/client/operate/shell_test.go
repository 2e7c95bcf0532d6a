package operate

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestShells_areOpenUntilTheirOperationIsDeleted(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	c := newClient(apply)
	g.Expect(checkNoShell(t.Context(), c, apply)).To(Succeed())
	operation, err := OpenShell(t.Context(), c, apply, "me@laptop", "incident\n17")
	g.Expect(err).NotTo(HaveOccurred())
	shell := operation.Spec.Shell
	g.Expect(shell.ID).To(MatchRegexp("^shell-[a-z0-9]{12}$"))
	g.Expect(shell.Reason).To(Equal("incident 17"))
	g.Expect(checkNoShell(t.Context(), c, apply)).To(MatchError(HavePrefix("net has a shell already (" + shell.ID + " of a user on me@laptop)")))
	g.Expect(checkNoShell(t.Context(), c, workspace("other"))).To(Succeed())
	replaced := workspace("net")
	replaced.UID = "2"
	g.Expect(checkNoShell(t.Context(), c, replaced)).To(Succeed(), "it is a shell of the earlier workspace")

	_, err = Unlock(t.Context(), c, apply, &Lock{ID: shell.ID})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkNoShell(t.Context(), c, apply)).To(Succeed(), "the run that breaks the lock does not wait for it")
	g.Expect(operations(t.Context(), c, apply, openOf(infrav1.OperationUnlock))).To(HaveLen(1))
}

// A state that a user has replaced is kept for the user only, and no run saves it.
func TestCheckRescued_ignoresWhatAUserHasReplaced(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	rescued := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: apply.Namespace, Name: "capt-rescue-net-r7-0", Labels: map[string]string{
		infrav1.WorkspaceLabel: "net", infrav1.ComponentLabel: record.ComponentRescue,
	}}}
	g.Expect(checkRescued(t.Context(), newClient(apply, rescued), apply)).To(MatchError(ContainSubstring("capt-rescue-net-r7-0")))
	rescued.ResourceVersion = ""
	rescued.Annotations = map[string]string{record.SupersededAnnotation: "net-r8"}
	g.Expect(checkRescued(t.Context(), newClient(apply, rescued), apply)).To(Succeed())
}
