package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// guarded has secrets that only the workspace knows to be secret, and short ones.
const guarded = `
variable "pin" { type = string }
variable "number" { type = number }
variable "token" {
  type      = string
  sensitive = true
}
resource "terraform_data" "user" {
  input = { name = "world", pin = var.pin, login = "app-${var.pin}", number = var.number, token = var.token, code = "k8w" }
}
output "login" { value = "https://app:${var.pin}@example.com" }
`

// viewer returns the path of a kubeconfig of a user with the shipped role capt-viewer.
func (w *harness) viewer() string {
	w.t.Helper()
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "config", "rbac", "users", "viewer.yaml"))
	w.Expect(err).NotTo(HaveOccurred())
	shipped := &rbacv1.ClusterRole{}
	w.Expect(yaml.Unmarshal(text, shipped)).To(Succeed())
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "viewer"}})
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "viewer"}, Rules: shipped.Rules})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: "viewer"}},
	})
	w.Eventually(func() error {
		return env.Allows(w.ctx, "system:serviceaccount:"+w.namespace+":viewer", authorizationv1.ResourceAttributes{
			Namespace: w.namespace, Verb: "get", Group: infrav1.GroupVersion.Group, Resource: "workspaceplans",
		})
	}, testTimeout).Should(Succeed())
	token, err := env.Token(w.ctx, w.namespace, "viewer")
	w.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(w.t.TempDir(), "viewer.kubeconfig")
	w.Expect(env.WriteKubeconfig(path, token)).To(Succeed())
	return path
}

// runViews returns the WorkspaceRuns of the namespace.
func (w *harness) runViews() []infrav1.WorkspaceRun {
	w.t.Helper()
	var list infrav1.WorkspaceRunList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// planViews returns the WorkspacePlans of the namespace.
func (w *harness) planViews() []infrav1.WorkspacePlan {
	w.t.Helper()
	var list infrav1.WorkspacePlanList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

func TestViews_showPlansAndRunsWithoutSecrets(t *testing.T) {
	w := newHarness(t)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vars"}, StringData: map[string]string{
		"x": "pin = \"q7z\"\nnumber = 917\ntoken = \"tok\"\n", "code": "k8w",
	}})
	w.template("guarded", guarded, func(s *infrav1.WorkspaceSpec) {
		s.ForProvider.VarFiles = []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &infrav1.KeyReference{Name: "vars", Key: "x"}}}
		s.ForProvider.Env = []infrav1.EnvVar{{Name: "CODE", SecretKeyReference: &infrav1.KeyReference{Name: "vars", Key: "code"}}}
	})
	w.apply("hello", "guarded", manual)
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)

	plan := w.get("hello").Status.Plan
	views := w.planViews()
	w.Expect(views).To(HaveLen(1))
	w.Expect(views[0].Name).To(Equal(plan.Run))
	w.Expect(views[0].Spec.Plan).To(Equal(plan.ID))
	text, err := json.Marshal(views[0].Spec.Changes)
	w.Expect(err).NotTo(HaveOccurred())
	shown := w.captctl("show", "plan", "hello", "--kubeconfig", w.viewer())
	w.Expect(shown.code).To(Equal(0), shown.err)
	for _, output := range []string{string(text), shown.out} {
		w.Expect(output).To(And(ContainSubstring("world"), ContainSubstring("app-(sensitive value)"), ContainSubstring("login")))
		for _, secret := range []string{"q7z", "917", "tok\"", "k8w"} {
			w.Expect(output).NotTo(ContainSubstring(secret))
		}
	}

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan.ID })
	history := w.waitReady("hello").Status.History
	w.Expect(history).To(HaveLen(2))
	for i, view := range w.runViews() {
		w.Expect(view.Spec.Workspace).To(Equal("hello"))
		w.Expect(view.Spec.RunRecord).To(Equal(history[len(history)-1-i]))
	}
	w.Expect(w.runViews()).To(HaveLen(2))

	w.destroy("hello")
	w.Eventually(w.runViews, testTimeout).Should(BeEmpty(), "the garbage collector deletes them with the Secrets of the runs")
	w.Eventually(w.planViews, testTimeout).Should(BeEmpty())
}

func TestViews_showADestroyPlanDuringAForegroundDeletion(t *testing.T) {
	w := newHarness(t)
	w.hello("greeting", greeting, manualDestroy, variables(map[string]string{"name": "world"}))
	foreground := metav1.DeletePropagationForeground
	w.Expect(env.Client.Delete(w.ctx, w.get("hello"), &client.DeleteOptions{PropagationPolicy: &foreground})).To(Succeed())
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.captctl("show", "plan", "hello").out).To(ContainSubstring(`"hello world" -> null`))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
	w.waitDeleted("hello")
	w.Eventually(w.planViews, testTimeout).Should(BeEmpty())
}
