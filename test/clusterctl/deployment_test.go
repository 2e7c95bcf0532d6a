package clusterctl

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

// providers are CAPT's providers with their namespaces.
var providers = map[string]string{
	"infrastructure": "capt-system", "control-plane": "capt-control-plane-system", "bootstrap": "capt-bootstrap-system", "addon": "capt-addon-system",
}

// manager is the process of a Deployment.
type manager struct {
	*program
	// deployment is the UID of the Deployment, and args are those of its container.
	deployment types.UID
	args       []string
	// health is the address of its probes.
	health string
}

func (m *manager) hasEnded() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// isReady reports whether the manager answers its probe.
func (m *manager) isReady() bool {
	answer, err := http.Get("http://" + m.health + "/readyz")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// followDeployments does what Kubernetes does with the Deployments of CAPT: it runs the
// manager of each that wants a replica, again if it ended, and stops that of one that
// wants none or is deleted. The status of a Deployment counts its replica until the
// process has ended.
func (s *server) followDeployments() {
	s.t.Helper()
	for name, namespace := range providers {
		var list appsv1.DeploymentList
		s.Expect(s.client.List(s.ctx, &list, client.InNamespace(namespace))).To(Succeed())
		var deployment *appsv1.Deployment
		if len(list.Items) > 0 {
			deployment = &list.Items[0]
		}
		wanted := deployment != nil && deployment.DeletionTimestamp.IsZero() && *deployment.Spec.Replicas > 0
		if m := s.managers[namespace]; m != nil {
			replaced := !wanted || m.deployment != deployment.UID || !slices.Equal(m.args, deployment.Spec.Template.Spec.Containers[0].Args)
			if replaced {
				s.Expect(m.stop()).To(BeTrue(), "the manager of provider %s ends when it is told to", name)
			}
			if replaced || m.hasEnded() {
				delete(s.managers, namespace)
			}
		}
		if wanted && s.managers[namespace] == nil {
			s.managers[namespace] = s.startManager(name, deployment)
		}
		if deployment != nil {
			s.reportStatus(deployment, s.managers[namespace])
		}
	}
}

// waitRollout waits until the managers are ready, and connects the webhooks to them.
func (s *server) waitRollout() {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		s.followDeployments()
		for namespace, m := range s.managers {
			g.Expect(m.isReady()).To(BeTrue(), namespace)
		}
	}, testTimeout, time.Second).Should(Succeed())
	for namespace := range s.managers {
		s.connect(namespace, s.serving(namespace))
	}
}

// reportStatus writes the status of a Deployment, for which clusterctl and kubectl wait.
func (s *server) reportStatus(deployment *appsv1.Deployment, m *manager) {
	s.t.Helper()
	status := appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation}
	if m != nil {
		status.Replicas, status.UpdatedReplicas = 1, 1
		if m.isReady() {
			status.ReadyReplicas, status.AvailableReplicas = 1, 1
		}
	}
	if equality.Semantic.DeepEqual(status, deployment.Status) {
		return
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Status = status
	s.Expect(client.IgnoreNotFound(s.client.Status().Patch(s.ctx, deployment, patch))).To(Succeed())
}

func (s *server) startManager(name string, deployment *appsv1.Deployment) *manager {
	s.t.Helper()
	namespace := deployment.Namespace
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment.Spec.Template.Spec.ServiceAccountName}}
	token := &authenticationv1.TokenRequest{}
	s.Expect(s.client.SubResource("token").Create(s.ctx, account, token)).To(Succeed())
	kubeconfig := filepath.Join(s.dir, name+".kubeconfig")
	s.Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.env.Config.Host, CertificateAuthorityData: s.env.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, kubeconfig)).To(Succeed())
	path, err := testenv.Built("manager")
	s.Expect(err).NotTo(HaveOccurred())
	tofu, err := testenv.Part("tofu")
	s.Expect(err).NotTo(HaveOccurred())
	to, health := s.serving(namespace), s.address()
	given := deployment.Spec.Template.Spec.Containers[0].Args
	args := append(slices.Clone(given),
		"--allowed-cidrs=127.0.0.0/8,::1/128", "--webhook-port="+to.port, "--webhook-cert-dir="+to.dir, "--health-addr="+health, "--diagnostics-address="+s.address(),
		"--leader-elect-namespace="+namespace)
	if name == "infrastructure" {
		args = append(args, "--executor="+s.executor, "--terraform-binary="+tofu, "--work-dir="+filepath.Join(s.dir, "work"))
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return &manager{program: s.start(name, cmd), deployment: deployment.UID, args: given, health: health}
}

func (s *server) deployment(namespace string) *appsv1.Deployment {
	s.t.Helper()
	var list appsv1.DeploymentList
	s.Expect(s.client.List(s.ctx, &list, client.InNamespace(namespace))).To(Succeed())
	s.Expect(list.Items).To(HaveLen(1), namespace)
	return &list.Items[0]
}
