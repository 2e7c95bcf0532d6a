package workspace_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/cluster/workspace/workspacetest"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestEnsureFrom(t *testing.T) {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "network"}}
	owner := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production", UID: "1"}}
	client := workspacetest.NewClient(t, template)
	keeper := &workspace.Keeper{Client: client, Live: client}
	ensure := func(name string, problem error) (*infrav1.WorkspaceTemplateApply, error) {
		return keeper.EnsureFrom(t.Context(), owner, infrav1.TemplateReference{Name: name}, func(found *infrav1.WorkspaceTemplate) (workspace.Desired, error) {
			return workspace.Desired{
				Name: "production-vpc", Cluster: "production",
				Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: found.Name}},
			}, problem
		})
	}
	g := NewWithT(t)

	_, err := ensure("missing", nil)
	_, waits := fault.AsWaiting(err)
	g.Expect(waits).To(BeTrue(), "%v", err)

	invalid := errors.New("invalid variable")
	_, err = ensure("network", invalid)
	g.Expect(err).To(MatchError(invalid))
	g.Expect(keeper.Find(t.Context(), owner)).To(BeNil(), "nothing is created")

	created, err := ensure("network", nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(created.Spec.TemplateRef.Name).To(Equal("network"))
	g.Expect(keeper.Find(t.Context(), owner)).To(HaveField("Name", "production-vpc"))
}
