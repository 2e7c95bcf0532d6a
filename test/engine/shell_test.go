package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// shell returns the arguments of a shell that runs a script.
func (w *harness) shell(name, script string) []string {
	w.t.Helper()
	tofu, err := testenv.Part("tofu")
	w.Expect(err).NotTo(HaveOccurred())
	return []string{"shell", name, "--reason", "incident 17", "--terraform-binary", tofu, "--", "sh", "-c", script}
}

// openShell starts a shell that waits until the context ends or the file go exists.
func (w *harness) openShell(ctx context.Context, name, script string) <-chan result {
	w.t.Helper()
	ended := make(chan result, 1)
	args := w.shell(name, ": > "+w.dir+"/open; while ! [ -e "+w.dir+"/go ]; do sleep 0.1; done; "+script)
	go func() { ended <- w.captctlIn(ctx, args...) }()
	w.Eventually(func() bool {
		_, err := os.Stat(filepath.Join(w.dir, "open"))
		return err == nil || len(ended) > 0
	}, testTimeout).Should(BeTrue())
	if len(ended) > 0 {
		w.t.Fatalf("the shell ended: %s", (<-ended).err)
	}
	return ended
}

func TestShell_holdsTheLockAndRecordsTheUser(t *testing.T) {
	w := newHarness(t)
	before := w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))

	ended := w.openShell(w.ctx, "hello", "tofu state rm terraform_data.b && tofu state list > "+w.dir+"/list && echo done && pwd > "+w.dir+"/root; exit 3")
	shell := w.get("hello").Status.Shell
	w.Expect(shell).NotTo(BeNil())
	w.Expect(shell.Open()).To(BeTrue())
	w.Expect(shell.Host).To(ContainSubstring("@"))
	w.Expect(shell.Reason).To(Equal("incident 17"))
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(HaveValue(Equal(shell.ID)))
	w.Expect(w.captctl(w.shell("hello", "true")...).err).To(ContainSubstring("hello has a shell already (" + shell.ID))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["a"] = infrav1.StringValue("2") })
	waiting := w.waitReason("hello", infrav1.AppliedCondition, infrav1.ShellOpenReason)
	w.Expect(waiting.Message).To(And(HavePrefix(testenv.AdminUser+" has shell "+shell.ID+" with the state on "+shell.Host+" since "), ContainSubstring("captctl unlock")))
	w.Expect(w.get("hello").Status.Runs).To(Equal(before.Status.Runs), "no run starts")

	w.Expect(os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600)).To(Succeed())
	var last result
	w.Eventually(ended, testTimeout).Should(Receive(&last))
	w.Expect(last.code).To(Equal(3), "that of the command: %s", last.err)
	w.Expect(last.out).To(HaveSuffix("done\n"))
	w.Expect(last.err).To(MatchRegexp(`Shell %s ended. The previous state is in snapshot capt-snapshot-%s-`, shell.ID, shell.ID))
	w.Expect(w.file("list")).To(Equal("terraform_data.a"))
	w.Expect(w.file("root")).NotTo(BeADirectory(), "the state is not left on the disk")

	after := w.waitReady("hello")
	w.Expect(w.shells()).To(BeEmpty())
	w.Expect(after.Status.Shell.Open()).To(BeFalse())
	w.Expect(after.Status.State.Resources).To(BeEquivalentTo(2), "the run that waited creates the removed resource again")
	w.Expect([]int{w.created("a"), w.created("b")}).To(Equal([]int{1, 2}))
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil())
	w.Expect(w.captctl("state", "snapshots", "hello").out).To(ContainSubstring("capt-snapshot-" + shell.ID))
	w.Eventually(w.events, testTimeout).Should(ContainElements(
		And(ContainSubstring(infrav1.ShellOpenReason), ContainSubstring(shell.ID), ContainSubstring("incident 17")),
		And(ContainSubstring(infrav1.ShellClosedReason), ContainSubstring("closed shell "+shell.ID))))
}

// A tool that is left in the background writes the state after the shell has ended.
func TestShell_waitsForTheToolInTheBackground(t *testing.T) {
	w := newHarness(t)
	w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))
	w.succeed(w.shell("hello", "(tofu apply -auto-approve -replace=terraform_data.a > "+w.dir+"/log 2>&1; echo $? > "+w.dir+"/code) & while ! [ -s "+w.dir+"/log ]; do sleep 0.1; done")...)
	w.Eventually(filepath.Join(w.dir, "code"), testTimeout).Should(BeAnExistingFile())
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["a"] = infrav1.StringValue("2") })
	w.waitReady("hello")
	w.Expect(w.created("b")).To(Equal(1), "the state has what exists")
}

func TestShell_isWaitedForByADeletion(t *testing.T) {
	w := newHarness(t)
	w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))
	ended := w.openShell(w.ctx, "hello", "tofu state rm terraform_data.b")
	w.Expect(env.Client.Delete(w.ctx, w.get("hello"))).To(Succeed())
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.ShellOpenReason)
	w.Expect(os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600)).To(Succeed())
	var last result
	w.Eventually(ended, testTimeout).Should(Receive(&last))
	w.Expect(last.code).To(Equal(0), last.err)
	w.waitDeleted("hello")
}

func TestShell_releasesTheLockWhenItIsStopped(t *testing.T) {
	w := newHarness(t)
	w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))

	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	ended := w.openShell(ctx, "hello", "true")
	stop()
	var last result
	w.Eventually(ended, testTimeout).Should(Receive(&last))
	w.Expect(last.code).NotTo(Equal(0))
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil())
	w.Expect(w.shells()).To(BeEmpty())
	w.Eventually(func() bool { return w.get("hello").Status.Shell.Open() }, testTimeout).Should(BeFalse())

	// A shell that was killed leaves its lock and its operation.
	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationShell, Shell: &infrav1.ShellOptions{ID: "shell-killed", Host: "laptop"}})
	lease := w.lease("hello")
	lease.Spec.HolderIdentity = new("shell-killed")
	w.Expect(env.Client.Update(w.ctx, lease)).To(Succeed())
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["a"] = infrav1.StringValue("2") })
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.ShellOpenReason)
	w.succeed("unlock", "hello", "--yes")
	w.waitReady("hello")
	w.Expect(w.shells()).To(BeEmpty())
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil())
}

// shells returns the operations of shells that are open.
func (w *harness) shells() []string {
	w.t.Helper()
	var list infrav1.WorkspaceOperationList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var names []string
	for _, o := range list.Items {
		if o.Spec.Type == infrav1.OperationShell {
			names = append(names, o.Name)
		}
	}
	return names
}

func TestShell_needsPermissions(t *testing.T) {
	w := newHarness(t)
	w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "editor-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"", coordinationv1.GroupName}, Resources: []string{"secrets", "leases"}, Verbs: []string{"*"}},
	}}
	w.create(role)
	user := w.namespace + "-editor"
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "editor-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	w.Eventually(func() string { return w.captctl(append([]string{"--as", user}, w.shell("hello", "true")...)...).err }, testTimeout).
		Should(ContainSubstring("a shell needs the permission to manage secrets/capt in namespace " + w.namespace))
	w.Expect(w.get("hello").Status.Shell).To(BeNil())
	w.Expect(strings.Join(w.secrets(), " ")).NotTo(ContainSubstring("capt-snapshot-shell"))
}
