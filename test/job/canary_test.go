package job

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv/canary"
)

// careless is a module that prints its secrets. "loose" comes from a Secret, but is not
// declared as sensitive.
const careless = `
variable "fail" { type = bool }
variable "token" {
  type      = string
  sensitive = true
}
variable "nested" {
  type      = object({ logins = list(object({ password = string })) })
  sensitive = true
}
variable "loose" { type = string }
resource "terraform_data" "user" {
  input = { token = var.token, nested = var.nested, address = "https://admin:${var.loose}@db" }
  provisioner "local-exec" { command = "sh /etc/canary/print.sh; test ${var.fail} = false" }
  provisioner "local-exec" {
    when    = destroy
    command = "sh /etc/canary/print.sh"
  }
}
check "loose" {
  assert {
    condition     = !var.fail
    error_message = "The password ${var.loose} is refused."
  }
}
output "token" {
  value     = var.token
  sensitive = true
}
output "address" {
  value     = "https://admin:${var.loose}@db"
  sensitive = true
}
output "region" { value = "eu-central-1" }
`

// carelessScript prints everything that a run of the module has.
const carelessScript = `
cat /etc/canary/printed
cat /etc/canary/printed >&2
env
env | base64
cat credentials.ini | base64 >&2
`

// Secrets of every kind go through Jobs that succeed, fail, wait for approval and destroy. They
// are in no other place than Secrets, and in the files of pods that only their user reads.
func TestCanary_noSecretOfAJobIsAnywhereElse(t *testing.T) {
	h := newHarness(t, "-v=5")
	c := h.plant()
	var arguments canary.Arguments
	arguments.Follow(t)
	seen := h.follow(c)

	h.carelessObjects(c)
	h.waitMessage("fails", infrav1.AppliedCondition, HavePrefix("False "+infrav1.RetryingReason))
	h.waitMessage("manual", infrav1.AppliedCondition, HavePrefix("False "+infrav1.WaitingForApprovalReason))
	for _, name := range []string{"own", "shared", "encrypted"} {
		h.waitMessage(name, infrav1.ReadyCondition, HavePrefix("True"))
	}
	connection := &corev1.Secret{}
	h.Expect(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: "own-connection"}, connection)).To(Succeed())
	h.Expect(string(connection.Data["address"])).To(ContainSubstring(c.Value("loose")), "the Secret has all outputs")
	h.searchAll(c, seen, "with workspaces")

	for _, name := range []string{"own", "shared"} {
		h.Expect(h.env.Client.Delete(h.ctx, h.get(name))).To(Succeed())
		h.Eventually(func() bool {
			return apierrors.IsNotFound(h.env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, &infrav1.WorkspaceTemplateApply{}))
		}, testTimeout, 100*time.Millisecond).Should(BeTrue())
	}
	h.searchAll(c, seen, "after the deletion")

	metrics, err := h.manager.Metrics(h.ctx)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(string(metrics)).To(ContainSubstring("capt_run"))
	h.Expect(c.Find(metrics)).To(BeEmpty(), "metrics")
	h.Expect(c.Find(arguments.Text())).To(BeEmpty(), "process arguments")
	h.Expect(string(arguments.Text())).To(ContainSubstring("apply -json"), "the arguments of the tool were seen")
	h.Expect(seen.exposed()).To(BeEmpty(), "files of pods")
	seen.mu.Lock()
	defer seen.mu.Unlock()
	h.Expect(seen.files).NotTo(BeZero(), "files of pods were seen")
}

// plant creates the secrets.
func (h *harness) plant() *canary.Set {
	h.t.Helper()
	c := canary.New()
	for _, kind := range []string{"token", "nested", "loose", "env", "passphrase"} {
		c.Plant(kind, canary.Special)
	}
	c.Plant("file", "")
	// All tokens of service accounts start with the same header.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	h.create(account)
	request := &authenticationv1.TokenRequest{}
	h.Expect(h.env.Client.SubResource("token").Create(h.ctx, account, request)).To(Succeed())
	header, _, _ := strings.Cut(request.Status.Token, ".")
	c.Add("token of a service account", header)
	return c
}

