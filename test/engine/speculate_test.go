package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// proposed is a module with another module that it uses, as a pull request has it.
var proposed = map[string]string{
	"modules/greeting/main.tf": `
variable "name" { type = string }
variable "token" {
  type      = string
  sensitive = true
}
module "text" {
  source = "../text"
  name   = var.name
}
resource "terraform_data" "greeting" {
  input = { text = module.text.text, token = var.token }
}
output "greeting" { value = module.text.text }
`,
	"modules/text/main.tf": `
variable "name" { type = string }
output "text" { value = "good morning ${var.name}" }
`,
}

// spyingTofu wraps OpenTofu. It writes its working directory and the mode of the temporary
// directory to a file, and waits for an interrupt if the file hold exists.
const spyingTofu = `#!/bin/sh
top=$(pwd | sed 's#\(captctl-plan-[^/]*\).*#\1#')
echo "$top $(stat -c %a "$top") $*" >> "$DIR/calls"
if [ "$1" = plan ] && [ -e "$DIR/hold" ]; then
  : > "$DIR/reached"
  exec sleep 600
fi
exec TOFU "$@"
`

// writeFiles writes files into a new directory and returns it.
func (w *harness) writeFiles(files map[string]string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		w.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		w.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return dir
}

// tofu returns the path of OpenTofu.
func (w *harness) tofu() string {
	w.t.Helper()
	tofu, err := testenv.Part("tofu")
	w.Expect(err).NotTo(HaveOccurred())
	return tofu
}

// spy returns an OpenTofu that reports its calls to w.control.
func (w *harness) spy() string {
	w.t.Helper()
	w.control = w.t.TempDir()
	script := filepath.Join(w.t.TempDir(), "tofu")
	w.Expect(os.WriteFile(script, []byte(replaceAll(spyingTofu, "TOFU", w.tofu(), "$DIR", w.control)), 0o700)).To(Succeed())
	return script
}

// expectNoTrace expects that the temporary directory was private and is removed.
func (w *harness) expectNoTrace() string {
	w.t.Helper()
	calls, err := os.ReadFile(filepath.Join(w.control, "calls"))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(calls).NotTo(BeEmpty())
	for line := range strings.Lines(string(calls)) {
		fields := strings.Fields(line)
		if fields[2] == "version" {
			continue
		}
		w.Expect(fields[0]).To(ContainSubstring("captctl-plan-"))
		w.Expect(fields[0]).NotTo(BeADirectory())
		w.Expect(fields[1]).To(Equal("700"))
	}
	w.Expect(os.Remove(filepath.Join(w.control, "calls"))).To(Succeed())
	return string(calls)
}

// greetingWithToken creates two workspaces whose variable token comes from a Secret.
func (w *harness) greetingWithToken() {
	w.t.Helper()
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "tokens"}, StringData: map[string]string{"token": "hunter2-hunter2"}})
	w.template("greeting", `
variable "name" { type = string }
variable "token" {
  type      = string
  sensitive = true
}
resource "terraform_data" "greeting" {
  input = { text = "hello ${var.name}", token = var.token }
}
output "greeting" { value = "hello ${var.name}" }
`, func(s *infrav1.WorkspaceSpec) {
		s.ForProvider.Vars = []infrav1.Variable{{Key: "token", SecretKeyReference: &infrav1.KeyReference{Name: "tokens", Key: "token"}}}
	})
	w.apply("one", "greeting", variables(map[string]string{"name": "ada"}))
	w.apply("two", "greeting", variables(map[string]string{"name": "bob"}))
	w.waitReady("one")
	w.waitReady("two")
}

// versions returns the versions of everything that a speculative plan must not change.
func (w *harness) versions(names ...string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, name := range names {
		w.waitLineage(name)
		found["workspace "+name] = w.get(name).ResourceVersion
		found["state "+name] = w.secret("tfstate-default-" + name + "-ws").ResourceVersion
		found["lease "+name] = w.lease(name).ResourceVersion
	}
	for _, name := range w.secrets() {
		found["secret "+name] = w.secret(name).ResourceVersion
	}
	return found
}

func TestSpeculate_plansADirectoryWithoutATrace(t *testing.T) {
	w := newHarness(t)
	w.greetingWithToken()
	tofu := w.spy()
	dir := w.writeFiles(proposed)
	module := filepath.Join(dir, "modules", "greeting")
	before := w.versions("one", "two")

	plan := w.captctl("plan", "one", "--dir", module, "--terraform-binary", tofu)
	w.Expect(plan.code).To(Equal(0), plan.err)
	w.Expect(plan.out).To(And(
		ContainSubstring("Speculative plan of one with the module in "+module),
		ContainSubstring(`"hello ada" -> "good morning ada"`), ContainSubstring("Plan: 0 to add, 1 to change, 0 to destroy."),
	))
	w.Expect(plan.out + plan.err).NotTo(ContainSubstring("hunter2"))
	w.Expect(w.expectNoTrace()).To(ContainSubstring("plan -json -input=false -detailed-exitcode -lock=false"))

	both := w.succeed("plan", "--dir", module, "--template", "greeting", "--terraform-binary", tofu, "-o", "json")
	var plans []struct {
		Workspace string `json:"workspace"`
		Change    int    `json:"change"`
		Details   []any  `json:"details"`
	}
	w.Expect(json.Unmarshal([]byte(both), &plans)).To(Succeed(), both)
	w.Expect(plans).To(HaveLen(2))
	w.Expect(plans[1].Workspace).To(Equal("two"))
	w.Expect(plans[1].Change).To(Equal(1))
	w.Expect(plans[1].Details).NotTo(BeEmpty())
	comment := w.captctl("plan", "--dir", module, "--template", "greeting", "--terraform-binary", tofu, "-o", "markdown", "--detailed-exitcode")
	w.Expect(comment.code).To(Equal(3), comment.err)
	w.Expect(comment.out).To(And(ContainSubstring("### Speculative plan of one: 0 to add, 1 to change, 0 to destroy"), ContainSubstring("### Speculative plan of two"), ContainSubstring("```diff\n")))
	w.Expect(both + comment.out).NotTo(ContainSubstring("hunter2"))
	w.expectNoTrace()

	for _, wrong := range [][]string{
		{"plan", "--dir", module},
		{"plan", "one", "--template", "greeting"},
		{"plan", "one", "--dir", module, "--template", "greeting"},
		{"plan", "one", "--dir", module + "-missing"},
	} {
		w.Expect(w.captctl(wrong...).code).To(Equal(2), strings.Join(wrong, " "))
	}
	w.Expect(w.captctl("plan", "--dir", module, "--template", "greetin").err).To(ContainSubstring(`did you mean "greeting"?`))
	w.Expect(w.versions("one", "two")).To(Equal(before), "nothing is written")
}

