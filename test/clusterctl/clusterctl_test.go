package clusterctl

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/config/crd"
	"github.com/appthrust/capt/internal/testenv"
)

// TestClusterctl is one story, because each step needs the previous ones.
func TestClusterctl(t *testing.T) {
	if os.Getenv("CAPT_TEST_CLUSTERCTL") == "" {
		t.Skip("run `make test-clusterctl`")
	}
	config := newRepository(t)
	commands := readCommands(t)
	newServer(t, config).initCore(commands.initCore)
	source := newServer(t, config)
	source.init(commands.init.of(previous), previous)
	source.generate()

	source.startClusterAPI()
	trace := source.createCluster(source)
	source.waitReady("demo", "demo-vpc")
	source.Expect(source.clusterctl("describe", "cluster", "demo", "-n", "default", "--show-conditions", "all")).To(And(
		MatchRegexp(`CAPTCluster default/demo`), MatchRegexp(`InfrastructureReady +True`), MatchRegexp(`CAPTControlPlane default/demo`), MatchRegexp(`WorkspaceReady +True`)))

	source.upgrade(commands)
	source.waitReady("demo", "demo-vpc")
	source.Expect(trace()).To(ConsistOf("create vpc", "create cluster"), "an upgrade starts no run")

	target := newServer(t, config)
	target.init(commands.init, current)
	target.startClusterAPI()
	source.startSlowRun()
	source.expectBlockedMove(target)
	source.run(commands.move.with("target.kubeconfig", target.kubeconfig))
	target.waitReady("demo", "demo-vpc", "slow")
	target.Expect(trace()).To(ConsistOf("create vpc", "create cluster", "create slow"), "the move created and destroyed nothing")
	source.expectEmpty()
	target.expectStates("demo", "demo-vpc", "slow")

	target.deleteCluster()
	target.Expect(trace()).To(ConsistOf("create vpc", "create cluster", "create slow", "destroy slow", "destroy cluster", "destroy vpc"))
	for _, s := range []*server{source, target} {
		s.Expect(s.forbidden()).To(BeEmpty(), "each provider has the permissions that it needs")
	}
	target.deleteProviders(commands)
}

// initCore installs Cluster API without a provider.
func (s *server) initCore(c command) {
	s.t.Helper()
	s.run(c)
	s.Expect(s.deployment("capi-system").Spec.Template.Spec.Containers[0].Args).To(ContainElement(ContainSubstring("ClusterTopology=true")))
	var all appsv1.DeploymentList
	s.Expect(s.client.List(s.ctx, &all)).To(Succeed())
	s.Expect(all.Items).To(HaveLen(1), "no provider is installed")
}

// init installs the providers, and checks that they arrive as they are in config/.
func (s *server) init(c command, version string) {
	s.t.Helper()
	s.run(c)
	for _, namespace := range providers {
		container := s.deployment(namespace).Spec.Template.Spec.Containers[0]
		s.Expect(container.Image).To(Equal("ghcr.io/appthrust/capt:" + version))
		s.Expect(container.Args).To(ContainElement("--concurrency=10"), "clusterctl replaces the variables with their defaults")
		if namespace == "capt-control-plane-system" {
			s.Expect(container.Args).To(ContainElement("--aws-own-identity=false"), "this manager signs the tokens of EKS")
		}
	}
	definitions, err := crd.Definitions()
	s.Expect(err).NotTo(HaveOccurred())
	for _, want := range definitions {
		var have apiextensionsv1.CustomResourceDefinition
		s.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(want), &have)).To(Succeed())
		s.Expect(have.Spec.Versions).To(HaveLen(len(want.Spec.Versions)))
		for i := range want.Spec.Versions {
			s.Expect(have.Spec.Versions[i].Schema).To(Equal(want.Spec.Versions[i].Schema), "clusterctl expands nothing in %s", want.Name)
		}
	}
}

// generate checks the templates of clusters.
func (s *server) generate() {
	s.t.Helper()
	s.Expect(s.clusterctl("generate", "cluster", "eks", "--infrastructure", "capt:"+previous, "-n", "default")).To(And(
		ContainSubstring("kind: CAPTControlPlane"), ContainSubstring("region: eu-central-1")))
	s.Expect(s.clusterctl("generate", "cluster", "local", "--infrastructure", "capt:"+previous, "-n", "default", "--flavor", "local")).To(And(
		ContainSubstring("kind: ClusterClass"), ContainSubstring("kind: CAPTMachineTemplate"), ContainSubstring("name: local")))
	s.Expect(s.clusterctl("generate", "cluster", "eks", "--infrastructure", "capt:"+previous, "-n", "default", "--flavor", "eks-class")).To(And(
		ContainSubstring("kind: ClusterClass"), ContainSubstring("kind: CAPTMachinePoolTemplate"), ContainSubstring("value: eu-central-1")))
	variables := s.clusterctl("generate", "cluster", "eks", "--infrastructure", "capt:"+previous, "--list-variables")
	s.Expect(variables).To(And(ContainSubstring("AWS_REGION"), ContainSubstring("ENDPOINT_PUBLIC_CIDRS")))
}

