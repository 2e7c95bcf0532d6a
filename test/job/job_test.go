// Package job tests the manager with runs as Jobs on a real node.
package job

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/testenv/waits"
	"github.com/appthrust/capt/internal/version"
)

const testTimeout = waits.Timeout

// image is the runner's image, which "make test-job" builds.
var image = "ghcr.io/appthrust/capt-runner:" + version.Version()

const module = `
variable "name" { type = string }
resource "terraform_data" "greeting" { input = "hello ${var.name}" }
output "greeting" { value = terraform_data.greeting.output }
`

// harness is a namespace with a manager that runs Jobs in it.
type harness struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	env       *testenv.Environment
	namespace string
	manager   *testenv.Manager
}

// newHarness starts a manager, with further arguments.
func newHarness(t *testing.T, args ...string) *harness {
	t.Helper()
	testenv.NeedsNode(t)
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), env: testenv.New(t, testenv.WithNode())}
	archive := filepath.Join("images", "capt-runner_linux_"+goruntime.GOARCH+".tar")
	h.Expect(h.env.Node().ImportImage(h.found(testenv.Built(archive)))).To(Succeed())
	h.namespace = h.env.Namespace(t)
	h.startManager(args...)
	return h
}

func (h *harness) found(path string, err error) string {
	h.t.Helper()
	h.Expect(err).NotTo(HaveOccurred())
	return path
}

// startManager runs the manager with its permissions in a cluster.
func (h *harness) startManager(args ...string) {
	h.t.Helper()
	h.manager = &testenv.Manager{Kubeconfig: h.kubeconfig(), WorkDir: h.t.TempDir(), Args: append([]string{
		"--namespace=" + h.namespace, "--executor=job", "--runner-image=" + image,
	}, args...)}
	h.Expect(h.manager.Start()).To(Succeed())
	h.t.Cleanup(func() {
		_ = h.manager.Stop(syscall.SIGTERM)
		if h.t.Failed() {
			text, _ := os.ReadFile(h.manager.Log())
			h.t.Logf("manager:\n%s", text)
		}
	})
}

// kubeconfig returns the kubeconfig of an account that has only the manager's role.
func (h *harness) kubeconfig() string {
	h.t.Helper()
	root := h.found(testenv.Root())
	text, err := os.ReadFile(filepath.Join(root, "config", "rbac", "role.yaml"))
	h.Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	h.Expect(yaml.UnmarshalStrict(text, role)).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "manager"}}
	h.create(role, account, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: account.Name}},
	})
	path := filepath.Join(h.t.TempDir(), "kubeconfig")
	h.Expect(h.env.WriteKubeconfig(path, h.found(h.env.Token(h.ctx, h.namespace, account.Name)))).To(Succeed())
	return path
}

func (h *harness) create(objs ...client.Object) {
	h.t.Helper()
	for _, obj := range objs {
		if namespaced, err := h.env.Client.IsObjectNamespaced(obj); err == nil && namespaced {
			obj.SetNamespace(h.namespace)
		}
		h.Expect(h.env.Client.Create(h.ctx, obj)).To(Succeed())
	}
}

func (h *harness) get(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, apply)).To(Succeed())
	return apply
}

// waitMessage waits until the status, reason and message of a condition match.
func (h *harness) waitMessage(name, kind string, matcher OmegaMatcher) {
	h.t.Helper()
	h.Eventually(func() string {
		return objecttest.Text(objecttest.Condition(h.get(name), kind))
	}, testTimeout, 50*time.Millisecond).Should(matcher)
}

func apply(name string, change ...func(*infrav1.WorkspaceTemplateApplySpec)) *infrav1.WorkspaceTemplateApply {
	a := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.TemplateReference{Name: "greeting"},
			Variables:   map[string]infrav1.Value{"name": infrav1.StringValue("node")},
		},
	}
	for _, c := range change {
		c(&a.Spec)
	}
	return a
}

