package clusterctl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// operator is a user who follows docs/backup.md in one directory.
type operator struct {
	t    *testing.T
	dir  string
	page string
	// root is the checkout of CAPT.
	root string
	// resources is the directory of the resources that workspaces create.
	resources string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile(filepath.Join(root, "docs", "backup.md"))
	g.Expect(err).NotTo(HaveOccurred())
	return &operator{t: t, dir: t.TempDir(), page: string(page), root: root, resources: t.TempDir()}
}

// block returns a command block of the page.
func (o *operator) block(scenario string, index int) string {
	o.t.Helper()
	blocks := testenv.Blocks(o.page, scenario)
	NewWithT(o.t).Expect(len(blocks)).To(BeNumerically(">", index), "docs/backup.md has no block %d of %s", index, scenario)
	return blocks[index]
}

// runLocally executes commands that need no management cluster.
func (o *operator) runLocally(script string) {
	o.t.Helper()
	g := NewWithT(o.t)
	kubectl, err := testenv.Part("kubectl")
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(o.t.Context(), "bash", "-c", script)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(o.dir, "none"), "CAPT_ROOT="+o.root)
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
}

// command returns a shell that executes commands with the kubeconfig of a server, as a user
// pastes them: it continues after errors.
func (o *operator) command(s *server, script string) *exec.Cmd {
	o.t.Helper()
	captctl, err := testenv.Built("captctl")
	s.Expect(err).NotTo(HaveOccurred())
	kubectl, err := testenv.Part("kubectl")
	s.Expect(err).NotTo(HaveOccurred())
	config, err := os.ReadFile(s.config)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(os.MkdirAll(filepath.Join(s.dir, "cluster-api"), 0o700)).To(Succeed())
	s.Expect(os.WriteFile(filepath.Join(s.dir, "cluster-api", "clusterctl.yaml"), config, 0o600)).To(Succeed())
	cmd := exec.CommandContext(s.ctx, "bash", "-xc", script)
	cmd.Dir = o.dir
	path := strings.Join([]string{filepath.Dir(captctl), filepath.Dir(kubectl), os.Getenv("PATH")}, string(os.PathListSeparator))
	cmd.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG="+s.kubeconfig, "HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "CAPT_ROOT="+o.root,
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "ETCDCTL_ENDPOINTS="+s.env.ControlPlane.Etcd.URL.String())
	return cmd
}

// run executes commands while the managers follow their Deployments.
func (o *operator) run(s *server, script string) string {
	o.t.Helper()
	out := s.follow(o.command(s, script))
	o.t.Logf("%s", out)
	return out
}

// runAlone executes commands while nothing but them reaches the API server.
func (o *operator) runAlone(s *server, script string) {
	o.t.Helper()
	out, err := o.command(s, script).CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(out))
	o.t.Logf("%s", out)
}

// refused executes commands that must fail, and returns the output.
func (o *operator) refused(s *server, script string) string {
	o.t.Helper()
	cmd := o.command(s, script)
	cmd.Args = []string{"bash", "-c", script}
	// A script may end its own process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	o.t.Logf("%s", out)
	s.Expect(err).To(BeAssignableToTypeOf(&exec.ExitError{}), "it succeeded: %s", script)
	return "\n" + string(out)
}

// fileTemplate is the manifest of a WorkspaceTemplate that creates one file for each
// name. The file stands for a resource in a cloud: its name contains the ID, so what is
// created twice exists twice.
func (o *operator) fileTemplate() string {
	return fmt.Sprintf(`---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: files, namespace: default}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          variable "names" { type = set(string) }
          variable "workspace" { type = string }
          resource "terraform_data" "file" {
            for_each = var.names
            input    = "%s/${var.workspace}.${each.key}"
            provisioner "local-exec" {
              command = "touch ${self.input}.${self.id}"
            }
            provisioner "local-exec" {
              when    = destroy
              command = "rm ${self.input}.${self.id}"
            }
          }
`, o.resources)
}

// filesWorkspace is the manifest of a workspace of fileTemplate. It uses a provider config
// in other namespaces than that of the template.
func filesWorkspace(namespace, name string, names ...string) string {
	providerConfig := ""
	if namespace != "default" {
		providerConfig = "\n  providerConfigRef: {name: default}"
	}
	return fmt.Sprintf(`---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: %s, namespace: %s}
spec:%s
  templateRef: {name: files, namespace: default}
  variables:
    names: [%s]
    workspace: %s
`, name, namespace, providerConfig, strings.Join(names, ", "), name)
}

// apply creates or changes the objects of manifests.
func (o *operator) apply(s *server, manifests string) {
	o.t.Helper()
	s.Expect(os.WriteFile(filepath.Join(o.dir, "manifests.yaml"), []byte(manifests), 0o600)).To(Succeed())
	// The webhook servers may not be listening yet.
	s.Eventually(func(g Gomega) {
		out, err := o.command(s, "kubectl apply -f manifests.yaml").CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}, testTimeout, time.Second).Should(Succeed())
}

var fileID = regexp.MustCompile(`^(.*)\.([0-9a-f-]{36})$`)

// files returns the resources that exist, with their IDs.
func (o *operator) files() []string {
	o.t.Helper()
	g := NewWithT(o.t)
	entries, err := os.ReadDir(o.resources)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

// fileNames returns the resources that exist, without their IDs.
func (o *operator) fileNames() []string {
	o.t.Helper()
	names := o.files()
	for i := range names {
		names[i] = fileID.ReplaceAllString(names[i], "$1")
	}
	return names
}

// idOf returns the ID of the only resource of a name.
func (o *operator) idOf(name string) string {
	o.t.Helper()
	var ids []string
	for _, file := range o.files() {
		if match := fileID.FindStringSubmatch(file); match != nil && match[1] == name {
			ids = append(ids, match[2])
		}
	}
	NewWithT(o.t).Expect(ids).To(HaveLen(1), name)
	return ids[0]
}

// waitReason waits until a workspace of the current generation has a reason for Ready.
func (s *server) waitReason(namespace, name, reason string) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		var apply infrav1.WorkspaceTemplateApply
		g.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name}, &apply)).To(Succeed())
		ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.ObservedGeneration).To(Equal(apply.Generation), "%v", apply.Status.Conditions)
		g.Expect(ready.Reason).To(Equal(reason), "%v", apply.Status.Conditions)
	}, testTimeout, 500*time.Millisecond).Should(Succeed(), "%s/%s", namespace, name)
}
