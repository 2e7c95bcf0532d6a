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
func (w *harness) awsTemplates(aws *awstest.Server) {
	w.t.Helper()
	w.templates()
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "aws"}, StringData: aws.Env()}
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: "aws"}}
	for _, name := range slices.Sorted(maps.Keys(aws.Env())) {
		config.Spec.Credentials = append(config.Spec.Credentials, infrav1.ProviderCredential{Env: name, SecretRef: infrav1.KeyReference{Name: "aws", Key: name}})
	}
	w.create(keys, config, inline("eks", eksModule, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"} }))
}

func newEKS(name, endpoint, ca string, change ...func(*controlplanev1.CAPTControlPlaneSpec)) *controlplanev1.CAPTControlPlane {
	return newControlPlane(name, append([]func(*controlplanev1.CAPTControlPlaneSpec){func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.WorkspaceTemplateRef.Name = "eks"
		s.Kubeconfig = nil
		s.Variables = map[string]infrav1.Value{"endpoint": infrav1.StringValue(endpoint), "ca": infrav1.StringValue(ca)}
	}}, change...)...)
}

// apiServer starts an API server that reviews tokens with the authenticator.
func (w *harness) apiServer(authenticator *awstest.Authenticator) (endpoint, ca string) {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(w.t.TempDir(), "eks")
	webhook := filepath.Join(w.t.TempDir(), "webhook")
	w.Expect(authenticator.WriteKubeconfig(webhook)).To(Succeed())
	run := func(args ...string) {
		out, err := exec.Command(filepath.Join(root, "bin", "localcluster"), append(args, "--dir", dir)...).CombinedOutput()
		w.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	run("up", "--name", "eks", "--kubernetes-version", "1.37", "--bin-dir", filepath.Join(root, "bin", "parts"), "--token-webhook", webhook)
	w.t.Cleanup(func() { run("down") })
	text, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	w.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	w.Expect(err).NotTo(HaveOccurred())
	return config.Host, base64.StdEncoding.EncodeToString(config.CAData)
}

// A token is renewed before it expires. Cluster API's own connection to the workload
// cluster survives several renewals.
func TestEKS_renewsTokensAndKeepsTheConnection(t *testing.T) {
	w := newHarness(t)
	aws := awstest.New(t)
	authenticator := awstest.NewAuthenticator(t, aws, "eks-demo")
	endpoint, ca := w.apiServer(authenticator)
	w.awsTemplates(aws)
	// The tokens of short sessions expire soon.
	role := aws.AddRole("capt")
	aws.LimitSessions(24 * time.Second)
	authenticator.SetLifetime(24 * time.Second)
	w.create(newCluster("demo"), newInfra("demo"), newEKS("demo", endpoint, ca, func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: role}
	}))
	w.waitAvailable("demo")
	first := w.controlPlane("demo").Status.Kubeconfig
	w.Expect(first.ExpiresAt.Sub(first.RenewedAt.Time)).To(BeNumerically("<=", 24*time.Second))

	renewals := map[time.Time]bool{}
	w.Consistently(func(g Gomega) {
		g.Expect(text(conditionOf(w.cluster("demo"), clusterv1.ClusterRemoteConnectionProbeCondition))).To(HavePrefix("True"))
		c := w.controlPlane("demo")
		g.Expect(text(conditionOf(c, infrav1.ReadyCondition))).To(HavePrefix("True"))
		renewals[c.Status.Kubeconfig.RenewedAt.Time] = true
		g.Expect(time.Now()).To(BeTemporally("<", c.Status.Kubeconfig.ExpiresAt.Time), "the token in the Secret is always valid")
	}, 60*time.Second, time.Second).Should(Succeed())
	w.Expect(len(renewals)).To(BeNumerically(">=", 3), "the token was renewed several times")
	w.Expect(w.apply("demo").Status.Runs).To(BeEquivalentTo(1), "a new token starts no run")

	personal, err := clientcmd.Load(get(w, "demo-user-kubeconfig", &corev1.Secret{}).Data["value"])
	w.Expect(err).NotTo(HaveOccurred())
	user := personal.AuthInfos[personal.Contexts[personal.CurrentContext].AuthInfo]
	w.Expect(user.Token).To(BeEmpty())
	w.Expect(user.Exec.Command + " " + strings.Join(user.Exec.Args, " ")).To(ContainSubstring("aws eks get-token --cluster-name eks-demo"))
	w.Expect(user.Exec.Args).To(ContainElement(role))

	// The deletion needs tokens as well. The region is that of the infrastructure.
	cluster := w.cluster("demo")
	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Eventually(w.leftovers, testTimeout).Should(ConsistOf("Secret aws"))
}

