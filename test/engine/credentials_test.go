package engine

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/host/sandbox"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// thief is a module that copies everything it can read of the manager.
const thief = `
variable "dir"  { type = string }
variable "work" { type = string }
resource "terraform_data" "thief" {
  provisioner "local-exec" {
    command = <<-EOT
      {
        env
        cat "$HOME/.aws/credentials" "$KUBECONFIG" ${var.work}/kubeconfig
        for process in /proc/[0-9]*; do tr '\0' '\n' < $process/environ; tr '\0' '\n' < $process/cmdline; done
        for fd in /proc/$PPID/fd/* /proc/self/fd/*; do test -f $fd && cat $fd; done
      } > ${var.dir}/loot 2> /dev/null
      true
    EOT
  }
}
`

// TestModule_doesNotGetTheManagersCredentials runs a module that looks for the
// credentials of the manager.
func TestModule_doesNotGetTheManagersCredentials(t *testing.T) {
	w := prepareWithManager(t)
	const inHome, inEnv = "home-5c1f0e9d8b7a", "env-7a6b5c4d3e2f"
	home := t.TempDir()
	w.Expect(os.MkdirAll(filepath.Join(home, ".aws"), 0o700)).To(Succeed())
	w.Expect(os.WriteFile(filepath.Join(home, ".aws", "credentials"), []byte(inHome), 0o600)).To(Succeed())
	w.Env = []string{"HOME=" + home, "CLOUD_PASSWORD=" + inEnv}
	w.Expect(w.Start()).To(Succeed())

	w.hello("thief", thief, variables(map[string]string{"dir": w.dir, "work": w.WorkDir}))
	loot := w.file("loot")
	w.Expect(loot).To(ContainSubstring("TF_IN_AUTOMATION=1"), "the module has run")
	w.Expect(loot).NotTo(ContainSubstring(inHome), "a file of the manager's home directory")
	w.Expect(loot).NotTo(ContainSubstring("PRIVATE KEY"), "a key")
	for name, secret := range managerSecrets(w) {
		w.Expect(strings.Contains(loot, secret)).To(BeFalse(), "the %s of the manager", name)
	}

	// Without a sandbox, the environment of the manager itself is readable: it is the
	// same user. That of the runner has nothing of it.
	w.Expect(strings.Count(loot, "CLOUD_PASSWORD=")).To(BeNumerically("<=", 1), "only in the environment of the manager")
	a := w.get("hello")
	w.Expect(objecttest.Condition(a, infrav1.ReadyCondition).Status).To(BeEquivalentTo("True"))
}

func readFile(w *harness, path string) []byte {
	w.t.Helper()
	text, err := os.ReadFile(path)
	w.Expect(err).NotTo(HaveOccurred())
	return text
}

// managerSecrets returns the credentials of the manager's kubeconfig, as a file has them.
func managerSecrets(w *harness) map[string]string {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(w.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	secrets := map[string]string{}
	for _, user := range config.AuthInfos {
		for name, value := range map[string][]byte{"client key": user.ClientKeyData, "token": []byte(user.Token)} {
			if len(value) > 0 {
				secrets[name] = base64.StdEncoding.EncodeToString(value)
			}
		}
	}
	w.Expect(secrets).NotTo(BeEmpty())
	return secrets
}

// burglar is a module that tries to read and change what is not its own, by the names of
// the files.
const burglar = `
variable "dir"   { type = string }
variable "home"  { type = string }
variable "work"  { type = string }
variable "files" { type = string }
resource "terraform_data" "burglar" {
  provisioner "local-exec" {
    command = <<-EOT
      for file in ${var.files}; do cat $file >> ${var.dir}/loot; done
      for process in $(pgrep -x manager); do true < /proc/$process/mem && echo memory >> ${var.dir}/loot; done
      echo changed > ${var.work}/plugins/changed
      echo changed > ${var.work}/templates/changed
      rm -rf ${var.work}/workspaces/other
      echo ran >> ${var.dir}/loot
      true
    EOT
  }
  # What ordinary modules do.
  provisioner "local-exec" {
    command = <<-EOT
      set -e
      cd $(mktemp -d)
      git init -q . && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x
      echo x > "$HOME/.cache" && mkdir -p ~/.config && ssh -V && curl --version > /dev/null
      nohup sleep 1 > /dev/null 2>&1 &
      echo works >> ${var.dir}/loot
    EOT
  }
}
`

// TestModule_inASandbox runs a module that knows where the secrets are. The work directory
// must not be below /tmp, which modules need.
func TestModule_inASandbox(t *testing.T) {
	if err := sandbox.Check(); err != nil {
		t.Skip(err)
	}
	real, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	home, err := os.MkdirTemp(real, "capt-engine-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if len((sandbox.Rules{Hidden: []string{home}}).Exposed()) > 0 {
		t.Skipf("%s is in a directory that all users share", home)
	}
	w := prepareWithManager(t, "--sandbox=required")
	w.WorkDir = filepath.Join(home, "work")
	w.Kubeconfig = filepath.Join(home, "admin.conf")
	w.Env = []string{"HOME=" + home}
	secrets := map[string]string{
		filepath.Join(home, ".aws", "credentials"):                                   "canary-aws",
		filepath.Join(home, ".ssh", "id_ed25519"):                                    "canary-ssh",
		filepath.Join(w.WorkDir, "workspaces", "other", "victim", "errored.tfstate"): "canary-state",
		w.Kubeconfig: string(readFile(w, managerKubeconfig(t))),
	}
	var files []string
	for path, content := range secrets {
		w.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		w.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		files = append(files, path)
	}
	for _, dir := range []string{"plugins", "templates"} {
		w.Expect(os.MkdirAll(filepath.Join(w.WorkDir, dir), 0o700)).To(Succeed())
	}
	w.Expect(w.Start()).To(Succeed())
	w.hello("burglar", burglar, variables(map[string]string{"dir": w.dir, "home": home, "work": w.WorkDir, "files": strings.Join(files, " ")}))
	w.Expect(w.file("loot")).To(Equal("ran\nworks"))
	for _, name := range []string{"plugins/changed", "templates/changed"} {
		w.Expect(filepath.Join(w.WorkDir, name)).NotTo(BeAnExistingFile())
	}
	w.Expect(filepath.Join(w.WorkDir, "workspaces", "other", "victim", "errored.tfstate")).To(BeAnExistingFile())
	w.destroy("hello")
}
