package cli_test

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

// shellWorkspace creates a workspace and its template. No manager runs.
func (h *harness) shellWorkspace(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{
		Source: infrav1.ModuleSourceInline, Module: "variable \"name\" { default = \"none\" }\nresource \"terraform_data\" \"a\" { input = var.name }\n",
	}
	apply := workspace(name)
	h.create(template, apply)
	return apply
}

func (h *harness) shellArgs(name string, args ...string) []string {
	return append([]string{"shell", name, "--terraform-binary", commandtest.Tofu(h.t)}, args...)
}

func TestShell_failsWithoutAManagerThatRecordsIt(t *testing.T) {
	h := newHarness(t)
	apply := h.shellWorkspace("net")
	a := h.run(h.shellArgs("net", "--record-timeout", "1s", "--", "true")...)
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(And(ContainSubstring("the manager has not recorded the shell within 1s"), ContainSubstring("--no-wait")))
	h.Expect(h.operations()).To(BeEmpty(), "runs do not wait for it")

	h.setStatus(apply, func() {
		apply.Status.Conditions = condition(infrav1.PausedCondition, metav1.ConditionTrue, "Paused", "")
	})
	a = h.run(h.shellArgs("net", "--", "true")...)
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("net is paused, so the manager does not record the shell: resume it, or pass --no-wait"))
	h.Expect(h.operations()).To(BeEmpty())

	a = h.run(h.shellArgs("net", "--no-wait", "--", "sh", "-c", "tofu apply -auto-approve -no-color")...)
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.err).To(MatchRegexp(`tofu is OpenTofu \S+ \(` + commandtest.Tofu(h.t) + `\)`))
	h.Expect(a.out).To(ContainSubstring("Resources: 1 added"))
	h.Expect(h.operations()).To(BeEmpty())
}

// In an emergency, the user decides.
func TestTool_isTheOneOfTheUserRegardlessOfTheTemplate(t *testing.T) {
	h := newHarness(t)
	h.shellWorkspace("net")
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "t"}}
	h.reload(template)
	template.Spec.Template.Spec.Tool = &infrav1.ToolRequirement{Name: infrav1.ToolTerraform}
	h.Expect(env.Client.Update(h.ctx, template)).To(Succeed())

	a := h.run(h.shellArgs("net", "--no-wait", "--", "sh", "-c", "tofu apply -auto-approve -no-color")...)
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(ContainSubstring("Resources: 1 added"))

	dir := t.TempDir()
	h.Expect(os.WriteFile(filepath.Join(dir, "main.tf"), []byte("output \"a\" { value = 1 }\n"), 0o600)).To(Succeed())
	a = h.run("plan", "net", "--dir", dir, "--terraform-binary", commandtest.Tofu(h.t))
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(ContainSubstring("1 to destroy"))
}

// While captctl waits for the record, a user changes the workspace.
func TestShell_usesTheInputsAfterTheWait(t *testing.T) {
	h := newHarness(t)
	apply := h.shellWorkspace("net")
	running := h.start(h.shellArgs("net", "--", "sh", "-c", "echo var.name | tofu console")...)
	h.Eventually(h.operations).Should(HaveLen(1))
	before := apply.DeepCopy()
	apply.Spec.Variables = map[string]infrav1.Value{"name": infrav1.StringValue("later")}
	h.Expect(env.Client.Patch(h.ctx, apply, client.MergeFrom(before))).To(Succeed())
	shell := h.operation(infrav1.OperationShell)
	h.setStatus(shell, func() { shell.Status.Phase = infrav1.OperationRunning })
	h.Eventually(running.code).Should(Receive(Equal(0)), running.err.String())
	h.Expect(running.out.String()).To(Equal("\"later\"\n"))
}

// proxy forwards connections until it is cut.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: target}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.forward(conn)
		}
	}()
	return p
}

func (p *proxy) forward(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	upstream, err := net.Dial("tcp", p.target)
	if err != nil || p.cut {
		_ = conn.Close()
		return
	}
	p.conns = append(p.conns, conn, upstream)
	go func() { _, _ = io.Copy(upstream, conn) }()
	go func() { _, _ = io.Copy(conn, upstream) }()
}

// setCut cuts all connections, or allows new ones.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

