package captcontrolplane

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/testenv"
	_ "github.com/appthrust/capt/internal/testenv/waits" // Sets the default timeout.
)

// realAccount is an account whose workload cluster is a real API server.
type realAccount struct {
	*account

	env       *testenv.Environment
	connector workload.Connector
	bootstrap *corev1.ServiceAccount
}

// issue makes the output a kubeconfig whose credential ends after ten minutes.
func (a *realAccount) issue(name string) {
	a.t.Helper()
	ctx := a.t.Context()
	a.bootstrap = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	a.Expect(a.env.Client.Create(ctx, a.bootstrap)).To(Succeed())
	a.Expect(a.env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	})).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64((10 * time.Minute).Seconds()))}}
	a.Expect(a.env.Client.SubResource("token").Create(ctx, a.bootstrap, request)).To(Succeed())
	config := clientcmdapi.NewConfig()
	config.Clusters["w"] = &clientcmdapi.Cluster{Server: a.env.Config.Host, CertificateAuthorityData: a.env.Config.CAData}
	config.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	config.CurrentContext = "w"
	kubeconfig, err := clientcmd.Write(*config)
	a.Expect(err).NotTo(HaveOccurred())
	// Permissions of a new binding reach the API server's cache soon.
	a.Eventually(func() error {
		c, err := a.connector.Client(kubeconfig)
		if err != nil {
			return err
		}
		return c.List(ctx, &corev1.SecretList{})
	}).Should(Succeed())
	connection := &corev1.Secret{}
	a.Expect(a.r.Client.Get(ctx, client.ObjectKey{Namespace: "team", Name: "production-eks-connection"}, connection)).To(Succeed())
	connection.Data["kubeconfig"] = kubeconfig
	a.Expect(a.r.Client.Update(ctx, connection)).To(Succeed())
}

// end deletes an account, and waits until the API server rejects its tokens.
func (a *realAccount) end(account *corev1.ServiceAccount, kubeconfig []byte) {
	a.t.Helper()
	a.Expect(a.env.Client.Delete(a.t.Context(), account)).To(Succeed())
	a.Eventually(func() bool {
		_, err := a.connector.Version(a.t.Context(), kubeconfig)
		return workload.IsRejected(err)
	}).Should(BeTrue())
}

// output returns the kubeconfig in the output.
func (a *realAccount) output() []byte {
	a.t.Helper()
	connection := &corev1.Secret{}
	a.Expect(a.r.Client.Get(a.t.Context(), client.ObjectKey{Namespace: "team", Name: "production-eks-connection"}, connection)).To(Succeed())
	return connection.Data["kubeconfig"]
}

// A credential of ten minutes is enough for ever, and another one after the ServiceAccount
// was deleted.
func TestServiceAccountKubeconfig_ofARealCluster(t *testing.T) {
	a := &realAccount{account: newAccount(t), env: testenv.New(t, testenv.WithCRDs("")), connector: workload.Connector{Scheme: scheme.New()}}
	a.r.Workload = a.connector
	a.issue("first")
	s, err := a.at(0)
	a.Expect(err).NotTo(HaveOccurred())
	first := a.token()
	// noon is in the past, so the lifetime is that from now on.
	a.Expect(time.Until(s.controlPlane.Status.Kubeconfig.ExpiresAt.Time)).To(BeNumerically(">", 6*24*time.Hour))

	a.end(a.bootstrap, a.output())
	s, err = a.at(s.renewAt.Sub(noon))
	a.Expect(err).NotTo(HaveOccurred(), "the credential in the output is not used")
	a.Expect(a.token()).NotTo(Equal(first))
	nodes, err := a.connector.Client(s.kubeconfig)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(nodes.List(t.Context(), &corev1.NodeList{})).To(Succeed())

	renewAt := s.renewAt.Sub(noon)
	own := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "capt-manager"}}
	a.end(own, s.kubeconfig)
	a.available = false
	_, err = a.at(renewAt - time.Minute)
	a.Expect(result(err)).To(Equal("wait " + controlplanev1.BootstrapRejectedReason))

	a.issue("second")
	s, err = a.at(renewAt - time.Minute)
	a.Expect(err).NotTo(HaveOccurred())
	_, err = a.connector.Version(t.Context(), s.kubeconfig)
	a.Expect(err).NotTo(HaveOccurred())
}
