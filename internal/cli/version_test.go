package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/version"
)

// kubeconfigOf writes a kubeconfig for a server.
func kubeconfigOf(t *testing.T, address string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": {"server": "` + address + `"}}], "contexts": [{"name": "a", "context": {"cluster": "a"}}]}`
	NewWithT(t).Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	return file
}

func managerDeployment(namespace, name, provider, image string) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"control-plane": "controller-manager", "cluster.x-k8s.io/provider": provider}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: image}}
	return d
}

func TestVersion_printsTheImagesOfManagers(t *testing.T) {
	g := NewWithT(t)
	list := appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}, Items: []appsv1.Deployment{
		managerDeployment("capi-system", "capi-controller-manager", "cluster-api", "example.com/capi:v1.14.0"),
		managerDeployment("capt-system", "capt-controller-manager", "infrastructure-capt", "example.com/capt:v1.2.3"),
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/apis/apps/v1/deployments" || request.URL.Query().Get("labelSelector") != "control-plane=controller-manager" {
			http.NotFound(w, request)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}))
	defer server.Close()
	kubeconfig := kubeconfigOf(t, server.URL)

	// The command waits only some seconds for the managers, also on a busy machine.
	g.Eventually(func(g Gomega) {
		out, problem, code := captctl(t, "", "version", "--kubeconfig", kubeconfig)
		g.Expect(code).To(Equal(0), problem)
		g.Expect(out).To(Equal("captctl " + version.Get().String() + "\nmanager example.com/capt:v1.2.3 (Deployment capt-system/capt-controller-manager)\n"))
	}).Should(Succeed())
	g.Eventually(func(g Gomega) {
		out, _, code := captctl(t, "", "version", "--kubeconfig", kubeconfig, "-o", "json")
		g.Expect(code).To(Equal(0))
		var printed struct {
			Version  string
			Managers []struct{ Namespace, Deployment, Image string }
		}
		g.Expect(json.Unmarshal([]byte(out), &printed)).To(Succeed())
		g.Expect(printed.Version).To(Equal(version.Version()))
		g.Expect(printed.Managers).To(HaveLen(1))
		g.Expect(printed.Managers[0].Image).To(Equal("example.com/capt:v1.2.3"))
	}).Should(Succeed())

	list.Items = nil
	g.Eventually(func(g Gomega) {
		var stdout, stderr buffer
		g.Expect(execute(t.Context(), cli.Streams{Out: &stdout, Err: &stderr}, "version", "--kubeconfig", kubeconfig)).To(Succeed())
		g.Expect(stdout.String()).To(Equal("captctl " + version.Get().String() + "\n"))
		g.Expect(stderr.String()).To(ContainSubstring("has no Deployment of a manager: it runs outside of the cluster"))
	}).Should(Succeed())
}

// The version of captctl is printed without a management cluster, and without a delay.
func TestVersion_needsNoManagementCluster(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, kubeconfig := range map[string]string{"unreachable": kubeconfigOf(t, gone.URL), "no kubeconfig": filepath.Join(t.TempDir(), "none")} {
		t.Run(name, func(t *testing.T) {
			out, problem, code := captctl(t, "", "version", "--kubeconfig", kubeconfig)
			g := NewWithT(t)
			g.Expect(code).To(Equal(0), problem)
			g.Expect(out).To(Equal("captctl " + version.Get().String() + "\n"))
		})
	}
}