// carelessObjects creates the workspaces, and what they use.
func (h *harness) carelessObjects(c *canary.Set) {
	h.t.Helper()
	values, err := json.Marshal(map[string]any{
		"token": c.Value("token"), "nested": map[string]any{"logins": []any{map[string]string{"password": c.Value("nested")}}},
	})
	h.Expect(err).NotTo(HaveOccurred())
	var printed []string
	for _, kind := range []string{"token", "nested", "loose", "env", "file"} {
		printed = append(printed, canary.Printed(c.Value(kind))...)
	}
	h.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "inputs"}, StringData: map[string]string{
			"vars": string(values), "loose": c.Value("loose"), "env": c.Value("env"), "passphrase": c.Value("passphrase"),
			"file": "[default]\naws_secret_access_key = " + c.Value("file") + "\n",
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "canary"}, StringData: map[string]string{
			"print.sh": carelessScript, "printed": strings.Join(printed, "\n") + "\n",
		}},
	)
	key := func(name string) infrav1.KeyReference { return infrav1.KeyReference{Name: "inputs", Key: name} }
	passphrase, vars, loose, environment := key("passphrase"), key("vars"), key("loose"), key("env")
	for name, edit := range map[string]func(*infrav1.WorkspaceProviderConfigSpec){
		"own":    func(*infrav1.WorkspaceProviderConfigSpec) {},
		"shared": func(s *infrav1.WorkspaceProviderConfigSpec) { s.Runner.ServiceAccountName = "shared" },
		"encrypted": func(s *infrav1.WorkspaceProviderConfigSpec) {
			s.StateEncryption = &infrav1.StateEncryption{PassphraseSecretRef: &passphrase}
		},
	} {
		config := infrav1.WorkspaceProviderConfigSpec{
			Credentials: []infrav1.ProviderCredential{
				{Filename: "credentials.ini", SecretRef: key("file")},
				{Env: "API_KEY", SecretRef: environment},
			},
			Runner: &infrav1.RunnerConfig{
				Volumes:      []infrav1.RunnerVolume{{Name: "canary", Secret: &corev1.SecretVolumeSource{SecretName: "canary"}}},
				VolumeMounts: []infrav1.RunnerVolumeMount{{Name: "canary", MountPath: "/etc/canary", ReadOnly: true}},
			},
		}
		edit(&config)
		spec := infrav1.WorkspaceSpec{ProviderConfigRef: &infrav1.LocalReference{Name: name}, ForProvider: infrav1.ModuleParameters{
			Source: infrav1.ModuleSourceInline, Module: careless,
			VarFiles: []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &vars, Format: infrav1.FileFormatJSON}},
			Vars:     []infrav1.Variable{{Key: "loose", SecretKeyReference: &loose}},
			Env:      []infrav1.EnvVar{{Name: "PASSWORD", SecretKeyReference: &environment}},
		}}
		h.create(
			&infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: config},
			&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}}},
		)
	}
	for name, template := range map[string]string{"own": "own", "shared": "shared", "encrypted": "encrypted", "manual": "own", "fails": "own"} {
		h.create(apply(name, func(s *infrav1.WorkspaceTemplateApplySpec) {
			s.TemplateRef.Name = template
			s.Variables = map[string]infrav1.Value{"fail": {Raw: fmt.Append(nil, name == "fails")}}
			s.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: name + "-connection"}
			if name == "manual" {
				s.Approval = infrav1.ApprovalManual
			}
		}))
	}
}

// transient has what exists only while runs do: the last seen pods and Jobs, the output of their
// containers, and the files that other users may read.
type transient struct {
	mu     sync.Mutex
	places map[string][]byte
	shown  map[string]bool
	files  int
}

func (s *transient) exposed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for file := range s.shown {
		all = append(all, file)
	}
	return all
}

// follow observes pods until the test ends.
func (h *harness) follow(c *canary.Set) *transient {
	seen := &transient{places: map[string][]byte{}, shown: map[string]bool{}}
	stop := make(chan struct{})
	h.t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				h.observe(seen, c)
			}
		}
	}()
	return seen
}

// observe adds what exists now. What vanishes while it is read is left out.
func (h *harness) observe(seen *transient, c *canary.Set) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}} {
		if h.env.Client.List(h.ctx, list, client.InNamespace(h.namespace)) != nil {
			continue
		}
		_ = meta.EachListItem(list, func(obj runtime.Object) error {
			text, err := json.Marshal(obj)
			seen.places[fmt.Sprintf("%T %s", obj, obj.(client.Object).GetName())] = text
			return err
		})
	}
	_ = filepath.WalkDir(h.env.Node().LogsDir(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if text, err := os.ReadFile(path); err == nil {
				seen.places["output of "+path] = text
			}
		}
		return nil
	})
	volumes, _ := filepath.Glob(filepath.Join(h.env.Node().PodsDir(), "*", "volumes", "kubernetes.io~empty-dir"))
	seen.files += len(volumes)
	for _, dir := range volumes {
		files, _ := c.Exposed(dir)
		for _, file := range files {
			seen.shown[file] = true
		}
	}
}

// searchAll searches the objects, what runs report, the log of the manager, and what was seen.
func (h *harness) searchAll(c *canary.Set, seen *transient, when string) {
	h.t.Helper()
	places, err := canary.Objects(h.ctx, h.env.Config, h.namespace)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(places).To(HaveKey("WorkspaceTemplateApply manual"))
	h.Expect(places).To(HaveKey(HavePrefix("Event ")))
	runs, err := runnertest.Reports(h.ctx, h.env.Client, h.namespace)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(runs).To(HaveKey(HavePrefix("log of ")))
	maps.Copy(places, runs)
	if places["log of the manager"], err = os.ReadFile(h.manager.Log()); err != nil {
		h.t.Fatal(err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	h.Expect(seen.places).To(HaveKey(HavePrefix("*v1.Pod ")))
	h.Expect(seen.places).To(HaveKey(HavePrefix("output of ")))
	maps.Copy(places, seen.places)
	for place, text := range places {
		if found := c.Find(text); len(found) > 0 {
			h.t.Errorf("%s: %s: %s", when, place, strings.Join(found, "; "))
		}
	}
}