// module returns a module that writes to a trace when its resource is created and
// destroyed.
func module(trace, name, rest string) string {
	return fmt.Sprintf(`
resource "terraform_data" "this" {
  input = { trace = %q, name = %q }
  provisioner "local-exec" {
    command = "echo create ${self.input.name} >> ${self.input.trace}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroy ${self.input.name} >> ${self.input.trace}"
  }
}
%s`, trace, name, rest)
}

func template(name, text string) *infrav1.WorkspaceTemplate {
	t := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	t.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: text}
	return t
}

// createCluster creates a cluster whose control plane is the API server of workload, and
// returns its trace.
func (s *server) createCluster(workload *server) (trace func() []string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "trace")
	kubeconfig := base64.StdEncoding.EncodeToString(workload.env.KubeConfig)
	objects := []client.Object{
		template("vpc", module(path, "vpc", `
variable "name" { type = string }
variable "region" { type = string }
output "vpc_id" { value = "vpc-0123456789abcdef0" }
output "private_subnets" { value = ["subnet-0123456789abcdef0"] }
output "azs" { value = ["zone-a"] }
`)),
		template("control-plane", module(path, "cluster", `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "vpc_id" { type = string }
variable "subnet_ids" { type = list(string) }
variable "region" { type = string }
output "cluster_name" { value = var.cluster_name }
output "cluster_endpoint" { value = "`+workload.env.Config.Host+`" }
output "kubeconfig" {
  value     = base64decode("`+kubeconfig+`")
  sensitive = true
}
`)),
		template("slow", module(path, "slow", `
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "while test ! -e `+s.gate()+`; do sleep 0.2; done"
  }
}
`)),
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", Labels: map[string]string{"hello": "true"}}, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "demo"},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "demo"},
		}},
		&infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}, Spec: infrav1.CAPTClusterSpec{
			Region: "local-1", VPCTemplateRef: &infrav1.TemplateReference{Name: "vpc"},
		}},
		&controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}, Spec: controlplanev1.CAPTControlPlaneSpec{
			Version: "v1.37.0", WorkspaceTemplateRef: infrav1.TemplateReference{Name: "control-plane"},
			Kubeconfig: &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput},
		}},
	}
	for _, obj := range objects {
		// The webhook servers may not be listening yet.
		s.Eventually(func() error { return s.client.Create(s.ctx, obj) }, testTimeout, time.Second).Should(Succeed())
	}
	return func() []string {
		text, err := os.ReadFile(path)
		s.Expect(err).NotTo(HaveOccurred())
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// waitReady waits until the cluster is available, and the workspaces are ready after
// exactly one run each.
func (s *server) waitReady(cluster string, workspaces ...string) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		var c clusterv1.Cluster
		g.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: cluster}, &c)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.AvailableCondition)).To(BeTrue(), "%v", c.Status.Conditions)
		for _, name := range append(workspaces, cluster) {
			var apply infrav1.WorkspaceTemplateApply
			g.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: name}, &apply)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition)).To(BeTrue(), "%s: %v", name, apply.Status.Conditions)
			g.Expect(apply.Status.Runs).To(BeEquivalentTo(1), name)
		}
	}, testTimeout, 500*time.Millisecond).Should(Succeed())
}

func (s *server) upgrade(commands *documented) {
	s.t.Helper()
	s.Expect(s.run(commands.upgradePlan)).To(ContainSubstring(current))
	s.run(commands.upgrade)
	for _, namespace := range providers {
		s.Expect(s.deployment(namespace).Spec.Template.Spec.Containers[0].Image).To(Equal("ghcr.io/appthrust/capt:" + current))
	}
}

// gate returns the file for which the slow run waits.
func (s *server) gate() string { return filepath.Join(s.dir, "gate") }

// startSlowRun creates a workspace and waits until its run is running.
func (s *server) startSlowRun() {
	s.t.Helper()
	slow := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "slow", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	slow.Spec.TemplateRef.Name = "slow"
	s.Eventually(func() error { return s.client.Create(s.ctx, slow) }, testTimeout, time.Second).Should(Succeed())
	s.Eventually(func(g Gomega) {
		g.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(slow), slow)).To(Succeed())
		g.Expect(slow.Status.Run).NotTo(BeNil())
	}, testTimeout, 100*time.Millisecond).Should(Succeed())
}

