package cluster

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

const spotRole = "AWSServiceRoleForEC2Spot"

// eksModule has an API server that accepts EKS tokens as outputs.
const eksModule = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "vpc_id" { type = string }
variable "subnet_ids" { type = list(string) }
variable "endpoint" { type = string }
variable "ca" { type = string }
resource "terraform_data" "cluster" { input = [var.cluster_name, var.vpc_id, var.subnet_ids] }
output "cluster_endpoint" { value = var.endpoint }
output "cluster_name" { value = "eks-${var.cluster_name}" }
output "cluster_certificate_authority_data" { value = var.ca }
output "given" { value = { vpc_id = var.vpc_id, subnet_ids = var.subnet_ids } }
`

// awsTemplates creates the templates vpc and eks, whose runs have credentials of the
// fake account.
func (h *harness) awsTemplates(aws *awstest.Server) {
	h.t.Helper()
	h.templates()
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "aws"}, StringData: aws.Env()}
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: "aws"}}
	for _, name := range slices.Sorted(maps.Keys(aws.Env())) {
		config.Spec.Credentials = append(config.Spec.Credentials, infrav1.ProviderCredential{Env: name, SecretRef: infrav1.KeyReference{Name: "aws", Key: name}})
	}
	h.create(keys, config, inline("eks", eksModule, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"} }))
}

func newEKS(name, endpoint, ca string, change ...func(*controlplanev1.CAPTControlPlaneSpec)) *controlplanev1.CAPTControlPlane {
	return newControlPlane(name, append([]func(*controlplanev1.CAPTControlPlaneSpec){func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.WorkspaceTemplateRef.Name = "eks"
		s.Kubeconfig = nil
		s.Variables = map[string]infrav1.Value{"endpoint": infrav1.StringValue(endpoint), "ca": infrav1.StringValue(ca)}
	}}, change...)...)
}

// apiServer starts an API server that reviews tokens with the authenticator.
func (h *harness) apiServer(authenticator *awstest.Authenticator) (endpoint, ca string) {
	h.t.Helper()
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(h.t.TempDir(), "eks")
	webhook := filepath.Join(h.t.TempDir(), "webhook")
	h.Expect(authenticator.WriteKubeconfig(webhook)).To(Succeed())
	run := func(args ...string) {
		out, err := exec.Command(filepath.Join(root, "bin", "localcluster"), append(args, "--dir", dir)...).CombinedOutput()
		h.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	run("up", "--name", "eks", "--kubernetes-version", "1.37", "--bin-dir", filepath.Join(root, "bin", "parts"), "--token-webhook", webhook)
	h.t.Cleanup(func() { run("down") })
	text, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	h.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	h.Expect(err).NotTo(HaveOccurred())
	return config.Host, base64.StdEncoding.EncodeToString(config.CAData)
}

// A token is renewed before it expires. Cluster API's own connection to the workload
// cluster survives several renewals.
func TestEKS_renewsTokensAndKeepsTheConnection(t *testing.T) {
	h := newHarness(t)
	aws := awstest.New(t)
	authenticator := awstest.NewAuthenticator(t, aws, "eks-demo")
	endpoint, ca := h.apiServer(authenticator)
	h.awsTemplates(aws)
	// The tokens of short sessions expire soon.
	role := aws.AddRole("capt")
	const lifetime = 45 * time.Second
	aws.LimitSessions(lifetime)
	authenticator.SetLifetime(lifetime)
	h.create(newCluster("demo"), newInfra("demo"), newEKS("demo", endpoint, ca, func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: role}
	}))
	h.waitAvailable("demo")
	first := h.controlPlane("demo").Status.Kubeconfig
	h.Expect(first.ExpiresAt.Sub(first.RenewedAt.Time)).To(BeNumerically("<", 2*lifetime))

	renewals := map[time.Time]bool{}
	h.Eventually(func(g Gomega) {
		c := h.controlPlane("demo")
		renewals[c.Status.Kubeconfig.RenewedAt.Time] = true
		h.Expect(time.Now()).To(BeTemporally("<", c.Status.Kubeconfig.ExpiresAt.Time), "the token in the Secret is always valid")
		g.Expect(len(renewals)).To(BeNumerically(">=", 3), "the token is renewed several times")
		g.Expect(objecttest.Text(objecttest.Condition(c, infrav1.ReadyCondition))).To(HavePrefix("True"))
		g.Expect(objecttest.Text(objecttest.Condition(h.cluster("demo"), clusterv1.ClusterRemoteConnectionProbeCondition))).To(HavePrefix("True"))
	}, testTimeout, time.Second).Should(Succeed())
	h.Expect(h.apply("demo").Status.Runs).To(BeEquivalentTo(1), "a new token starts no run")

	personal, err := clientcmd.Load(get(h, "demo-user-kubeconfig", &corev1.Secret{}).Data["value"])
	h.Expect(err).NotTo(HaveOccurred())
	user := personal.AuthInfos[personal.Contexts[personal.CurrentContext].AuthInfo]
	h.Expect(user.Token).To(BeEmpty())
	h.Expect(user.Exec.Command + " " + strings.Join(user.Exec.Args, " ")).To(ContainSubstring("aws eks get-token --cluster-name eks-demo"))
	h.Expect(user.Exec.Args).NotTo(ContainElement(role), "users do not assume the role of CAPT")

	// The deletion needs tokens as well. The region is that of the infrastructure.
	h.destroy(h.cluster("demo"))
	h.Eventually(h.leftovers, testTimeout).Should(ConsistOf("Secret aws"))
}

func TestEKS_reportsInvalidCredentials(t *testing.T) {
	h := newHarness(t)
	aws := awstest.New(t)
	h.awsTemplates(aws)
	h.create(newCluster("demo"), newInfra("demo"), newEKS("demo", "https://127.0.0.1:1", base64.StdEncoding.EncodeToString(h.env.Config.CAData), func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: "arn:aws:iam::123456789012:role/unknown"}
		s.SpotServiceLinkedRole = controlplanev1.SpotRoleSkip
	}))

	c := waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.KubeconfigReadyCondition, "False TokenFailed")
	h.Expect(c.Message).To(ContainSubstring("arn:aws:iam::123456789012:role/unknown"))
	for _, secret := range aws.Env() {
		if strings.Contains(secret, "http") || secret == awstest.Region {
			continue
		}
		h.Expect(c.Message).NotTo(ContainSubstring(secret))
	}
	h.Expect(objecttest.Text(objecttest.Condition(h.controlPlane("demo"), controlplanev1.SpotRoleReadyCondition))).To(HavePrefix("True Skipped"))
	h.Expect(aws.Calls("GetRole")).To(BeZero())
}

// Clusters that are created at the same time share one role. AWS refuses to create it again.
func TestEKS_sharesTheSpotRoleAndNeverDeletesIt(t *testing.T) {
	h := newHarness(t)
	aws := awstest.New(t)
	h.awsTemplates(aws)
	ca := base64.StdEncoding.EncodeToString(h.env.Config.CAData)
	var clusters []*clusterv1.Cluster
	for i := range 5 {
		name := fmt.Sprintf("spot-%d", i)
		clusters = append(clusters, newCluster(name))
		h.create(clusters[i], newInfra(name), newEKS(name, "https://127.0.0.1:1", ca))
	}
	for _, cluster := range clusters {
		waitCondition(h, cluster.Name, &controlplanev1.CAPTControlPlane{}, controlplanev1.SpotRoleReadyCondition, "True Ready")
	}
	h.Expect(aws.HasRole(spotRole)).To(BeTrue())

	for _, cluster := range clusters {
		h.delete(cluster)
	}
	for _, cluster := range clusters {
		h.waitDeleted(cluster)
	}
	h.Expect(aws.HasRole(spotRole)).To(BeTrue(), "the role belongs to the account")
}

func TestEKS_reportsMissingPermissionsForTheSpotRole(t *testing.T) {
	h := newHarness(t)
	aws := awstest.New(t)
	aws.Deny("CreateServiceLinkedRole")
	h.awsTemplates(aws)
	h.create(newCluster("demo"), newInfra("demo"), newEKS("demo", "https://127.0.0.1:1", "eA=="))

	c := waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.SpotRoleReadyCondition, "False SpotRoleFailed")
	h.Expect(c.Message).To(And(ContainSubstring("iam:CreateServiceLinkedRole"), ContainSubstring("spotServiceLinkedRole: Skip")))

	change(h, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.SpotServiceLinkedRole = controlplanev1.SpotRoleSkip
	})
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.SpotRoleReadyCondition, "True Skipped")
}

func TestEKS_passesAnExistingVPCToTheTemplate(t *testing.T) {
	h := newHarness(t)
	aws := awstest.New(t)
	aws.AddVPC(awstest.VPC{ID: "vpc-0123456789abcdef0", CIDR: "10.0.0.0/16"}, []awstest.Subnet{
		{ID: "subnet-0000000000000000b", Zone: "ap-northeast-1c", Tags: map[string]string{"kubernetes.io/role/internal-elb": "1"}},
		{ID: "subnet-0000000000000000a", Zone: "ap-northeast-1a", Tags: map[string]string{"kubernetes.io/role/internal-elb": "1"}},
		{ID: "subnet-0000000000000000c", Zone: "ap-northeast-1d"},
	}, nil)
	h.awsTemplates(aws)
	cluster := newCluster("demo")
	h.create(cluster, newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
		s.Region, s.VPCTemplateRef, s.ExistingVPCID = "ap-northeast-1", nil, "vpc-0123456789abcdef0"
	}), newEKS("demo", "https://127.0.0.1:1", "eA=="))

	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.WorkspaceReadyCondition, "True")
	infra := h.infra("demo")
	h.Expect(infra.Status.SubnetIDs).To(Equal([]string{"subnet-0000000000000000a", "subnet-0000000000000000b"}))
	h.Expect(infra.Status.FailureDomains).To(HaveExactElements(HaveField("Name", "ap-northeast-1a"), HaveField("Name", "ap-northeast-1c")))
	h.Expect(h.apply("demo").Status.Outputs["given"].String()).To(MatchJSON(
		`{"vpc_id":"vpc-0123456789abcdef0","subnet_ids":["subnet-0000000000000000a","subnet-0000000000000000b"]}`))

	h.destroy(cluster)
	h.Expect(aws.Calls("DeleteVpc")).To(BeZero())
}

func TestEKS_waitsForAnExistingVPC(t *testing.T) {
	h := newHarness(t)
	aws := awstest.New(t)
	h.awsTemplates(aws)
	h.create(newCluster("demo"), newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
		s.Region, s.VPCTemplateRef, s.ExistingVPCID = "ap-northeast-1", nil, "vpc-0123456789abcdef0"
	}), newEKS("demo", "https://127.0.0.1:1", "eA=="))

	c := waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.InfrastructureReadyCondition, "False VPCNotFound")
	h.Expect(c.Message).To(And(ContainSubstring("vpc-0123456789abcdef0"), ContainSubstring("ap-northeast-1")))
}
