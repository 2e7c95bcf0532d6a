package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/canary"
)

// careless is a module that prints its secrets, and has them in errors. "loose" comes from a Secret, but is not declared as sensitive. "generated" is
// known only to the module.
const careless = `
terraform {
  required_providers { local = { source = "hashicorp/local" } }
}
variable "dir" { type = string }
variable "token" {
  type      = string
  sensitive = true
}
variable "nested" {
  type      = object({ user = string, logins = list(object({ password = string })) })
  sensitive = true
}
variable "loose" { type = string }
locals {
  generated = sensitive(file("${var.dir}/generated"))
  failing   = !fileexists("${var.dir}/open")
}
resource "terraform_data" "user" {
  input            = { token = var.token, nested = var.nested, generated = local.generated, address = "https://admin:${var.loose}@db" }
  triggers_replace = var.dir
  provisioner "local-exec" { command = "sh ${var.dir}/print.sh; test -e ${var.dir}/open" }
  provisioner "local-exec" {
    when    = destroy
    command = "sh ${self.triggers_replace}/print.sh"
  }
}
resource "local_file" "drifts" {
  filename = "${var.dir}/drifts"
  content  = "password = ${var.loose}"
}
# The error of the provider has the name of the file.
resource "local_file" "denied" {
  filename = local.failing ? "${var.dir}/${local.generated}" : "${var.dir}/allowed"
  content  = "x"
}
check "loose" {
  assert {
    condition     = !local.failing
    error_message = "The password ${var.loose} is refused."
  }
}
output "token" {
  value     = var.token
  sensitive = true
}
output "generated" {
  value     = local.generated
  sensitive = true
}
output "address" {
  value     = "https://admin:${var.loose}@db"
  sensitive = true
}
output "region" { value = "eu-central-1" }
`

// echo is a server that refuses all requests, and answers with what they contain.
func echo(t *testing.T) *httptest.Server {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "refused: %s %v %s", r.URL, r.Header, body)
	}))
	t.Cleanup(server.Close)
	return server
}