// expectBlockedMove checks that clusterctl moves nothing while a run is running, and not
// after its end either: the run has created a state that clusterctl does not know.
// clusterctl would give up after six minutes; the test interrupts it.
func (s *server) expectBlockedMove(target *server) {
	s.t.Helper()
	program, err := testenv.Part("clusterctl")
	s.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(program, "move", "-n", "default", "--to-kubeconfig", target.kubeconfig, "-v", "1", "--config", s.config)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+s.dir)
	output := gbytes.NewBuffer()
	cmd.Stdout, cmd.Stderr = output, output
	s.Expect(cmd.Start()).To(Succeed())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	s.Eventually(output, testTimeout).Should(gbytes.Say("Move blocked by clusterctl.cluster.x-k8s.io/block-move annotation.*capt-run-slow-r1"))
	s.Expect(os.WriteFile(s.gate(), nil, 0o600)).To(Succeed())
	run := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "capt-run-slow-r1"}}
	s.Eventually(func(g Gomega) {
		g.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
		g.Expect(run.Data).To(HaveKey("result"))
	}, testTimeout, 200*time.Millisecond).Should(Succeed(), "the run ends while its workspace is paused")
	// clusterctl checks again after 5 seconds, and does not report it.
	s.Consistently(func(g Gomega) {
		var applies infrav1.WorkspaceTemplateApplyList
		g.Expect(target.client.List(s.ctx, &applies)).To(Succeed())
		g.Expect(applies.Items).To(BeEmpty())
	}, 15*time.Second, time.Second).Should(Succeed(), "nothing is moved")

	_ = cmd.Process.Kill()
	var cluster clusterv1.Cluster
	s.Eventually(func() error {
		if err := s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, &cluster); err != nil {
			return err
		}
		cluster.Spec.Paused = nil
		return s.client.Update(s.ctx, &cluster)
	}, testTimeout).Should(Succeed())
	s.waitReady("demo", "demo-vpc", "slow")
	s.Eventually(func(g Gomega) {
		g.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
		g.Expect(run.Annotations).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/block-move"))
	}, testTimeout, 200*time.Millisecond).Should(Succeed())
}

// expectEmpty checks that a move left nothing of the workspaces.
func (s *server) expectEmpty() {
	s.t.Helper()
	var clusters clusterv1.ClusterList
	s.Expect(s.client.List(s.ctx, &clusters)).To(Succeed())
	s.Expect(clusters.Items).To(BeEmpty())
	var applies infrav1.WorkspaceTemplateApplyList
	s.Expect(s.client.List(s.ctx, &applies)).To(Succeed())
	s.Expect(applies.Items).To(BeEmpty())
	var secrets corev1.SecretList
	s.Expect(s.client.List(s.ctx, &secrets, client.InNamespace("default"), client.HasLabels{infrav1.ComponentLabel})).To(Succeed())
	s.Expect(secrets.Items).To(BeEmpty())
}

// expectStates checks that the states arrived.
func (s *server) expectStates(workspaces ...string) {
	s.t.Helper()
	for _, name := range workspaces {
		var apply infrav1.WorkspaceTemplateApply
		s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: name}, &apply)).To(Succeed())
		s.Expect(apply.Status.State).NotTo(BeNil(), name)
		var state corev1.Secret
		s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: apply.Status.State.SecretName}, &state)).To(Succeed())
		s.Expect(state.Data).NotTo(BeEmpty(), name)
	}
}

func (s *server) deleteCluster() {
	s.t.Helper()
	for _, obj := range []client.Object{
		&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "slow"}},
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}},
	} {
		s.Expect(s.client.Delete(s.ctx, obj)).To(Succeed())
		s.Eventually(func() bool {
			return apierrors.IsNotFound(s.client.Get(s.ctx, client.ObjectKeyFromObject(obj), obj))
		}, testTimeout, 500*time.Millisecond).Should(BeTrue(), "%s is deleted", obj.GetName())
	}
}

// deleteProviders removes the providers; the kinds and what exists of them remain.
func (s *server) deleteProviders(c *documented) {
	s.t.Helper()
	kubectl, err := testenv.Part("kubectl")
	s.Expect(err).NotTo(HaveOccurred())
	run := func(command string) string {
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		s.Expect(err).NotTo(HaveOccurred(), string(out))
		return string(out)
	}
	const policies = "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o name"
	s.Expect(run(policies)).To(ContainSubstring("/capt-reserved-secrets"))
	s.run(c.delete)
	s.Expect(run(policies)).NotTo(ContainSubstring("/capt-"))
	s.Expect(run(c.deleteRoles)).To(And(ContainSubstring("capt-manager-role"), ContainSubstring("capt-editor"), ContainSubstring("capt-addon-manager-role")))
	s.Expect(run("kubectl get clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations -o name")).NotTo(ContainSubstring("/capt-"))
	for _, namespace := range providers {
		var list appsv1.DeploymentList
		s.Expect(s.client.List(s.ctx, &list, client.InNamespace(namespace))).To(Succeed())
		s.Expect(list.Items).To(BeEmpty())
	}
	definitions, err := crd.Definitions()
	s.Expect(err).NotTo(HaveOccurred())
	for _, d := range definitions {
		s.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(d), &apiextensionsv1.CustomResourceDefinition{})).To(Succeed(), "%s is kept", d.Name)
	}
	var kept infrav1.WorkspaceTemplateList
	s.Expect(s.client.List(s.ctx, &kept)).To(Succeed())
	s.Expect(kept.Items).NotTo(BeEmpty())
}