// cutShell starts a shell whose network is cut before its command changes the state.
func (h *harness) cutShell() (*runningCommand, *proxy) {
	h.t.Helper()
	server, err := url.Parse(env.Config.Host)
	h.Expect(err).NotTo(HaveOccurred())
	p := newProxy(h.t, server.Host)
	dir := h.t.TempDir()
	script := ": > " + dir + "/open; while ! [ -e " + dir + "/go ]; do sleep 0.1; done; tofu apply -auto-approve"
	running := h.start(append([]string{"--server", "https://" + p.listener.Addr().String()}, h.shellArgs("net", "--no-wait", "--", "sh", "-c", script)...)...)
	h.Eventually(filepath.Join(dir, "open")).Should(BeAnExistingFile(), running.err.String)
	p.setCut(true)
	h.Expect(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600)).To(Succeed())
	h.Eventually(running.err.String).Should(And(ContainSubstring("Waiting: "), ContainSubstring("Press Ctrl-C to give up")))
	return running, p
}

func (h *harness) lockHolder() *string {
	h.t.Helper()
	var leases coordinationv1.LeaseList
	h.Expect(env.Client.List(h.ctx, &leases, client.InNamespace(h.namespace))).To(Succeed())
	h.Expect(leases.Items).To(HaveLen(1))
	return leases.Items[0].Spec.HolderIdentity
}

func TestShell_savesTheStateWhenTheNetworkIsBack(t *testing.T) {
	h := newHarness(t)
	h.shellWorkspace("net")
	running, p := h.cutShell()
	p.setCut(false)
	h.Eventually(running.code).Should(Receive(Equal(0)), running.err.String)
	h.Expect(h.lockHolder()).To(BeNil())
	h.Expect(h.operations()).To(BeEmpty())
}

// It is not parallel: the shells of other tests would receive the signal, too.
func TestShell_keepsTheStateWhenTheUserGivesUp(t *testing.T) {
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), namespace: env.Namespace(t)}
	h.shellWorkspace("net")
	running, p := h.cutShell()
	h.Expect(syscall.Kill(os.Getpid(), syscall.SIGINT)).To(Succeed())
	h.Eventually(running.code).Should(Receive(Equal(1)))
	p.setCut(false)
	message := running.err.String()
	h.Expect(message).To(And(ContainSubstring("the state could not be saved; its files are in"), ContainSubstring("captctl unlock net")))
	h.Expect(h.operation(infrav1.OperationShell).Spec.Shell.ID).To(HavePrefix("shell-"), "no run starts")
	h.Expect(h.lockHolder()).NotTo(BeNil())
	_, file, _ := strings.Cut(message, "captctl state push net ")
	file, _, _ = strings.Cut(file, ",")
	content, err := os.ReadFile(file)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(string(content)).To(ContainSubstring("terraform_data"))
	_, dir, _ := strings.Cut(message, "its files are in ")
	dir, _, _ = strings.Cut(dir, ". ")
	h.Expect(os.RemoveAll(dir)).To(Succeed())
}

func TestHistory_showsShells(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	now := time.Now()
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	h.setStatus(apply, func() {
		apply.Status.History = []infrav1.RunRecord{
			{ID: "net-r2", Operation: "PlanAndApply", Outcome: "Succeeded", StartedAt: at(10 * time.Minute)},
			{ID: "net-r1", Operation: "PlanAndApply", Outcome: "Succeeded", StartedAt: at(3 * time.Hour)},
		}
		apply.Status.Shell = &infrav1.ShellStatus{ID: "shell-2", By: "ada", Host: "ada@laptop", Reason: "incident 17", OpenedAt: at(time.Hour), ClosedAt: new(at(30 * time.Minute))}
		apply.Status.PastShells = []infrav1.ShellStatus{{ID: "shell-1", OpenedAt: at(5 * time.Hour), ClosedAt: new(at(4 * time.Hour))}}
	})
	a := h.run("history", "net")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(MatchRegexp(`(?s)net-r2.*shell-2 +Shell +Closed +6\dm +30m0s +ada on ada@laptop: incident 17\n.*net-r1.*shell-1 +Shell +Closed +5h\w* +1h0m0s +a user\n`))
	h.Expect(h.run("history", "net", "-o", "json").out).To(ContainSubstring(`"id": "shell-1"`))
}
