package engine

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const typed = `
variable "name" { type = string }
variable "zones" {
  type    = list(string)
  default = []
}
variable "tags" {
  type    = map(string)
  default = {}
}
variable "size" {
  type    = number
  default = 1
}
output "all" { value = jsonencode({ name = var.name, zones = var.zones, tags = var.tags, size = var.size }) }
`

func value(v any) infrav1.Value {
	out, err := infrav1.NewValue(v)
	if err != nil {
		panic(err)
	}
	return out
}

func TestInputs_invalidOnesAreReportedWithoutARun(t *testing.T) {
	w := newHarness(t)
	w.template("typed", typed)
	w.template("broken", `resource "terraform_data" {`)
	w.template("placeholder", greeting, func(s *infrav1.WorkspaceSpec) {
		s.ForProvider.Vars = []infrav1.Variable{{Key: "name", Value: infrav1.StringValue("${WORKSPACE_NAME}-${region}")}}
	})
	tests := []struct {
		name, template, reason string
		variables              map[string]infrav1.Value
		outputs                []string
		message                []string
	}{
		{"missing", "typed", infrav1.MissingVariableReason, nil, nil, []string{`"name"`, "required"}},
		{"unknown", "typed", infrav1.UnknownVariableReason, map[string]infrav1.Value{"name": value("x"), "zone": value("a")}, nil, []string{`"zone"`, "zones"}},
		{"wrong-type", "typed", infrav1.InvalidVariableReason, map[string]infrav1.Value{"name": value("x"), "size": value("large")}, nil, []string{`"size"`, "number"}},
		{"no-output", "typed", infrav1.UnknownOutputReason, map[string]infrav1.Value{"name": value("x")}, []string{"al"}, []string{`"al"`, "all"}},
		{"no-parse", "broken", infrav1.ModuleInvalidReason, nil, nil, []string{"main.tf:1"}},
		{"no-value", "placeholder", infrav1.UnresolvedPlaceholderReason, nil, nil, []string{"${region}", "vars[0]", "spec.variables"}},
	}
	for _, tt := range tests {
		w.apply(tt.name, tt.template, func(s *infrav1.WorkspaceTemplateApplySpec) { s.Variables, s.RequiredOutputs = tt.variables, tt.outputs })
	}
	for _, tt := range tests {
		c := w.waitReason(tt.name, infrav1.InputsValidCondition, tt.reason)
		for _, part := range tt.message {
			w.Expect(c.Message).To(ContainSubstring(part), tt.name)
		}
		w.Expect(w.get(tt.name).Status.Runs).To(BeZero(), "%s: nothing runs", tt.name)
	}
	w.change("missing", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = map[string]infrav1.Value{"name": value("x")}
	})
	w.waitReady("missing")
}

func TestInputs_valuesArriveIntact(t *testing.T) {
	w := newHarness(t)
	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello-vars"},
		Data:       map[string]string{"x.tfvars": "size = 7\nzones = [\"from\", \"file\"]\nname = \"${WORKSPACE_NAME} in ${place}\"\n"},
	})
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vars"},
		StringData: map[string]string{"x.json": `{"tags": {"from": "secret"}}`},
	})
	w.template("typed", typed, func(s *infrav1.WorkspaceSpec) {
		s.ForProvider.VarFiles = []infrav1.VarFile{
			{Source: infrav1.VarFileSourceConfigMapKey, ConfigMapKeyReference: &infrav1.KeyReference{Name: "${WORKSPACE_NAME}-vars", Key: "x.tfvars"}},
			{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &infrav1.KeyReference{Name: "vars", Key: "x.json"}, Format: infrav1.FileFormatJSON},
		}
		s.ForProvider.Vars = []infrav1.Variable{{Key: "zones", Value: value([]string{`a "quoted", {x}`, "${place}", "$${literal} %{"})}}
	})
	w.apply("hello", "typed", func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Variables = map[string]infrav1.Value{"place": value("tokyo")}
	})
	a := w.waitReady("hello")
	w.Expect(a.Status.Outputs["all"].String()).To(MatchJSON(
		`{"name":"hello in tokyo","size":7,"tags":{"from":"secret"},"zones":["a \"quoted\", {x}","tokyo","${literal} %{"]}`))
}

func TestWaits_endWhenTheObjectAppears(t *testing.T) {
	w := newHarness(t)
	w.apply("hello", "late", variables(map[string]string{"name": "world"}), func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.WaitForSecrets = []infrav1.ObjectReference{{Name: "gate"}}
		s.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "first"}}
	})
	w.Expect(w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForTemplateReason).Message).To(ContainSubstring("late"))

	w.template("late", greeting, func(s *infrav1.WorkspaceSpec) {
		s.ProviderConfigRef = &infrav1.LocalReference{Name: "late"}
		s.ForProvider.VarFiles = []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &infrav1.KeyReference{Name: "late", Key: "x"}}}
	})
	w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForProviderConfigReason)
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("late")})
	w.Expect(w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForSecretReason).Message).To(ContainSubstring("late"))
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "late"}, StringData: map[string]string{"x": ""}})
	w.Expect(w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForWorkspaceReason).Message).To(ContainSubstring("first"))
	w.template("plain", `output "x" { value = 1 }`)
	w.apply("first", "plain")
	w.waitReady("first")
	w.Expect(w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForSecretReason).Message).To(ContainSubstring("gate"))
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "gate"}})
	w.waitReady("hello")
}