// Secrets of every kind go through runs that succeed, fail, wait for approval, look for
// drift and destroy. They are in no other place than Secrets.
func TestCanary_noSecretIsAnywhereElse(t *testing.T) {
	w := prepareWithManager(t, "-v=5")
	w.Env = []string{"TF_CLI_CONFIG_FILE=" + w.mirror()}
	c := w.plant()
	w.Expect(w.Start()).To(Succeed())
	var arguments canary.Arguments
	arguments.Follow(t)

	w.carelessObjects(c)
	var shown []string
	show := func(args ...string) {
		r := w.captctl(args...)
		shown = append(shown, strings.Join(args, " ")+":\n"+r.out+r.err)
	}
	w.waitReason("auto", infrav1.AppliedCondition, infrav1.RetryingReason)
	w.waitReason("manual", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	for _, o := range []string{"text", "markdown", "json"} {
		show("show", "plan", "manual", "-o", o)
	}
	w.searchAll(c, "after failures")

	w.touch("open")
	a := w.waitReady("auto")
	w.Expect(string(w.secret("auto-connection").Data["address"])).To(ContainSubstring(c.Value("loose")), "the Secret has all outputs")
	w.Expect(a.Status.Outputs).To(HaveKey("region"))
	w.waitReady("encrypted")
	// The first plan contains what fails.
	first := w.get("manual").Status.Plan.ID
	w.decide("manual", first, infrav1.DecisionReject)
	w.waitReason("manual", infrav1.AppliedCondition, infrav1.PlanRejectedReason)
	w.requestRun("manual")
	w.Eventually(func() string { return w.get("manual").Status.Plan.ID }, testTimeout).ShouldNot(Equal(first))
	w.waitReason("manual", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.change("manual", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
	w.waitReady("manual")
	w.Expect(os.WriteFile(filepath.Join(w.dir, "drifts"), []byte("other"), 0o600)).To(Succeed())
	w.Eventually(func() *infrav1.DriftStatus { return w.get("auto").Status.Drift }, testTimeout).Should(HaveField("Resources", Not(BeEmpty())))

	// A passphrase that does not fit, and inputs that no module takes.
	w.setSecret("inputs", "passphrase", c.Value("other passphrase"))
	w.requestRun("encrypted")
	w.Eventually(func() *infrav1.FailureStatus { return w.get("encrypted").Status.Failure }, testTimeout).ShouldNot(BeNil())
	w.waitReason("mistyped", infrav1.InputsValidCondition, infrav1.InvalidVariableReason)
	w.waitReason("garbled", infrav1.InputsValidCondition, infrav1.InvalidVarFileReason)
	for _, name := range []string{"fetched", "stored"} {
		w.Eventually(func() *infrav1.FailureStatus { return w.get(name).Status.Failure }, testTimeout).ShouldNot(BeNil(), name)
	}
	for _, name := range []string{"auto", "manual", "encrypted", "fetched", "stored", "mistyped", "garbled"} {
		show("logs", name)
		show("history", name)
		show("describe", "workspace", name)
	}
	show("describe")
	w.searchAll(c, "before deletion")

	w.delete("auto")
	w.waitReason("auto", infrav1.DestroyedCondition, infrav1.WaitingForApprovalReason)
	show("show", "plan", "auto")
	w.searchAll(c, "with a plan to destroy")
	w.change("auto", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
	w.waitDeleted("auto")
	w.searchAll(c, "after deletion")

	text, err := w.Metrics(t.Context())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(text)).To(ContainSubstring("capt_run"))
	for place, text := range map[string][]byte{"metrics": text, "process arguments": arguments.Text(), "captctl": []byte(strings.Join(shown, "\n"))} {
		if found := c.Find(text); len(found) > 0 {
			t.Errorf("%s: %s", place, strings.Join(found, "; "))
		}
	}
	w.Expect(arguments.Text()).To(ContainSubstring("apply -json"), "the arguments of the tool were seen")
}

func freeAddress(t *testing.T) string {
	address, err := testenv.FreeAddress()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return address
}

// plant creates the secrets, and the script and files of the module.
func (w *harness) plant() *canary.Set {
	w.t.Helper()
	c := canary.New()
	for _, kind := range []string{"token", "nested", "loose", "env", "passphrase", "other passphrase"} {
		c.Plant(kind, canary.Special)
	}
	for _, kind := range []string{"file", "token file", "generated", "module password", "backend password", "notification token", "notification address", "signing key"} {
		c.Plant(kind, "")
	}
	// All tokens of service accounts start with the same header.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "canary"}}
	w.create(account)
	request := &authenticationv1.TokenRequest{}
	w.Expect(env.Client.SubResource("token").Create(w.ctx, account, request)).To(Succeed())
	header, _, _ := strings.Cut(request.Status.Token, ".")
	c.Add("token of a service account", header)
	for name, secret := range managerSecrets(w) {
		c.Add("the manager's "+name, secret)
	}

	// What the module itself has in files.
	w.Expect(os.WriteFile(filepath.Join(w.dir, "generated"), []byte(c.Value("generated")), 0o600)).To(Succeed())
	w.Expect(os.Mkdir(filepath.Join(w.dir, c.Value("generated")), 0o700)).To(Succeed())
	var printed []string
	for _, kind := range []string{"token", "nested", "loose", "env", "file", "token file"} {
		printed = append(printed, canary.Printed(c.Value(kind))...)
	}
	w.Expect(os.WriteFile(filepath.Join(w.dir, "printed"), []byte(strings.Join(printed, "\n")+"\n"), 0o600)).To(Succeed())
	w.Expect(os.WriteFile(filepath.Join(w.dir, "print.sh"), []byte("cd "+w.dir+`
cat printed
cat printed >&2
env
env | base64
cat "$OLDPWD"/credentials.ini "$OLDPWD"/token | base64 >&2
`), 0o600)).To(Succeed())
	return c
}

func (w *harness) setSecret(name, key, value string) {
	w.t.Helper()
	s := w.secret(name)
	s.Data[key] = []byte(value)
	w.Expect(env.Client.Update(w.ctx, s)).To(Succeed())
}

// carelessObjects creates the workspaces, and the Secrets that they use.
func (w *harness) carelessObjects(c *canary.Set) {
	w.t.Helper()
	server := echo(w.t)
	values, err := json.Marshal(map[string]any{
		"token": c.Value("token"), "nested": map[string]any{"user": "admin", "logins": []any{map[string]string{"password": c.Value("nested")}}},
	})
	w.Expect(err).NotTo(HaveOccurred())
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "inputs"}, StringData: map[string]string{
		"vars": string(values), "loose": c.Value("loose"), "env": c.Value("env"), "tokenfile": c.Value("token file"), "passphrase": c.Value("passphrase"),
		"garbled": "token = \"" + c.Value("token") + "\nx = " + c.Value("nested"),
		"file":    "[default]\naws_secret_access_key = " + c.Value("file") + "\nregion = eu-central-1\n",
		"backend": c.Value("backend password"),
	}})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "git"}, StringData: map[string]string{"username": "git", "password": c.Value("module password")}})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "chat"}, StringData: map[string]string{
		infrav1.NotificationAddressKey: server.URL + "/" + c.Value("notification address"), infrav1.NotificationTokenKey: c.Value("notification token"), infrav1.NotificationSigningKey: c.Value("signing key"),
	}})
	w.create(&infrav1.WorkspaceNotification{ObjectMeta: w.meta("chat"), Spec: infrav1.WorkspaceNotificationSpec{SecretRef: infrav1.LocalReference{Name: "chat"}}})

	key := func(name string) infrav1.KeyReference { return infrav1.KeyReference{Name: "inputs", Key: name} }
	credentials := []infrav1.ProviderCredential{
		{Filename: "credentials.ini", SecretRef: key("file")},
		{Filename: "token", SecretRef: key("tokenfile")},
		{Env: "API_KEY", SecretRef: key("env")},
	}
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("plain"), Spec: infrav1.WorkspaceProviderConfigSpec{Credentials: credentials}})
	passphrase := key("passphrase")
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("encrypted"), Spec: infrav1.WorkspaceProviderConfigSpec{
		Credentials: credentials, StateEncryption: &infrav1.StateEncryption{PassphraseSecretRef: &passphrase},
	}})
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("stored"), Spec: infrav1.WorkspaceProviderConfigSpec{
		Credentials: append(credentials, infrav1.ProviderCredential{Env: "TF_HTTP_PASSWORD", SecretRef: key("backend")}),
		Backend:     &infrav1.BackendConfig{Type: "http", Configuration: fmt.Sprintf("address = \"%s/state\"\nusername = \"capt\"\nretry_max = 0\nskip_cert_verification = true\n", server.URL)},
	}})

	inputs := func(s *infrav1.WorkspaceSpec) {
		vars, loose, envKey := key("vars"), key("loose"), key("env")
		s.ProviderConfigRef = &infrav1.LocalReference{Name: "plain"}
		s.ForProvider.VarFiles = []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &vars, Format: infrav1.FileFormatJSON}}
		s.ForProvider.Vars = []infrav1.Variable{{Key: "loose", SecretKeyReference: &loose}}
		s.ForProvider.Env = []infrav1.EnvVar{{Name: "PASSWORD", SecretKeyReference: &envKey}}
	}
	config := func(name string) func(*infrav1.WorkspaceSpec) {
		return func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: name} }
	}
	w.template("careless", careless, inputs)
	w.template("encrypted", careless, inputs, config("encrypted"))
	w.template("stored", careless, inputs, config("stored"))
	w.template("mistyped", `variable "loose" { type = number }`, func(s *infrav1.WorkspaceSpec) {
		loose := key("loose")
		s.ForProvider.Vars = []infrav1.Variable{{Key: "loose", SecretKeyReference: &loose}}
	})
	w.template("garbled", `variable "token" { type = string }`, func(s *infrav1.WorkspaceSpec) {
		garbled := key("garbled")
		s.ForProvider.VarFiles = []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &garbled}}
	})
	w.template("fetched", "git::"+server.URL+"/network.git", func(s *infrav1.WorkspaceSpec) {
		s.ForProvider.Source = infrav1.ModuleSourceRemote
		s.ForProvider.ModuleCredentials = []infrav1.ModuleCredential{{Host: strings.TrimPrefix(server.URL, "https://"), SecretRef: infrav1.LocalReference{Name: "git"}}}
	})
	dir := variables(map[string]string{"dir": w.dir})
	w.apply("auto", "careless", dir, func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.DestroyApproval = infrav1.ApprovalManual
		s.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftReport, Interval: &metav1.Duration{Duration: 10 * time.Second}}
	})
	w.apply("manual", "careless", dir, manual)
	w.apply("encrypted", "encrypted", dir)
	// These always fail. One run of each shows what it reports.
	rarely := func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Retry = &infrav1.RetryPolicy{MinBackoff: &metav1.Duration{Duration: testTimeout}, MaxBackoff: &metav1.Duration{Duration: testTimeout}}
	}
	w.apply("stored", "stored", dir, rarely)
	for _, name := range []string{"mistyped", "garbled", "fetched"} {
		w.apply(name, name, rarely)
	}
}