func TestEKS_reportsInvalidCredentials(t *testing.T) {
	w := newHarness(t)
	aws := awstest.New(t)
	w.awsTemplates(aws)
	w.create(newCluster("demo"), newInfra("demo"), newEKS("demo", "https://127.0.0.1:1", base64.StdEncoding.EncodeToString(w.env.Config.CAData), func(s *controlplanev1.CAPTControlPlaneSpec) {
		s.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: "arn:aws:iam::123456789012:role/unknown"}
		s.SpotServiceLinkedRole = controlplanev1.SpotRoleSkip
	}))

	c := waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.KubeconfigReadyCondition, "False TokenFailed")
	w.Expect(c.Message).To(ContainSubstring("arn:aws:iam::123456789012:role/unknown"))
	for _, secret := range aws.Env() {
		if strings.Contains(secret, "http") || secret == awstest.Region {
			continue
		}
		w.Expect(c.Message).NotTo(ContainSubstring(secret))
	}
	w.Expect(text(conditionOf(w.controlPlane("demo"), controlplanev1.SpotRoleReadyCondition))).To(HavePrefix("True Skipped"))
	w.Expect(aws.Calls("GetRole")).To(BeZero())
}

// Clusters that are created at the same time share one role.
func TestEKS_createsTheSpotRoleOnceAndNeverDeletesIt(t *testing.T) {
	w := newHarness(t)
	aws := awstest.New(t)
	w.awsTemplates(aws)
	ca := base64.StdEncoding.EncodeToString(w.env.Config.CAData)
	var clusters []*clusterv1.Cluster
	for i := range 5 {
		name := fmt.Sprintf("spot-%d", i)
		clusters = append(clusters, newCluster(name))
		w.create(clusters[i], newInfra(name), newEKS(name, "https://127.0.0.1:1", ca))
	}
	for _, cluster := range clusters {
		waitCondition(w, cluster.Name, &controlplanev1.CAPTControlPlane{}, controlplanev1.SpotRoleReadyCondition, "True Ready")
	}
	w.Expect(aws.HasRole(spotRole)).To(BeTrue())
	w.Expect(aws.Calls("CreateServiceLinkedRole")).To(Equal(1))

	for _, cluster := range clusters {
		w.delete(cluster)
	}
	for _, cluster := range clusters {
		w.waitDeleted(cluster)
	}
	w.Expect(aws.HasRole(spotRole)).To(BeTrue(), "the role belongs to the account")
}

func TestEKS_reportsMissingPermissionsForTheSpotRole(t *testing.T) {
	w := newHarness(t)
	aws := awstest.New(t)
	aws.Deny("CreateServiceLinkedRole")
	w.awsTemplates(aws)
	w.create(newCluster("demo"), newInfra("demo"), newEKS("demo", "https://127.0.0.1:1", "eA=="))

	c := waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.SpotRoleReadyCondition, "False SpotRoleFailed")
	w.Expect(c.Message).To(And(ContainSubstring("iam:CreateServiceLinkedRole"), ContainSubstring("spotServiceLinkedRole: Skip")))

	change(w, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.SpotServiceLinkedRole = controlplanev1.SpotRoleSkip
	})
	waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.SpotRoleReadyCondition, "True Skipped")
}

func TestEKS_passesAnExistingVPCToTheTemplate(t *testing.T) {
	w := newHarness(t)
	aws := awstest.New(t)
	aws.AddVPC(awstest.VPC{ID: "vpc-0123456789abcdef0", CIDR: "10.0.0.0/16"}, []awstest.Subnet{
		{ID: "subnet-0000000000000000b", Zone: "ap-northeast-1c", Tags: map[string]string{"kubernetes.io/role/internal-elb": "1"}},
		{ID: "subnet-0000000000000000a", Zone: "ap-northeast-1a", Tags: map[string]string{"kubernetes.io/role/internal-elb": "1"}},
		{ID: "subnet-0000000000000000c", Zone: "ap-northeast-1d"},
	}, nil)
	w.awsTemplates(aws)
	cluster := newCluster("demo")
	w.create(cluster, newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
		s.Region, s.VPCTemplateRef, s.ExistingVPCID = "ap-northeast-1", nil, "vpc-0123456789abcdef0"
	}), newEKS("demo", "https://127.0.0.1:1", "eA=="))

	waitCondition(w, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.WorkspaceReadyCondition, "True")
	infra := w.infra("demo")
	w.Expect(infra.Status.SubnetIDs).To(Equal([]string{"subnet-0000000000000000a", "subnet-0000000000000000b"}))
	w.Expect(infra.Status.FailureDomains).To(HaveExactElements(HaveField("Name", "ap-northeast-1a"), HaveField("Name", "ap-northeast-1c")))
	w.Expect(w.apply("demo").Status.Outputs["given"].String()).To(MatchJSON(
		`{"vpc_id":"vpc-0123456789abcdef0","subnet_ids":["subnet-0000000000000000a","subnet-0000000000000000b"]}`))

	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Expect(aws.Calls("DeleteVpc")).To(BeZero())
}

func TestEKS_waitsForAnExistingVPC(t *testing.T) {
	w := newHarness(t)
	aws := awstest.New(t)
	w.awsTemplates(aws)
	w.create(newCluster("demo"), newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
		s.Region, s.VPCTemplateRef, s.ExistingVPCID = "ap-northeast-1", nil, "vpc-0123456789abcdef0"
	}), newEKS("demo", "https://127.0.0.1:1", "eA=="))

	c := waitCondition(w, "demo", &infrav1.CAPTCluster{}, infrav1.VPCReadyCondition, "False VPCNotFound")
	w.Expect(c.Message).To(And(ContainSubstring("vpc-0123456789abcdef0"), ContainSubstring("ap-northeast-1")))
}