func TestSpeculate_evaluatesPoliciesAndProtection(t *testing.T) {
	w := newHarness(t)
	w.greetingWithToken()
	module := filepath.Join(w.writeFiles(proposed), "modules", "greeting")
	w.create(&infrav1.WorkspacePolicy{ObjectMeta: w.meta("polite"), Spec: infrav1.WorkspacePolicySpec{Rules: []infrav1.PolicyRule{{
		Name: "no-mornings", Action: infrav1.PolicyDeny, Expression: `"update" in resource.actions && resource.after.input.text.startsWith("good morning")`, Message: "It is always evening.",
	}}}})
	denied := w.captctl("plan", "one", "--dir", module, "--terraform-binary", w.tofu(), "-o", "markdown")
	w.Expect(denied.code).To(Equal(1))
	w.Expect(denied.out).To(ContainSubstring("- **Deny** `WorkspacePolicy polite, rule no-mornings: It is always evening."))
	w.Expect(denied.err).To(ContainSubstring("one: a policy denies the plan"))

	w.change("two", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Protect = []infrav1.ProtectPattern{"terraform_data"} })
	w.waitReady("two")
	empty := w.writeFiles(map[string]string{"main.tf": "variable \"name\" {}\nvariable \"token\" {}\n"})
	blocked := w.captctl("plan", "two", "--dir", empty, "--terraform-binary", w.tofu())
	w.Expect(blocked.code).To(Equal(1))
	w.Expect(blocked.err).To(ContainSubstring("two: the plan would destroy or replace protected resources"))
	w.Expect(blocked.out).To(ContainSubstring("0 to add, 0 to change, 1 to destroy"))

	broken := w.captctl("plan", "two", "--dir", w.writeFiles(map[string]string{"main.tf": `variable "nam" {}`}), "--terraform-binary", w.tofu(), "-o", "markdown")
	w.Expect(broken.code).To(Equal(1))
	w.Expect(broken.out).To(And(ContainSubstring("### Speculative plan of two failed"), ContainSubstring(`did you mean "nam"?`)))
}

func TestSpeculate_removesTheStateWhenItIsInterrupted(t *testing.T) {
	w := newHarness(t)
	w.greetingWithToken()
	tofu := w.spy()
	w.Expect(os.WriteFile(filepath.Join(w.control, "hold"), nil, 0o600)).To(Succeed())
	module := filepath.Join(w.writeFiles(proposed), "modules", "greeting")
	ctx, interrupt := context.WithCancel(w.ctx)
	defer interrupt()
	ended := make(chan result, 1)
	go func() {
		ended <- w.captctlIn(ctx, "plan", "one", "--dir", module, "--terraform-binary", tofu)
	}()
	w.Eventually(filepath.Join(w.control, "reached"), testTimeout).Should(BeAnExistingFile())
	interrupt()
	var last result
	w.Eventually(ended, testTimeout).Should(Receive(&last))
	w.Expect(last.code).To(Equal(130), last.err)
	w.expectNoTrace()
}

func TestSpeculate_needsTheRightsOfTheUser(t *testing.T) {
	w := newHarness(t)
	w.greetingWithToken()
	module := filepath.Join(w.writeFiles(proposed), "modules", "greeting")
	user := w.namespace + "-ci"
	grant := func(secrets ...string) {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "ci-"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: secrets},
		}}
		w.create(role)
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "ci-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	// ClusterWorkspacePolicies are not in the namespace.
	cluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "ci-"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"clusterworkspacepolicies"}, Verbs: []string{"list"}}}}
	w.create(cluster)
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ci-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	runs := func() (names []string) {
		for _, name := range w.secrets() {
			if strings.HasPrefix(name, "capt-run-") {
				names = append(names, name)
			}
		}
		return names
	}()
	plan := func() result {
		return w.captctl("plan", "one", "--dir", module, "--terraform-binary", w.tofu(), "--as", user)
	}

	w.Expect(plan().err).To(MatchRegexp(`forbidden: User "%s" cannot`, user))
	grant(runs...)
	w.Eventually(func() string { return plan().err }, testTimeout).Should(And(
		ContainSubstring(`reading a Secret with values or credentials of one: secrets "tokens" is forbidden`), ContainSubstring("request that permission")))
	grant("tokens")
	w.Eventually(func() string { return plan().err }, testTimeout).Should(And(
		ContainSubstring(`reading the state of one: secrets "tfstate-default-one-ws" is forbidden`), ContainSubstring("request that permission")))
	grant("tfstate-default-one-ws")
	w.Eventually(func() int { return plan().code }, testTimeout).Should(Equal(0), "reading is enough")
}