// searchAll searches the objects, the logs and results of the runs, the log of the
// manager, and the files that other users may read.
func (w *harness) searchAll(c *canary.Set, when string) {
	w.t.Helper()
	places, err := canary.Objects(w.ctx, env.Config, w.namespace)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(places).To(HaveKey("WorkspaceTemplateApply manual"))
	w.Expect(places).To(HaveKey(HavePrefix("Event ")))
	log, err := os.ReadFile(w.Log())
	w.Expect(err).NotTo(HaveOccurred())
	places["log of the manager"] = log
	runs, err := filepath.Glob(filepath.Join(w.WorkDir, "runs", "*", "*.log"))
	w.Expect(err).NotTo(HaveOccurred())
	for _, path := range runs {
		places["output of the runner "+filepath.Base(path)], _ = os.ReadFile(path) // A run may have ended.
	}
	reported, err := runnertest.Reports(w.ctx, env.Client, w.namespace)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(reported).To(HaveKey(HavePrefix("log of ")))
	maps.Copy(places, reported)
	for place, text := range places {
		if found := c.Find(text); len(found) > 0 {
			w.t.Errorf("%s: %s: %s", when, place, strings.Join(found, "; "))
			w.t.Log(string(text))
		}
	}
	w.Expect(c.Exposed(w.WorkDir)).To(BeEmpty(), when)
}
