package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

// slow is how long an operation of the quickstart may take on a busy machine.
const slow = 4 * time.Minute

// quickstart is the environment of make quickstart: real Cluster API, CAPT and OpenTofu.
type quickstart struct {
	*WithT
	t       *testing.T
	base    string
	captctl string
	env     *environment.Environment
	config  *rest.Config
	client  client.Client
}

// startQuickstart starts the environment without the demo's cluster.
func startQuickstart(t *testing.T) *quickstart {
	t.Helper()
	q := &quickstart{WithT: NewWithT(t), t: t}
	var err error
	q.captctl, err = testenv.Built("captctl")
	q.Expect(err).NotTo(HaveOccurred())
	q.base, err = os.MkdirTemp("", "capt-ui-")
	q.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), q.captctl, "local", "down", "--dir", q.base, "--yes").CombinedOutput()
		if err != nil {
			t.Errorf("stopping the environment: %v: %s", err, out)
		}
		if err := os.RemoveAll(q.base); err != nil {
			t.Error(err)
		}
	})
	q.env, err = environment.New(environment.DefaultName, q.base)
	q.Expect(err).NotTo(HaveOccurred())
	q.up()
	q.config, err = clientcmd.BuildConfigFromFlags("", q.env.Kubeconfig())
	q.Expect(err).NotTo(HaveOccurred())
	q.config.QPS = -1
	q.client, err = q.env.Client()
	q.Expect(err).NotTo(HaveOccurred())
	return q
}

// up runs captctl local up and returns what it prints.
func (q *quickstart) up(args ...string) string {
	q.t.Helper()
	out, err := exec.CommandContext(q.t.Context(), q.captctl, append([]string{"local", "up", "--dir", q.base}, args...)...).CombinedOutput()
	q.Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

// as returns the configuration of a user with roles that CAPT installs.
func (q *quickstart) as(user string, roles ...string) *rest.Config {
	q.t.Helper()
	root, err := testenv.Root()
	q.Expect(err).NotTo(HaveOccurred())
	for _, role := range roles {
		content, err := environment.ReadManifests(filepath.Join(root, "config", "rbac", "users", role+".yaml"))
		q.Expect(err).NotTo(HaveOccurred())
		q.Expect(environment.Apply(q.t.Context(), q.client, "default", content)).To(Succeed())
		q.Expect(q.client.Create(q.t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user + "-" + role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: content[0].GetName()},
		})).To(Succeed())
	}
	config := rest.CopyConfig(q.config)
	config.Impersonate.UserName = user
	return config
}

// workspace creates a workspace with a module that needs no provider.
func (q *quickstart) workspace(name string, approval infrav1.ApprovalMode, module string) {
	q.t.Helper()
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	q.Expect(q.client.Create(q.t.Context(), template)).To(Succeed())
	q.Expect(q.client.Create(q.t.Context(), &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: name}, Approval: approval},
	})).To(Succeed())
}

// button is the button of the page with a text.
func button(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("button")].find(b => b.textContent === %q)`, text)
}

// click clicks a button when it can be clicked.
func (b *browser) click(text string) {
	b.t.Helper()
	b.Eventually(func() bool { return value[bool](b, button(text)+"?.disabled === false") }, slow).Should(BeTrue(), text)
	b.script(button(text) + ".click()")
}

// eventually waits for a text as long as operations of the quickstart take.
func (b *browser) eventually(text string) {
	b.t.Helper()
	b.Eventually(b.text, slow, 200*time.Millisecond).Should(ContainSubstring(text))
}

func TestQuickstart_isShownLive(t *testing.T) {
	q := startQuickstart(t)
	out := q.up()
	_, link, found := strings.Cut(strings.TrimSpace(out), "which works once: ")
	q.Expect(found).To(BeTrue(), out)
	b := open(t, link)
	b.eventually("No clusters yet")
	// A busy machine is slow at times.
	b.Eventually(func() float64 {
		b.run(chromedp.Reload())
		b.eventually("No clusters yet")
		paint := value[float64](b, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity`)
		t.Logf("first contentful paint after %.0f ms", paint)
		return paint
	}, slow).Should(BeNumerically("<", 1000), "milliseconds until the first paint")
	again := q.env.PageLink()
	b.Expect(again).NotTo(Or(BeEmpty(), Equal(link)), "a link works once")

	t.Run("a cluster appears and turns Ready", func(*testing.T) {
		done := make(chan string, 1)
		go func() { done <- q.up("--demo", "--addons=false") }()
		b.eventually("quickstart")
		b.goTo("/clusters/default/quickstart")
		b.eventually("Timeline")
		b.Eventually(func() string { return value[string](b, `document.querySelector(".title .badge").textContent`) }, slow).Should(ContainSubstring("Ready"))
		out := <-done
		b.Expect(out).To(ContainSubstring("In the browser (this link works once"))
		b.Expect(out).To(ContainSubstring("http://127.0.0.1:"))
		b.screenshot("quickstart-cluster-1280-light")
	})
	t.Run("a plan is approved by one user and refused to another", func(t *testing.T) { q.approves(t) })
	t.Run("a log follows", func(*testing.T) {
		const wait = `resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "i=0; while [ $i -lt 15 ]; do i=$((i+1)); echo line-$i-of-15; sleep 1; done"
  }
}
`
		q.workspace("slow", infrav1.ApprovalAuto, wait)
		b.goTo("/workspaces/default/slow")
		b.eventually("line-1-of-15")
		b.Expect(b.text()).NotTo(ContainSubstring("line-15-of-15"), "the log is shown while it is written")
		b.eventually("line-15-of-15")
		b.Expect(strings.Count(b.text(), "line-1-of-15\n")).To(Equal(1), "no line appears twice")
	})
	t.Run("a lost connection recovers", func(*testing.T) {
		b.goTo("/")
		b.shows("quickstart")
		// A restart can be faster than the page notices.
		b.Eventually(func() string {
			q.kill(controlplane.APIServer)
			return b.text()
		}, slow, time.Second).Should(ContainSubstring("The management cluster is unreachable:"))
		b.Eventually(b.text, slow).ShouldNot(ContainSubstring("The management cluster is unreachable:"))
		q.Eventually(func() error { return q.client.Create(t.Context(), pausedCluster("recovered")) }, slow).Should(Succeed())
		b.eventually("recovered")
	})
	t.Run("1,000 clusters scroll", func(t *testing.T) {
		for i := range 1000 {
			q.Expect(q.client.Create(t.Context(), pausedCluster(fmt.Sprintf("c%04d", i)))).To(Succeed())
		}
		b.scrolls(1000, "scale.json")
	})
}