func TestManager_runsJobs(t *testing.T) {
	h := newHarness(t)
	spec := infrav1.WorkspaceSpec{ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}}
	lost := spec
	lost.ProviderConfigRef = &infrav1.LocalReference{Name: "lost"}
	h.create(
		&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}}},
		&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: lost}}},
		&infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: infrav1.WorkspaceProviderConfigSpec{Runner: &infrav1.RunnerConfig{Image: "capt.test/missing:1"}}},
	)
	started := time.Now()
	h.create(apply("hello"))
	h.waitMessage("hello", infrav1.ReadyCondition, HavePrefix("True"))
	t.Logf("ready after %s", time.Since(started).Round(10*time.Millisecond))
	output := h.get("hello").Status.Outputs["greeting"]
	h.Expect(output.String()).To(Equal("hello node"))
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty(), "finished runs leave no pod and no service account")

	h.create(apply("waits", func(s *infrav1.WorkspaceTemplateApplySpec) { s.TemplateRef.Name = "lost" }))
	h.waitMessage("waits", infrav1.AppliedCondition, And(ContainSubstring("ImagePull"), ContainSubstring("capt.test/missing:1")))

	for _, name := range []string{"hello", "waits"} {
		h.Expect(h.env.Client.Delete(h.ctx, h.get(name))).To(Succeed())
	}
	h.Eventually(func() bool {
		return apierrors.IsNotFound(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: "hello"}, &infrav1.WorkspaceTemplateApply{}))
	}, testTimeout, 50*time.Millisecond).Should(BeTrue(), "everything is destroyed")
}

// settingsModule uses the settings of its pod.
const settingsModule = `
resource "terraform_data" "region" {
  provisioner "local-exec" { command = "test \"$AWS_REGION\" = eu-central-1 && ! touch /etc/greeting/file" }
}
output "greeting" { value = trimspace(file("/etc/greeting/text")) }
`

func TestManager_runsJobsWithPodSettings(t *testing.T) {
	h := newHarness(t)
	spec := infrav1.WorkspaceSpec{
		ForProvider:       infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: settingsModule},
		ProviderConfigRef: &infrav1.LocalReference{Name: "settings"},
	}
	h.create(
		&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Data: map[string]string{"text": "hello volume"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "runs"}, Value: 1000},
		&infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Spec: infrav1.WorkspaceProviderConfigSpec{Runner: &infrav1.RunnerConfig{
			PriorityClassName: "runs", PodLabels: map[string]string{"team": "a"}, ImagePullPolicy: corev1.PullNever,
			Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
			},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{goruntime.GOARCH}}}}},
			}}},
			Env:          []infrav1.RunnerEnvVar{{Name: "AWS_REGION", Value: "eu-central-1"}},
			Volumes:      []infrav1.RunnerVolume{{Name: "greeting", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "greeting"}}}},
			VolumeMounts: []infrav1.RunnerVolumeMount{{Name: "greeting", MountPath: "/etc/greeting", ReadOnly: true}},
		}}},
	)
	h.create(apply("settings", func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.TemplateRef.Name, s.Variables = "settings", nil
	}))
	var pod corev1.Pod
	h.Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(h.env.Client.List(h.ctx, &pods, client.InNamespace(h.namespace), client.MatchingLabels{"team": "a"})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		pod = pods.Items[0]
	}, testTimeout, 20*time.Millisecond).Should(Succeed())
	h.Expect(pod.Spec.Priority).To(HaveValue(BeEquivalentTo(1000)))
	h.waitMessage("settings", infrav1.ReadyCondition, HavePrefix("True"))
	output := h.get("settings").Status.Outputs["greeting"]
	h.Expect(output.String()).To(Equal("hello volume"))
}

// leftovers returns the objects that runs have left in the namespace.
func (h *harness) leftovers() []string {
	var left []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		h.Expect(h.env.Client.List(h.ctx, list, client.InNamespace(h.namespace))).To(Succeed())
		h.Expect(meta.EachListItem(list, func(obj runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", obj, obj.(client.Object).GetName()))
			return nil
		})).To(Succeed())
	}
	return left
}
