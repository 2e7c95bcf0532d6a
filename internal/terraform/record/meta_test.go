package record_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestMeta_belongsToTheWorkspaceAndMoves(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: strings.Repeat("long.", 39) + "name", UID: "u"}

	meta := record.Meta(workspace, record.ComponentRun, "long-r1")

	g.Expect(meta.Namespace).To(Equal("n"))
	g.Expect(meta.Name).To(BeEmpty())
	g.Expect(meta.Labels).To(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	g.Expect(meta.Labels).To(HaveKeyWithValue("capt.appthrust.io/component", "run"))
	g.Expect(meta.Labels).To(HaveKeyWithValue("capt.appthrust.io/workspace", record.LabelValue(workspace.Name)))
	for key, value := range meta.Labels {
		g.Expect(validation.IsQualifiedName(key)).To(BeEmpty())
		g.Expect(validation.IsValidLabelValue(value)).To(BeEmpty())
	}
	g.Expect(record.RunID(&meta)).To(Equal("long-r1"))
	owner := metav1.GetControllerOf(&meta)
	g.Expect(owner).NotTo(BeNil())
	g.Expect(owner.Name).To(Equal(workspace.Name), "the owner is named in full")
	g.Expect(owner.UID).To(BeEquivalentTo("u"))
}

func TestOwned_staysWhenTheWorkspaceMoves(t *testing.T) {
	g := NewWithT(t)
	meta := record.LocalMeta(terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}, record.ComponentRun, "")
	g.Expect(meta.Labels).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	g.Expect(record.RunID(&meta)).To(BeEmpty())
}

func TestMeta_isNotShared(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	record.Meta(workspace, record.ComponentRun, "").Labels["mine"] = "x"
	g.Expect(record.Meta(workspace, record.ComponentRun, "").Labels).NotTo(HaveKey("mine"))
}

func TestMeta_whatWouldBeMissedHasNoOwner(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	owned := map[string]bool{
		record.ComponentRun: true, record.ComponentPlan: true,
		record.ComponentState: false, record.ComponentSnapshot: false, record.ComponentRescue: false,
	}
	for component, want := range owned {
		meta := record.Meta(workspace, component, "w-r1")
		g.Expect(meta.OwnerReferences != nil).To(Equal(want), component)
		for _, owner := range meta.OwnerReferences {
			g.Expect(owner.BlockOwnerDeletion).To(BeNil(), component)
		}
	}
}

func TestStateMeta_isFoundByTerraform(t *testing.T) {
	g := NewWithT(t)
	request := &terraform.Request{
		Workspace: terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"},
		Backend:   terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "n", SecretSuffix: "w-ws"},
	}
	meta := record.StateMeta(request)
	g.Expect(meta.Labels).To(HaveKeyWithValue("tfstateSecretSuffix", "w-ws"))
	g.Expect(meta.Labels).To(HaveKeyWithValue("tfstateWorkspace", "default"))
	g.Expect(meta.Labels).To(HaveKeyWithValue("capt.appthrust.io/component", "state"))
	g.Expect(meta.Labels).To(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	g.Expect(meta.Annotations).To(HaveKeyWithValue("encoding", "gzip"))
}
