package cluster

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/testenv"
)

// bootstrapLifetime is the lifetime of the credential in the output, the shortest that an
// API server issues.
const bootstrapLifetime = 10 * time.Minute

// bootstrapper issues credentials of a workload cluster that end.
type bootstrapper struct {
	*harness

	workload *testenv.Environment
	account  *corev1.ServiceAccount
}

// issue writes a new credential to the Secret that the module reads.
func (b *bootstrapper) issue(name string) {
	b.t.Helper()
	b.account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	b.Expect(b.workload.Client.Create(b.ctx, b.account)).To(Succeed())
	b.Expect(b.workload.Client.Create(b.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	})).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(bootstrapLifetime.Seconds()))}}
	b.Expect(b.workload.Client.SubResource("token").Create(b.ctx, b.account, request)).To(Succeed())
	config := clientcmdapi.NewConfig()
	config.Clusters["w"] = &clientcmdapi.Cluster{Server: b.workload.Config.Host, CertificateAuthorityData: b.workload.Config.CAData}
	config.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	config.CurrentContext = "w"
	kubeconfig, err := clientcmd.Write(*config)
	b.Expect(err).NotTo(HaveOccurred())
	vars, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	b.Expect(err).NotTo(HaveOccurred())
	change(b.harness, workloadSecret, &corev1.Secret{}, func(s *corev1.Secret) { s.Data = map[string][]byte{"vars.json": vars} })
}

// end ends the credential, as its expiry does.
func (b *bootstrapper) end() {
	b.t.Helper()
	b.Expect(b.workload.Client.Delete(b.ctx, b.account)).To(Succeed())
}

// kubeconfig returns the Secret of Cluster API.
func (b *bootstrapper) kubeconfig() *corev1.Secret {
	b.t.Helper()
	return get(b.harness, secret.Name("demo", secret.Kubeconfig), &corev1.Secret{})
}

// The credential of an output that ends after ten minutes is enough for a cluster that
// stays available, and a new one for a cluster whose ServiceAccount was deleted.
func TestCluster_renewsItsKubeconfigForever(t *testing.T) {
	h := newHarness(t)
	w := testenv.New(t, testenv.WithCRDs(""))
	h.templatesOf(w)
	b := &bootstrapper{harness: h, workload: w}
	b.issue("first")
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo", func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.Kubeconfig.Source = controlplanev1.KubeconfigSourceServiceAccount
	}))
	h.waitAvailable("demo")
	first := b.kubeconfig()
	status := h.controlPlane("demo").Status.Kubeconfig
	h.Expect(status.ExpiresAt.Sub(status.RenewedAt.Time)).To(BeNumerically(">", bootstrapLifetime))

	// The credential has ended when the token is due.
	b.end()
	change(h, first.Name, &corev1.Secret{}, func(s *corev1.Secret) {
		s.Annotations["capt.appthrust.io/renew-at"] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	})
	h.Eventually(func(g Gomega) {
		renewed := b.kubeconfig().Data[secret.KubeconfigDataName]
		g.Expect(renewed).NotTo(Equal(first.Data[secret.KubeconfigDataName]))
		_, err := workload.Connector{}.Version(h.ctx, renewed)
		g.Expect(err).NotTo(HaveOccurred())
	}, testTimeout).Should(Succeed())
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.KubeconfigReadyCondition, "True")

	// Without the ServiceAccount nothing is accepted any more, until the module writes
	// another credential.
	h.Expect(w.Client.Delete(h.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "capt-manager"}})).To(Succeed())
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.KubeconfigReadyCondition, "False "+controlplanev1.BootstrapRejectedReason)
	b.issue("second")
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.AvailableCondition, "True")
	h.Expect(w.Client.Get(h.ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "capt-manager"}, &corev1.ServiceAccount{})).To(Succeed())
	h.destroy(h.cluster("demo"))
}