func TestWaits_reportCycles(t *testing.T) {
	w := newHarness(t)
	w.template("plain", `output "x" { value = 1 }`)
	waitFor := func(name string) func(*infrav1.WorkspaceTemplateApplySpec) {
		return func(s *infrav1.WorkspaceTemplateApplySpec) {
			s.WaitForWorkspaces = []infrav1.ObjectReference{{Name: name}}
		}
	}
	w.apply("a", "plain", waitFor("b"))
	w.apply("b", "plain", waitFor("c"))
	w.apply("c", "plain", waitFor("a"))
	c := w.waitReason("c", infrav1.DependenciesReadyCondition, infrav1.DependencyCycleReason)
	w.Expect(c.Message).To(ContainSubstring("c → a → b → c"))
}

func TestModule_remoteFromAPathAndFromGit(t *testing.T) {
	w := newHarness(t)
	module := filepath.Join(w.dir, "repo", "modules", "typed")
	w.Expect(os.MkdirAll(module, 0o755)).To(Succeed())
	w.Expect(os.WriteFile(filepath.Join(module, "main.tf"), []byte(typed), 0o600)).To(Succeed())
	w.git(filepath.Join(w.dir, "repo"), "init", "-q", "-b", "main")
	w.git(filepath.Join(w.dir, "repo"), "add", ".")
	w.git(filepath.Join(w.dir, "repo"), "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x")

	remote := func(address, entrypoint string) func(*infrav1.WorkspaceSpec) {
		return func(s *infrav1.WorkspaceSpec) {
			s.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceRemote, Module: address, Entrypoint: entrypoint}
		}
	}
	w.template("path", "", remote(module, ""))
	w.template("git", "", remote("git::file://"+w.dir+"/repo", "modules/typed"))
	for _, name := range []string{"path", "git"} {
		w.apply(name, name, func(s *infrav1.WorkspaceTemplateApplySpec) {
			s.Variables = map[string]infrav1.Value{"name": value("x"), "zones": value([]string{"a"})}
		})
	}
	for _, name := range []string{"path", "git"} {
		w.Expect(w.waitReady(name).Status.Outputs["all"].String()).To(MatchJSON(`{"name":"x","size":1,"tags":{},"zones":["a"]}`))
	}
	w.apply("wrong", "git", func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Variables = map[string]infrav1.Value{"nam": value("x")}
	})
	c := w.waitReason("wrong", infrav1.AppliedCondition, infrav1.UnknownVariableReason)
	w.Expect(c.Message).To(ContainSubstring(`no variable "nam"`))
	w.Expect(c.Message).To(ContainSubstring(`"name" is required`))
	w.destroy("git")
}

func TestInputs_giveEachWorkspaceItsRoleAndRegion(t *testing.T) {
	w := newHarness(t)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "accounts"},
		StringData: map[string]string{"config": "[profile team-a]\nrole_arn = arn:aws:iam::111122223333:role/a\n[profile team-b]\nrole_arn = arn:aws:iam::444455556666:role/b\n"},
	})
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("accounts"), Spec: infrav1.WorkspaceProviderConfigSpec{
		Credentials: []infrav1.ProviderCredential{{Filename: "accounts.ini", SecretRef: infrav1.KeyReference{Name: "accounts", Key: "config"}}},
	}})
	// The program sees what the SDK in a provider would see.
	w.template("network", `
resource "terraform_data" "network" {
  triggers_replace = timestamp()
  provisioner "local-exec" {
    command = "echo \"$AWS_REGION $(grep -A1 \"profile $AWS_PROFILE\" \"$AWS_CONFIG_FILE\" | tail -1)\" > `+w.dir+`/$AWS_PROFILE"
  }
}
`, func(s *infrav1.WorkspaceSpec) {
		s.ProviderConfigRef = &infrav1.LocalReference{Name: "accounts"}
		for name, value := range map[string]string{"AWS_REGION": "${region}", "AWS_PROFILE": "${account}", "AWS_CONFIG_FILE": "accounts.ini"} {
			s.ForProvider.Env = append(s.ForProvider.Env, infrav1.EnvVar{Name: name, Value: &value})
		}
	})
	w.apply("a", "network", variables(map[string]string{"region": "eu-central-1", "account": "team-a"}))
	w.apply("b", "network", variables(map[string]string{"region": "us-east-2", "account": "team-b"}))
	before := w.waitReady("a")
	w.waitReady("b")
	w.Expect(w.file("team-a")).To(Equal("eu-central-1 role_arn = arn:aws:iam::111122223333:role/a"))
	w.Expect(w.file("team-b")).To(Equal("us-east-2 role_arn = arn:aws:iam::444455556666:role/b"))

	w.change("a", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["region"] = infrav1.StringValue("eu-west-1") })
	w.Eventually(func() string { return w.file("team-a") }, testTimeout).Should(HavePrefix("eu-west-1 "), "a changed region is a changed input")
	w.Expect(w.waitReady("a").Status.AppliedInputs).NotTo(Equal(before.Status.AppliedInputs))
}
