package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const secretive = `
variable "token" {
  type      = string
  sensitive = true
}
variable "dir" { type = string }
resource "terraform_data" "user" {
  input = sensitive(var.token)
  provisioner "local-exec" { command = "cp credentials.ini ${var.dir}/seen-file; printenv API_KEY > ${var.dir}/seen-env; sleep 1; test -e ${var.dir}/open || { echo $API_KEY; exit 1; }" }
}
output "token" {
  value     = var.token
  sensitive = true
}
`

// A run gets every kind of secret, fails and then succeeds. The secrets must be in no
// other place than Secrets.
func TestSecrets_stayInSecrets(t *testing.T) {
	w := newHarnessWithManager(t)
	secrets := map[string]string{"token": "tok-4f9d8a7c6b5e", "key": "key-1a2b3c4d5e6f", "file": "ini-9z8y7x6w5v4u"}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "credentials"}, StringData: secrets})
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("aws"), Spec: infrav1.WorkspaceProviderConfigSpec{Credentials: []infrav1.ProviderCredential{
		{Filename: "credentials.ini", SecretRef: infrav1.KeyReference{Name: "credentials", Key: "file"}},
		{Env: "API_KEY", SecretRef: infrav1.KeyReference{Name: "credentials", Key: "key"}},
	}}})
	w.template("secretive", secretive, func(s *infrav1.WorkspaceSpec) {
		s.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
		s.ForProvider.VarFiles = []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: &infrav1.KeyReference{Name: "vars", Key: "x"}}}
	})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vars"}, StringData: map[string]string{"x": `token = "` + secrets["token"] + `"`}})
	w.apply("hello", "secretive", variables(map[string]string{"dir": w.dir}))

	var arguments strings.Builder
	w.Eventually(func() string { arguments.WriteString(commandLines()); return w.file("seen-env") }, testTimeout, 20*time.Millisecond).Should(Equal(secrets["key"]), "the run has its credentials")
	w.Expect(w.file("seen-file")).To(Equal(secrets["file"]))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RetryingReason)
	w.touch("open")
	a := w.waitReady("hello")
	w.Expect(string(w.secret("hello-connection").Data["token"])).To(Equal(secrets["token"]))

	places := map[string]string{
		"process arguments": arguments.String(),
		"events":            strings.Join(w.events(), "\n"),
	}
	object, err := json.Marshal(a)
	w.Expect(err).NotTo(HaveOccurred())
	places["the object"] = string(object)
	log, err := os.ReadFile(w.Log())
	w.Expect(err).NotTo(HaveOccurred())
	places["the manager's log"] = string(log)
	for _, h := range a.Status.History {
		places["the log of "+h.ID] = w.log(h.ID)
	}
	var runs corev1.SecretList
	w.Expect(env.Client.List(w.ctx, &runs, client.InNamespace(w.namespace), client.MatchingLabels{infrav1.ComponentLabel: "run"})).To(Succeed())
	w.Expect(len(runs.Items)).To(BeNumerically(">=", 2))
	for _, run := range runs.Items {
		w.Expect(run.Data).NotTo(HaveKey("request"), "credentials do not outlive the run")
	}
	places["the working directory"] = w.workingDirectory()
	for place, text := range places {
		for name, secret := range secrets {
			if name == "token" && place == "the working directory" {
				continue
			}
			w.Expect(strings.Contains(text, secret)).To(BeFalse(), "%s is in %s", name, place)
		}
	}
}

// commandLines returns the arguments of every process.
func commandLines() string {
	var all strings.Builder
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		// The shell of the provisioner belongs to the module.
		if text, err := os.ReadFile(file); err == nil && !bytes.HasPrefix(text, []byte("/bin/sh")) {
			all.Write(text)
			all.WriteByte('\n')
		}
	}
	return all.String()
}

// workingDirectory returns the content of all files of the workspaces.
func (w *harness) workingDirectory() string {
	var all strings.Builder
	_ = filepath.Walk(filepath.Join(w.WorkDir, "workspaces"), func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			all.Write(text)
			if z, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
				_, _ = io.Copy(&all, z)
			}
		}
		return nil
	})
	return all.String()
}

func TestWorkspace_isNotWrittenWhenNothingChanges(t *testing.T) {
	w := newHarness(t)
	w.hello("greeting", greeting, variables(map[string]string{"name": "world"}))
	w.reconsider("hello", infrav1.ReadyCondition)
	w.waitLineage("hello")
	secrets := w.secrets()
	versions := func() string {
		all := w.get("hello").ResourceVersion
		for _, name := range secrets {
			all += " " + name + "=" + w.secret(name).ResourceVersion
		}
		return all
	}
	// The manager observes a change that concerns no controller, and then runs another workspace.
	w.annotate("hello", "example.com/note", "x")
	before := versions()
	w.apply("other", "greeting", variables(map[string]string{"name": "world"}))
	w.waitReady("other")
	w.Expect(versions()).To(Equal(before))
}

// The test does what clusterctl move does: it pauses the workspace, copies the objects
// without their status, and unpauses the copy. The manager finds state and history,
// and changes nothing.
func TestMove_keepsStateAndStartsNothing(t *testing.T) {
	w := newHarness(t)
	old := w.hello("several", several, variables(map[string]string{"dir": w.dir}))
	runs := old.Status.Runs

	target := newSecondHarness(w)
	target.template("several", several)
	moved := &infrav1.WorkspaceTemplateApply{ObjectMeta: target.meta("hello"), Spec: old.Spec}
	moved.Annotations = map[string]string{"cluster.x-k8s.io/paused": "true"}
	target.create(moved)
	var list corev1.SecretList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	for i := range list.Items {
		if _, moves := list.Items[i].Labels["clusterctl.cluster.x-k8s.io/move"]; !moves {
			continue
		}
		secret := list.Items[i].DeepCopy()
		secret.ObjectMeta = metav1.ObjectMeta{
			Namespace: target.namespace, Name: secret.Name, Labels: secret.Labels, Annotations: secret.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(moved, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))},
		}
		target.create(secret)
	}
	target.change("hello", func(a *infrav1.WorkspaceTemplateApply) { delete(a.Annotations, "cluster.x-k8s.io/paused") })

	a := target.waitReady("hello")
	w.Expect(a.Status.Runs).To(Equal(runs), "no run was started")
	w.Expect(a.Status.AppliedInputs).To(Equal(old.Status.AppliedInputs))
	w.Expect(a.Status.Outputs["count"].String()).To(Equal("4"))
	w.Expect(w.directories()).To(Equal(4))
}

// newSecondHarness returns another namespace with the same manager.
func newSecondHarness(w *harness) *harness {
	other := prepare(w.t, w.filter, w.Manager)
	other.dir = w.dir
	return other
}
