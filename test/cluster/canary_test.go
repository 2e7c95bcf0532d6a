package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv/canary"
)

// echo is an API server that refuses all requests, and answers with what they contain.
type echo struct {
	*httptest.Server
	// tokens is the number of requests with a token.
	tokens atomic.Int32
}

func newEcho(t *testing.T) *echo {
	e := &echo{}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			e.tokens.Add(1)
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, fmt.Sprint("refused: ", r.URL, r.Header))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *echo) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
}

// The kubeconfigs and tokens of workload clusters are in no other place than Secrets: while the
// clusters are created, used, not reachable, and deleted.
func TestCanary_noKubeconfigIsAnywhereElse(t *testing.T) {
	h := newHarness(t)
	var arguments canary.Arguments
	arguments.Follow(t)
	c, refusing, aws := canary.New(), newEcho(t), awstest.New(t)
	token := h.adminToken()
	c.Add("token", token[strings.LastIndex(token, ".")+1:])
	c.Add("key", h.adminKey())
	c.Plant("refused token", canary.Special)
	c.Add("key of AWS", aws.Env()["AWS_SECRET_ACCESS_KEY"])
	// The rest is a URL with a signature.
	c.Add("token of EKS", "k8s-aws-v1."+base64.RawStdEncoding.EncodeToString([]byte("https://")))

	h.awsTemplates(aws)
	h.withKubeconfigOf("token", h.env.Config.Host, h.env.Config.CAData, token)
	h.withKubeconfigOf("refused", refusing.URL, refusing.ca(), c.Value("refused token"))
	for _, name := range []string{"key", "token", "refused"} {
		cluster := newCluster(name)
		cluster.Labels = map[string]string{"canary": "true"}
		h.create(cluster, newInfra(name), newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			if name != "key" {
				s.WorkspaceTemplateRef.Name = name
			}
		}))
	}
	h.create(newCluster("eks"), newInfra("eks"), newEKS("eks", refusing.URL, base64.StdEncoding.EncodeToString(refusing.ca())))
	h.create(newAddon("canary", "canary", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {cluster: \"${CLUSTER_NAME}\"}\n", h.namespace)))
	h.waitAvailable("key")
	h.waitAvailable("token")
	for _, name := range []string{"refused", "eks"} {
		waitCondition(h, name, &controlplanev1.CAPTControlPlane{}, controlplanev1.AvailableCondition, "False "+controlplanev1.APIServerUnreachableReason)
	}
	h.Expect(refusing.tokens.Load()).To(BeNumerically(">", 1), "the server has seen tokens")
	for name, kind := range map[string]string{"key": "key (", "token": "token (", "refused": "refused token (", "eks": "token of EKS ("} {
		kubeconfig := get(h, name+"-kubeconfig", &corev1.Secret{}).Data["value"]
		h.Expect(c.Find(kubeconfig)).To(ContainElement(HavePrefix(kind)), "the search finds what the kubeconfig has")
	}
	var shown []string
	for _, args := range [][]string{{"describe"}, {"describe", "cluster", "refused"}, {"describe", "cluster", "eks"}, {"logs", "token"}, {"describe", "workspace", "token"}} {
		out, err := h.captctl(args...)
		shown = append(shown, fmt.Sprintln(strings.Join(args, " "), out, err))
	}
	h.searchAll(c, "while the clusters exist")

	// An API server that never answered has nothing that has to be deleted first.
	for _, name := range []string{"token", "key", "refused"} {
		h.destroy(h.cluster(name))
	}
	h.searchAll(c, "after the deletion")
	for place, text := range map[string][]byte{"process arguments": arguments.Text(), "captctl": []byte(strings.Join(shown, "\n"))} {
		h.Expect(c.Find(text)).To(BeEmpty(), place)
	}
	h.Expect(string(arguments.Text())).To(ContainSubstring("apply -json"), "the arguments of the tool were seen")
}

// adminToken returns a token of an administrator of the API server.
func (h *harness) adminToken() string {
	h.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
	h.create(account)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: h.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: account.Name}},
	}
	h.Expect(h.env.Client.Create(h.ctx, binding)).To(Succeed())
	h.t.Cleanup(func() { h.Expect(h.env.Client.Delete(context.WithoutCancel(h.ctx), binding)).To(Succeed()) })
	request := &authenticationv1.TokenRequest{}
	h.Expect(h.env.Client.SubResource("token").Create(h.ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// adminKey returns the key in the kubeconfig of h.templates, without the lines that all keys
// have.
func (h *harness) adminKey() string {
	h.t.Helper()
	config, err := clientcmd.LoadFromFile(h.env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		block, _ := pem.Decode(user.ClientKeyData)
		h.Expect(block).NotTo(BeNil())
		// The first bytes are those of all keys of the type.
		return base64.StdEncoding.EncodeToString(block.Bytes)[64:]
	}
	h.t.Fatal("the kubeconfig has no user")
	return ""
}

// withKubeconfigOf creates the template of a control plane with a server and a token.
func (h *harness) withKubeconfigOf(name, server string, ca []byte, token string) {
	h.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	kubeconfig, err := clientcmd.Write(*config)
	h.Expect(err).NotTo(HaveOccurred())
	vars, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	h.Expect(err).NotTo(HaveOccurred())
	h.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "workload-" + name}, Data: map[string][]byte{"vars.json": vars}},
		inline(name, controlPlaneModule, func(s *infrav1.WorkspaceSpec) {
			withKubeconfig(s)
			s.ForProvider.VarFiles[0].SecretKeyReference.Name = "workload-" + name
		}),
	)
}

// searchAll searches the objects, what runs report, the log of the manager, its metrics, and the
// files that other users may read.
func (h *harness) searchAll(c *canary.Set, when string) {
	h.t.Helper()
	places, err := canary.Objects(h.ctx, h.env.Config, h.namespace)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(places).To(HaveKey("CAPTControlPlane eks"))
	h.Expect(places).To(HaveKey(HavePrefix("Event ")))
	runs, err := runnertest.Reports(h.ctx, h.env.Client, h.namespace)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(runs).To(HaveKey(HavePrefix("log of ")))
	maps.Copy(places, runs)
	work := filepath.Join(h.env.Dir, "manager")
	log, err := os.ReadFile(filepath.Join(work, "manager.log"))
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(string(log)).To(ContainSubstring(h.namespace))
	places["log of the manager"] = log
	address, _ := diagnostics.Load(h.env)
	response, err := http.Get(fmt.Sprintf("http://%s/metrics", address)) //nolint:noctx // A test.
	h.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(string(metrics)).To(ContainSubstring("capt_kubeconfig_expiry_timestamp_seconds"))
	places["metrics"] = metrics
	for place, text := range places {
		if found := c.Find(text); len(found) > 0 {
			h.t.Errorf("%s: %s: %s", when, place, strings.Join(found, "; "))
		}
	}
	h.Expect(c.Exposed(work)).To(BeEmpty(), when)
}
