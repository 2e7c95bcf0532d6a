package nodestest

import (
	"context"
	"os"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// Harness is a test with a namespace of its own and the cluster "production".
type Harness struct {
	*objecttest.Tester
	Namespace string
	Cluster   *Cluster
}

// NewHarness creates a namespace with a cluster. The test runs in parallel to
// others.
func NewHarness(t *testing.T, env *testenv.Environment) *Harness {
	t.Helper()
	t.Parallel()
	h := &Harness{Tester: objecttest.New(t, env.Client), Namespace: env.Namespace(t)}
	kubeconfig, err := os.ReadFile(env.Kubeconfig)
	h.Expect(err).NotTo(gomega.HaveOccurred())
	h.Cluster, err = NewCluster(t.Context(), env.Client, h.Namespace, "production", kubeconfig)
	h.Expect(err).NotTo(gomega.HaveOccurred())
	return h
}

// MakeReady marks the infrastructure and the control plane of the cluster as
// ready.
func (h *Harness) MakeReady() {
	h.T.Helper()
	h.Expect(h.Cluster.Provision(h.T.Context())).To(gomega.Succeed())
	h.Expect(h.Cluster.Initialize(h.T.Context())).To(gomega.Succeed())
}

// CreateTemplate creates a WorkspaceTemplate with an inline module.
func (h *Harness) CreateTemplate(name, module string) {
	h.T.Helper()
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	h.Create(template)
}

// Workspace returns a workspace of the namespace, without reading it.
func (h *Harness) Workspace(name string) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name}}
}

// Join creates a ready node, which is deleted after the test.
func (h *Harness) Join(name, providerID string, labels map[string]string) *corev1.Node {
	h.T.Helper()
	node, err := Join(h.T.Context(), h.Client, name, providerID, labels)
	h.Expect(err).NotTo(gomega.HaveOccurred())
	h.T.Cleanup(func() { _ = h.Client.Delete(context.Background(), node) })
	return node
}
