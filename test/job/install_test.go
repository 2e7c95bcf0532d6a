package job

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/version"
)

const captNamespace = "capt-system"

// Modules without a cloud: the VPC is a name, and the API server of the new cluster is
// that of the test.
const (
	vpcModule = `
variable "name" { type = string }
variable "region" { type = string }
resource "terraform_data" "vpc" { input = { name = var.name, region = var.region } }
output "vpc_id" { value = "vpc-${substr(sha256(terraform_data.vpc.id), 0, 17)}" }
output "private_subnets" { value = ["subnet-1", "subnet-2"] }
output "azs" { value = ["zone-a", "zone-b"] }
`
	controlPlaneModule = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "vpc_id" { type = string }
variable "subnet_ids" { type = list(string) }
variable "region" { type = string }
variable "kubeconfig" {
  type      = string
  sensitive = true
}
resource "terraform_data" "cluster" {
  input = { name = var.cluster_name, vpc = var.vpc_id, subnets = var.subnet_ids, version = var.kubernetes_version, region = var.region }
}
output "cluster_endpoint" { value = nonsensitive(yamldecode(var.kubeconfig).clusters[0].cluster.server) }
output "cluster_name" { value = var.cluster_name }
output "kubeconfig" {
  value     = var.kubeconfig
  sensitive = true
}
`
)

// TestInstall_takesAClusterToAvailableAndBack installs CAPT as docs/install.md does: the
// images and install.yaml of this commit, on a cluster without CRDs of CAPT. Both
// managers, their webhooks and all runs are pods. The test does the work of
// cert-manager, of which only the CRDs are installed, and Cluster API runs beside the
// node.
func TestInstall_takesAClusterToAvailableAndBack(t *testing.T) {
	testenv.NeedsNode(t)
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context()}
	h.env = testenv.New(t, testenv.WithNode(), testenv.WithClusterAPI(), testenv.WithCRDs(""))
	for _, name := range []string{"capt", "capt-runner"} {
		archive := filepath.Join("images", name+"_linux_"+goruntime.GOARCH+".tar")
		h.Expect(h.env.Node().ImportImage(h.found(testenv.Built(archive)))).To(Succeed())
	}
	crds, err := testenv.CertManagerCRDs()
	h.Expect(err).NotTo(HaveOccurred())
	h.kubectl(crds, "apply", "--server-side", "-f", "-")

	started := time.Now()
	h.kubectl(nil, "apply", "--server-side", "-f", h.installer())
	h.certify()
	h.kubectl(nil, "-n", captNamespace, "rollout", "status", "--timeout=3m", "deployment/capt-controller-manager")
	t.Logf("installed after %s", time.Since(started).Round(time.Second))

	h.namespace = h.env.Namespace(t)
	h.checkCluster()
	h.checkWebhook()
	started = time.Now()
	h.uninstall()
	t.Logf("uninstalled after %s", time.Since(started).Round(time.Second))
}

// kubectl runs kubectl as an administrator.
func (h *harness) kubectl(input []byte, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(h.found(testenv.Part("kubectl")), append([]string{"--kubeconfig", h.env.Kubeconfig}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		pods, _ := exec.Command(cmd.Path, "--kubeconfig", h.env.Kubeconfig, "-n", captNamespace, "describe", "pods").CombinedOutput()
		h.t.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, pods)
	}
	return string(out)
}

// installer returns the path of install.yaml of this commit.
func (h *harness) installer() string {
	h.t.Helper()
	dist := filepath.Join(h.t.TempDir(), "dist")
	h.Expect(testenv.BuildRelease(strings.TrimPrefix(version.Version(), "v"), dist)).To(Succeed())
	return filepath.Join(dist, "install.yaml")
}

// certify does what cert-manager does: it creates the certificate of the webhooks, and
// makes the API server trust it.
func (h *harness) certify() {
	h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.Expect(err).NotTo(HaveOccurred())
	host := "capt-webhook-service." + captNamespace + ".svc"
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	h.Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	h.Expect(err).NotTo(HaveOccurred())
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	h.Expect(h.env.Client.Create(h.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: captNamespace, Name: "capt-serving-cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})},
	})).To(Succeed())
	ours := client.MatchingLabels{"cluster.x-k8s.io/provider": "infrastructure-capt"}
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	h.Expect(h.env.Client.List(h.ctx, &validating, ours)).To(Succeed())
	h.Expect(h.env.Client.List(h.ctx, &mutating, ours)).To(Succeed())
	h.Expect(validating.Items).NotTo(BeEmpty())
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			validating.Items[i].Webhooks[j].ClientConfig.CABundle = certificate
		}
		h.Expect(h.env.Client.Update(h.ctx, &validating.Items[i])).To(Succeed())
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			mutating.Items[i].Webhooks[j].ClientConfig.CABundle = certificate
		}
		h.Expect(h.env.Client.Update(h.ctx, &mutating.Items[i])).To(Succeed())
	}
}

// checkCluster creates a Cluster, waits until it is available, and deletes it.
func (h *harness) checkCluster() {
	h.t.Helper()
	kubeconfig, err := os.ReadFile(h.env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	variables, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	h.Expect(err).NotTo(HaveOccurred())
	template := func(name, module string, files ...infrav1.VarFile) *infrav1.WorkspaceTemplate {
		spec := infrav1.WorkspaceSpec{ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module, VarFiles: files}}
		return &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}}}
	}
	started := time.Now()
	demo := metav1.ObjectMeta{Name: "demo"}
	cluster := &clusterv1.Cluster{ObjectMeta: demo, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "demo"},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "demo"},
	}}
	h.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "workload"}, Data: map[string][]byte{"vars.json": variables}},
		template("vpc", vpcModule),
		template("control-plane", controlPlaneModule, infrav1.VarFile{
			Source: infrav1.VarFileSourceSecretKey, Format: infrav1.FileFormatJSON, SecretKeyReference: &infrav1.KeyReference{Name: "workload", Key: "vars.json"},
		}),
		cluster,
		&infrav1.CAPTCluster{ObjectMeta: demo, Spec: infrav1.CAPTClusterSpec{Region: "local-1", VPCTemplateRef: &infrav1.TemplateReference{Name: "vpc"}}},
		&controlplanev1.CAPTControlPlane{ObjectMeta: demo, Spec: controlplanev1.CAPTControlPlaneSpec{
			Version: "v1.37.0", WorkspaceTemplateRef: infrav1.TemplateReference{Name: "control-plane"},
			Kubeconfig: &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput},
		}},
	)
	h.Eventually(func() string {
		if err := h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err.Error()
		}
		return objecttest.Text(objecttest.Condition(cluster, clusterv1.ClusterAvailableCondition))
	}, 2*testTimeout, 100*time.Millisecond).Should(HavePrefix("True"))
	h.t.Logf("available after %s", time.Since(started).Round(time.Second))
	h.Expect(h.get("demo-vpc").Status.Runs).To(BeEquivalentTo(1))

	h.Expect(h.env.Client.Delete(h.ctx, cluster)).To(Succeed())
	h.Eventually(func() bool {
		return apierrors.IsNotFound(h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{}))
	}, 2*testTimeout, 100*time.Millisecond).Should(BeTrue())
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
	var applies infrav1.WorkspaceTemplateApplyList
	h.Expect(h.env.Client.List(h.ctx, &applies, client.InNamespace(h.namespace))).To(Succeed())
	h.Expect(applies.Items).To(BeEmpty())
}

// checkWebhook checks that the API server calls the webhooks of the pods.
func (h *harness) checkWebhook() {
	h.t.Helper()
	invalid := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "invalid"}}
	invalid.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: "output {"}
	h.Expect(h.env.Client.Create(h.ctx, invalid)).To(MatchError(ContainSubstring("main.tf:1,")))
}

// uninstall runs the commands of docs/install.md, which keep the CRDs.
func (h *harness) uninstall() {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.found(testenv.Root()), "docs", "install.md"))
	h.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "With install.yaml, which has no list")
	h.Expect(found).To(BeTrue())
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	h.Expect(strings.Count(block, "kubectl delete ")).To(Equal(2))
	for command := range strings.Lines(block) {
		h.kubectl(nil, strings.Fields(command)[1:]...)
	}
	h.Expect(apierrors.IsNotFound(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: captNamespace, Name: "capt-controller-manager"}, &appsv1.Deployment{}))).To(BeTrue())
	h.Expect(h.kubectl(nil, "get", "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name")).NotTo(ContainSubstring("/capt-"))
	h.Expect(h.kubectl(nil, "get", "crds", "-o", "name")).To(ContainSubstring("workspacetemplateapplies"), "the objects of users are kept")
}
