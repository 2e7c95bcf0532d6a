package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/workload"
)

func (h *harness) kubeconfig() *corev1.Secret { return get(h, "demo-kubeconfig", &corev1.Secret{}) }

func kubeconfigIsNamed(c *check) {
	h := c.on(fixture.in(c))
	cluster, secret := get(h, "demo", emptyCluster()), h.kubeconfig()
	c.Expect(secret.Name).To(Equal(cluster.Name + "-kubeconfig"))
	c.Expect(secret.Namespace).To(Equal(cluster.Namespace))
	c.Expect(metav1.IsControlledBy(secret, get(h, "demo", emptyControlPlane()))).To(BeTrue(), "the control plane owns it")
}

func kubeconfigIsTyped(c *check) {
	h := c.on(fixture.in(c))
	c.Expect(h.kubeconfig().Type).To(Equal(clusterv1.ClusterSecretType))
	c.Expect(string(clusterv1.ClusterSecretType)).To(Equal("cluster.x-k8s.io/secret"))
}

func kubeconfigIsLabelled(c *check) {
	h := c.on(fixture.in(c))
	c.Expect(h.kubeconfig().Labels).To(HaveKeyWithValue("cluster.x-k8s.io/cluster-name", "demo"))
}

// kubeconfigConnects holds when the kubeconfig of the Secret gives access to the
// cluster.
func kubeconfigConnects(c *check) {
	h := c.on(fixture.in(c))
	secret := h.kubeconfig()
	c.Expect(secret.Data).To(HaveKey("value"))
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	c.Expect(err).NotTo(HaveOccurred())
	opened, err := discovery.NewDiscoveryClientForConfig(config)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(opened.ServerVersion()).Error().NotTo(HaveOccurred())
}

// kubeconfigIsRestored holds when a deleted Secret was recreated with the same content.
func kubeconfigIsRestored(c *check) {
	l := lifecycle.in(c)
	text, err := os.ReadFile(l.env.Kubeconfig)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(l.restored.Data).To(HaveKeyWithValue("value", text))
	c.Expect(l.restored.Type).To(Equal(clusterv1.ClusterSecretType))
	c.Expect(l.restored.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "demo"))
}

// sampleCluster returns a cluster for kubeconfigs that are not used.
func (c *check) sampleCluster() aws.Cluster {
	text, err := os.ReadFile(c.env.Kubeconfig)
	c.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.Load(text)
	c.Expect(err).NotTo(HaveOccurred())
	cluster := aws.Cluster{Name: "demo", Endpoint: c.env.Config.Host}
	for _, known := range config.Clusters {
		cluster.CA = string(known.CertificateAuthorityData)
	}
	return cluster
}

func (c *check) userOf(kubeconfig []byte) *clientcmdapi.AuthInfo {
	config, err := clientcmd.Load(kubeconfig)
	c.Expect(err).NotTo(HaveOccurred())
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	c.Expect(user).NotTo(BeNil())
	return user
}

// usersHaveTheirOwnKubeconfig holds when the kubeconfig for users has no credentials,
// and that of Cluster API is passed to no workspace.
func usersHaveTheirOwnKubeconfig(c *check) {
	text, err := aws.UserKubeconfig(c.sampleCluster(), "local-1")
	c.Expect(err).NotTo(HaveOccurred())
	user := c.userOf(text)
	c.Expect(user.Exec).NotTo(BeNil(), "users sign in with their own credentials")
	c.Expect([]any{user.Token, user.TokenFile, user.Password, len(user.ClientCertificateData), len(user.ClientKeyData)}).
		To(HaveExactElements("", "", "", 0, 0))

	h := c.on(fixture.in(c))
	var applies infrav1.WorkspaceTemplateApplyList
	c.Expect(h.env.Client.List(h.ctx, &applies, client.InNamespace(h.namespace))).To(Succeed())
	c.Expect(applies.Items).To(HaveLen(2))
	for _, apply := range applies.Items {
		c.Expect(json.Marshal(apply.Spec)).NotTo(ContainSubstring("demo-kubeconfig"))
	}
}