// approves approves a plan as a user who may, after another one was refused.
func (q *quickstart) approves(t *testing.T) {
	t.Helper()
	q.workspace("reviewed", infrav1.ApprovalManual, `resource "terraform_data" "this" {
  input = "approved"
}

output "result" {
  value = terraform_data.this.output
}
`)
	viewer := open(t, serve(t, q.as("anna", "viewer"), "default"))
	viewer.goTo("/workspaces/default/reviewed")
	viewer.eventually("This plan waits for approval.")
	viewer.shows("You may not approve plans: ask for the role capt-approver.")
	viewer.Expect(value[bool](viewer, button("Approve")+".disabled")).To(BeTrue())
	apply := &infrav1.WorkspaceTemplateApply{}
	q.Expect(q.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "reviewed"}, apply)).To(Succeed())
	// A request without the button is refused by the management cluster.
	body, err := json.Marshal(map[string]string{"plan": apply.Status.Plan.ID})
	q.Expect(err).NotTo(HaveOccurred())
	refusal := value[string](viewer, fmt.Sprintf(`fetch("/api/v1/workspaces/default/reviewed/approve", {method: "POST", body: %q,
		headers: {"Content-Type": "application/json", Authorization: "Bearer " + sessionStorage.getItem("capt-session")}}).then(async r => r.status + " " + await r.text())`, body))
	viewer.Expect(refusal).To(And(HavePrefix("403 "), ContainSubstring("capt-approver")))

	approver := open(t, serve(t, q.as("ben", "viewer", "approver"), "default"))
	approver.goTo("/workspaces/default/reviewed")
	approver.click("Approve")
	approver.shows("Apply this plan to reviewed?")
	approver.script(`[...document.querySelectorAll("dialog button")].find(b => b.textContent === "Approve").click()`)
	approver.eventually("The plan is approved.")
	approver.eventually("Approved by ben.")
	viewer.Eventually(func() string { return value[string](viewer, `document.querySelector(".title .badge").textContent`) }, slow).
		Should(ContainSubstring("Ready"), "the other user sees the result")
	// The browser reports the refusals: neither of them may read the Secrets with logs.
	viewer.ignoreProblems()
	approver.ignoreProblems()
}

// kill kills a part of the management cluster, which is then started again.
func (q *quickstart) kill(name string) {
	q.t.Helper()
	status, err := q.env.Status(q.t.Context())
	q.Expect(err).NotTo(HaveOccurred())
	for _, part := range status.Parts {
		if part.Name == name && part.Running && part.PID > 0 {
			_ = syscall.Kill(part.PID, syscall.SIGKILL)
		}
	}
}

// pausedCluster returns a Cluster that no controller changes.
func pausedCluster(name string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	cluster.Spec.Paused = new(true)
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "x"}
	return cluster
}

// scrolls checks that a list of many clusters scrolls, and writes how fast that is.
func (b *browser) scrolls(clusters int, file string) {
	b.t.Helper()
	b.Eventually(func() int {
		return value[int](b, `parseInt(document.querySelector(".counters b")?.textContent ?? "0")`)
	}, slow).Should(BeNumerically(">=", clusters))
	b.run(chromedp.Reload())
	b.Eventually(func() int {
		return value[int](b, `parseInt(document.querySelector(".counters b")?.textContent ?? "0")`)
	}, slow, 50*time.Millisecond).Should(BeNumerically(">=", clusters))
	loaded := value[float64](b, "performance.now()")
	longest := value[float64](b, `(async () => {
		let longest = 0;
		new PerformanceObserver(list => list.getEntries().forEach(e => longest = Math.max(longest, e.duration))).observe({type: "longtask"});
		for (let y = 0; y < 10000; y += 250) { scrollTo(0, y); await new Promise(requestAnimationFrame); }
		await new Promise(done => setTimeout(done, 100));
		return longest;
	})()`)
	rows := value[int](b, `document.querySelectorAll("a.fleet-row").length`)
	heap := value[float64](b, `performance.memory?.usedJSHeapSize ?? 0`)
	b.Expect(value[string](b, `[...document.querySelectorAll("a.fleet-row strong")].map(e => e.textContent).join()`)).To(ContainSubstring("c01"), "the list has scrolled")
	b.Expect(rows).To(BeNumerically("<", 60), "only visible rows are in the document")
	b.Expect(heap).To(BeNumerically("<", 80<<20))
	numbers := fmt.Sprintf(`{"clusters":%d,"loadedMilliseconds":%.0f,"longestTaskMilliseconds":%.0f,"rowsInDocument":%d,"heapBytes":%.0f}`, clusters, loaded, longest, rows, heap)
	b.t.Log(numbers)
	b.Expect(os.WriteFile(filepath.Join(images, file), []byte(numbers+"\n"), 0o644)).To(Succeed())
}
