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

func TestMeta_isOwnedByTheWorkspaceAndMoves(t *testing.T) {
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
	g.Expect(owner.Name).To(Equal(workspace.Name), "the owner's name is not shortened")
	g.Expect(owner.UID).To(BeEquivalentTo("u"))
}

func TestLocalMeta_doesNotMove(t *testing.T) {
	g := NewWithT(t)
	meta := record.LocalMeta(terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}, record.ComponentRun, "")
	g.Expect(meta.Labels).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	g.Expect(record.RunID(&meta)).To(BeEmpty())
}

func TestMeta_returnsANewMap(t *testing.T) {
	g := NewWithT(t)
	workspace := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	record.Meta(workspace, record.ComponentRun, "").Labels["mine"] = "x"
	g.Expect(record.Meta(workspace, record.ComponentRun, "").Labels).NotTo(HaveKey("mine"))
}

func TestMeta_ofStatesHasNoOwner(t *testing.T) {
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

func TestStateMeta_hasTheLabelsOfTheBackend(t *testing.T) {
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

func TestNames(t *testing.T) {
	g := NewWithT(t)
	g.Expect(record.SecretName("hello-r1")).To(Equal("capt-run-hello-r1"))
	snapshot := record.SnapshotName("hello-r1", []byte("x"))
	g.Expect(snapshot).To(MatchRegexp("^snapshot-hello-r1-[0-9a-f]{8}$"))
	g.Expect(record.SnapshotName("hello-r1", []byte("y"))).NotTo(Equal(snapshot))
	g.Expect(record.ChunkName(snapshot, 0)).To(Equal("capt-" + snapshot + "-0"))
	g.Expect(record.ChunkedName(record.ChunkName(snapshot, 12))).To(Equal(snapshot))
	g.Expect(record.ChunkedName("odd")).To(BeEmpty())
	rescued := record.RescueName("hello-r1", []byte("x"))
	g.Expect(record.FindRescued([]string{"rescue-hello-r1-00000000", rescued}, []byte("x"))).To(Equal(rescued))
	g.Expect(record.FindRescued([]string{rescued}, []byte("y"))).To(BeEmpty())
	g.Expect(record.ChunkName("plan-1", 12)).To(Equal("capt-plan-1-12"))
}

func TestRunID(t *testing.T) {
	tests := []struct {
		name   string
		labels map[string]string
		want   string
	}{
		{"no labels", nil, ""},
		{"another label", map[string]string{"capt.appthrust.io/workspace": "w"}, ""},
		{"the label of a run", map[string]string{"capt.appthrust.io/run": "w-r1"}, "w-r1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(record.RunID(&metav1.ObjectMeta{Labels: tt.labels})).To(Equal(tt.want))
		})
	}
}

func TestIsOf_trustsTheRunAndNotTheWorkspace(t *testing.T) {
	long := strings.Repeat("a", 50)
	for name, tc := range map[string]struct {
		workspace, label, run string
		want                  bool
	}{
		"its run":                        {"a", "a", "a-r1", true},
		"what a user stored":             {"a", "a", "", true},
		"a run of another":               {"a", "a", "b-r1", false},
		"a run of one with its prefix":   {"a", "a", "a-b-r1", false},
		"a run of one named like a run":  {"a", "a", "a-r1-r1", false},
		"its name is that of a run":      {"a-r1", "a-r1", "a-r1", false},
		"no run":                         {"a", "a", "a", false},
		"another workspace":              {"a", "b", "a-r1", false},
		"a long name":                    {long, long, record.NewRunID(long, 7), true},
		"another long name":              {long, long, record.NewRunID(long+"b", 7), false},
		"a name longer than a label":     {long + long, long + long, record.NewRunID(long+long, 7), true},
		"another run with another digit": {"a", "a", "a-r01", false},
	} {
		t.Run(name, func(t *testing.T) {
			meta := record.Meta(terraform.WorkspaceRef{Name: tc.label}, record.ComponentRescue, tc.run)
			NewWithT(t).Expect(record.IsOf(&meta, tc.workspace)).To(Equal(tc.want))
		})
	}
}
