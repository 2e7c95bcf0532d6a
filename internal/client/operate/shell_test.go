package operate

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// changedMeanwhile returns a client for which another one edits the workspace before its
// first patch.
func changedMeanwhile(apply *infrav1.WorkspaceTemplateApply, edit func(*infrav1.WorkspaceTemplateApply)) client.WithWatch {
	changed := false
	return interceptor.NewClient(newClient(apply), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if !changed {
				changed = true
				var live infrav1.WorkspaceTemplateApply
				if err := c.Get(ctx, client.ObjectKeyFromObject(obj), &live); err != nil {
					return err
				}
				edit(&live)
				if err := c.Update(ctx, &live); err != nil {
					return err
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
}

// The manager writes a workspace at any time, for example after a run.
func TestOpenShell_whileTheWorkspaceChanges(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	c := changedMeanwhile(apply, func(live *infrav1.WorkspaceTemplateApply) {
		live.Annotations = map[string]string{infrav1.StateLineageAnnotation: "1"}
	})
	id, err := OpenShell(t.Context(), c, apply, "me@laptop", "")
	g.Expect(err).NotTo(HaveOccurred())
	var live infrav1.WorkspaceTemplateApply
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(apply), &live)).To(Succeed())
	shell, err := terraform.ParseShell(live.Annotations[infrav1.ShellAnnotation])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shell.ID).To(Equal(id))
	g.Expect(live.Annotations).To(HaveKeyWithValue(infrav1.StateLineageAnnotation, "1"))
}

func TestOpenShell_afterThatOfAnotherUser(t *testing.T) {
	g := NewWithT(t)
	apply := workspace("net")
	c := changedMeanwhile(apply, func(live *infrav1.WorkspaceTemplateApply) {
		live.Annotations = map[string]string{infrav1.ShellAnnotation: `{"id":"shell-other","uid":"1","host":"you@desk"}`}
	})
	_, err := OpenShell(t.Context(), c, apply, "me@laptop", "")
	g.Expect(err).To(MatchError(And(HavePrefix("net has a shell already (shell-other of "), ContainSubstring("on you@desk"))))
}