// makesTokens holds when the kubeconfig that CAPT creates has a token and no
// certificate.
func makesTokens(c *check) {
	text, err := aws.TokenKubeconfig(c.sampleCluster(), aws.Token{Value: aws.NewSecret("signed"), ExpiresAt: time.Now().Add(time.Minute)})
	c.Expect(err).NotTo(HaveOccurred())
	user := c.userOf(text)
	c.Expect(user.Token).To(Equal("signed"))
	c.Expect(user.ClientCertificateData).To(BeEmpty())
	c.Expect(user.ClientCertificate).To(BeEmpty())
}

// reportsExpiry holds when the status has the expiration of the client certificate.
func reportsExpiry(c *check) {
	h := c.on(fixture.in(c))
	ends, err := workload.CheckKubeconfig(h.kubeconfig().Data["value"])
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(ends).NotTo(BeZero(), "the kubeconfig of the test has a client certificate")
	c.Expect(get(h, "demo", emptyControlPlane()).Status.Kubeconfig.ExpiresAt.Time).To(BeTemporally("==", ends))
}

// renewed is a cluster whose template returns another kubeconfig later.
var renewed = scenario[*harness]{run: func(h *harness) *harness {
	h.create(h.templates()...)
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.waitReady("demo")
	text, err := os.ReadFile(h.env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	vars, err := json.Marshal(map[string]string{"kubeconfig": string(text) + "\n# another\n"})
	h.Expect(err).NotTo(HaveOccurred())
	change(h, workloadSecret, &corev1.Secret{}, func(s *corev1.Secret) { s.Data = map[string][]byte{"vars.json": vars} })
	h.Eventually(func(g Gomega) {
		g.Expect(string(get(h, "demo-kubeconfig", &corev1.Secret{}).Data["value"])).To(HaveSuffix("# another\n"))
	}, testTimeout, pollInterval).Should(Succeed())
	return h
}}

// kubeconfigFollowsOutput holds when a renewed kubeconfig is written to the Secret.
func kubeconfigFollowsOutput(c *check) { renewed.in(c) }

// keepsKeysSecret searches objects, events and the manager's log for the key of the
// kubeconfig.
func keepsKeysSecret(c *check) {
	l := lifecycle.in(c)
	h := c.on(fixture.in(c))
	user := c.userOf(h.kubeconfig().Data["value"])
	c.Expect(user.ClientKeyData).NotTo(BeEmpty())
	lines := strings.Split(strings.TrimSpace(string(user.ClientKeyData)), "\n")
	secret := lines[1]
	c.Expect(len(secret)).To(BeNumerically(">", 40), "a line of the key")
	encoded := clientKeyText(c, h.kubeconfig().Data["value"])

	log, err := os.ReadFile(filepath.Join(h.env.Dir, "manager", "manager.log"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(string(log)).To(ContainSubstring(h.namespace), "the log contains the cluster")
	seen := map[string]string{"the manager's log": string(log)}
	for _, list := range []client.ObjectList{
		&infrav1.CAPTClusterList{}, &infrav1.WorkspaceTemplateApplyList{}, &infrav1.WorkspaceTemplateList{},
		&clusterv1.ClusterList{}, &corev1.ConfigMapList{}, &eventsv1.EventList{},
	} {
		c.Expect(h.env.Client.List(h.ctx, list)).To(Succeed())
		body, err := json.Marshal(list)
		c.Expect(err).NotTo(HaveOccurred())
		seen[fmt.Sprintf("%T", list)] = string(body)
	}
	history, err := json.Marshal(historyUntilDeleted(c.on(l.harness), l.changed.controlPlane, emptyControlPlane))
	c.Expect(err).NotTo(HaveOccurred())
	seen["CAPTControlPlanes"] = string(history)
	for where, text := range seen {
		// A failed assertion would print the secret.
		c.Expect(strings.Contains(text, secret) || strings.Contains(text, encoded)).To(BeFalse(), "a private key is in %s", where)
	}
}

// clientKeyText returns the key as it is encoded in a kubeconfig.
func clientKeyText(c *check, kubeconfig []byte) string {
	for line := range strings.Lines(string(kubeconfig)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "client-key-data:"); ok {
			return strings.TrimSpace(text)
		}
	}
	c.t.Fatal("the kubeconfig has no key")
	return ""
}
