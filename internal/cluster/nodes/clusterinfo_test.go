package nodes_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/cluster/workspace/workspacetest"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestFindWorkspace_checksPreconditionsOfANewWorkspaceOnly(t *testing.T) {
	pool := &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "general", UID: "1"}}
	existing, err := workspace.Render(scheme.New(), pool, "general", workspace.Desired{Name: "general", Cluster: "production"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, test := range []struct {
		name        string
		objects     []client.Object
		initialized bool
		waits       bool
	}{
		{"a new workspace waits", nil, false, true},
		{"a new workspace of a ready cluster", nil, true, false},
		{"an existing workspace does not wait", []client.Object{existing}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production"}}
			cluster.Status.Initialization.ControlPlaneInitialized = &test.initialized
			c := workspacetest.NewClient(t, test.objects...)
			apply, info, err := nodes.FindWorkspace(t.Context(), c, &workspace.Keeper{Client: c, Live: c}, pool, nodes.Preconditions{Cluster: cluster})
			if test.waits {
				_, waits := fault.AsWaiting(err)
				g.Expect(waits).To(BeTrue(), "%v", err)
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info).NotTo(BeNil())
			g.Expect(apply != nil).To(Equal(len(test.objects) > 0))
		})
	}
}
