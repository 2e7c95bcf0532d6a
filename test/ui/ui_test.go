// Package ui tests the page of captctl ui in a real browser, against a real API server
// whose objects are written by the test. make test-ui runs it.
package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/web"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	timeout = time.Minute
	planID  = "plan-4f1c2a9be07d3315"
)

var (
	env *testenv.Environment
	// axe is the source of axe-core.
	axe string
	// images is where screenshots are written.
	images string
)

func TestMain(m *testing.M) {
	if os.Getenv("CAPT_TEST_UI") == "" {
		fmt.Println("skipped: run make test-ui")
		return
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(testenv.Run(m, &env))
}

func prepare() error {
	if !web.Built() {
		return errors.New("the page is not built: run make ui")
	}
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	source, err := os.ReadFile(filepath.Join(root, "ui", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		return fmt.Errorf("reading axe-core: %w", err)
	}
	axe, images = string(source), filepath.Join(root, "out", "ui")
	return os.MkdirAll(images, 0o755)
}

// fleet creates the objects of the screenshots, once.
var fleet = sync.OnceValue(func() error {
	content, err := os.ReadFile(filepath.Join("testdata", "fleet.yaml"))
	if err != nil {
		return err
	}
	now := time.Now()
	ago := func(text string) (string, error) {
		d, err := time.ParseDuration(text)
		return now.Add(-d).UTC().Format(time.RFC3339), err
	}
	source, err := template.New("fleet").Funcs(template.FuncMap{"ago": ago}).Parse(string(content))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := source.Execute(&out, nil); err != nil {
		return err
	}
	ctx := context.Background()
	for _, namespace := range []string{"team-a", "team-b"} {
		if err := env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
	}
	owners := map[string]metav1.OwnerReference{}
	for document := range strings.SplitSeq(out.String(), "\n---\n") {
		if err := create(ctx, document, owners); err != nil {
			return err
		}
	}
	return createRecords(ctx)
})

// create creates an object with its status.
func create(ctx context.Context, document string, owners map[string]metav1.OwnerReference) error {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
		return err
	}
	status, has := obj.Object["status"]
	if owner := obj.GetAnnotations()["owner"]; owner != "" {
		obj.SetOwnerReferences([]metav1.OwnerReference{owners[obj.GetNamespace()+"/"+owner]})
		obj.SetAnnotations(nil)
	}
	if err := env.Client.Create(ctx, obj); err != nil {
		return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	owners[obj.GetNamespace()+"/"+obj.GetKind()+"/"+obj.GetName()] = metav1.OwnerReference{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(), Controller: new(true),
	}
	if !has {
		return nil
	}
	obj.Object["status"] = status
	if err := env.Client.Status().Update(ctx, obj); err != nil {
		return fmt.Errorf("status of %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// changes are the details of the waiting plan.
const changes = `{"resource":{"address":"module.network.aws_vpc.this","action":"update","attributes":[{"path":["enable_dns_hostnames"],"action":"update","before":false,"after":true},{"path":["tags","Name"],"action":"update","before":"staging","after":"staging-v2"},{"path":["tags","CostCenter"],"action":"create","after":"42"}],"unchanged":18}}
{"resource":{"address":"module.network.aws_nat_gateway.this","action":"replace","reason":"cannot_update","attributes":[{"path":["connectivity_type"],"action":"update","before":"public","after":"private","replaces":true},{"path":["id"],"action":"update","before":"nat-0123456789abcdef0","unknown":true},{"path":["secret_token"],"action":"update","sensitive":true}],"unchanged":4}}
{"resource":{"address":"module.network.aws_route_table.private","action":"update","attributes":[{"path":["route",0,"nat_gateway_id"],"action":"update","before":"nat-0123456789abcdef0","unknown":true}],"unchanged":6}}
{"output":{"name":"nat_gateway_ids","action":"update","attributes":[{"path":[0],"action":"update","before":"nat-0123456789abcdef0","unknown":true}]}}
`

// createRecords creates the records of the waiting plan and of the run in progress.
func createRecords(ctx context.Context) error {
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: "team-a", Name: "staging-vpc"}, apply); err != nil {
		return err
	}
	ref := terraform.WorkspaceRef{Namespace: "team-a", Name: "staging-vpc", UID: string(apply.UID)}
	chunks, err := record.Chunks(record.ChangesName(planID), []byte(changes), record.Meta(ref, record.ComponentPlan, "staging-vpc-r3"))
	if err != nil {
		return err
	}
	for _, chunk := range chunks {
		if err := env.Client.Create(ctx, chunk); err != nil {
			return err
		}
	}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: "team-b", Name: "new-eks"}, apply); err != nil {
		return err
	}
	request := &terraform.Request{RunID: runID, Workspace: terraform.WorkspaceRef{Namespace: "team-b", Name: "new-eks", UID: string(apply.UID)}}
	secret, err := record.NewRun(request, record.Meta(request.Workspace, record.ComponentRun, runID))
	if err != nil {
		return err
	}
	if err := env.Client.Create(ctx, secret); err != nil {
		return err
	}
	return writeLog(ctx, firstLog)
}

const (
	runID    = "new-eks-r1"
	firstLog = "module.eks.aws_iam_role.cluster: Creating...\nmodule.eks.aws_iam_role.cluster: Creation complete after 2s [id=new-cluster]\nmodule.eks.aws_eks_cluster.this: Creating...\nmodule.eks.aws_eks_cluster.this: Still creating... [1m30s elapsed]\n"
)

// writeLog writes the log of the run in progress as the runner does.
func writeLog(ctx context.Context, text string) error {
	content, err := record.ProgressPatch(terraform.Progress{}, []byte(text))
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: record.SecretName(runID)}}
	return env.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, content))
}

// browser is a tab.
type browser struct {
	*WithT
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// serve serves the page with a configuration and returns a one-time link.
func serve(t *testing.T, config *rest.Config, namespace string) string {
	t.Helper()
	link, _ := serveAt(t, config, namespace, "127.0.0.1:0")
	return link
}

// serveAt serves the page at an address until stop is called or the test ends.
func serveAt(t *testing.T, config *rest.Config, namespace, address string) (link string, stop func()) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(fleet()).To(Succeed())
	server, err := web.New(web.Options{Config: config, Context: "management", Namespace: namespace})
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp4", address)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	g.Expect(server.Listen(listener)).To(Succeed())
	go func() { served <- server.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		g.Expect(<-served).To(Succeed())
	})
	t.Cleanup(stop)
	return server.Link(time.Hour), stop
}

// open opens a link in a new browser.
func open(t *testing.T, link string) *browser {
	t.Helper()
	path := os.Getenv("CHROME")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			t.Fatal("Chromium is not installed: run apt-get install chromium, or set CHROME")
		}
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.WindowSize(1280, 800))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	ctx, expire := context.WithTimeout(ctx, 5*time.Minute)
	b := &browser{WithT: NewWithT(t), t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go b.listen(messages)
	t.Cleanup(func() {
		expire()
		cancel()
		stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Expect(b.problems).To(BeEmpty(), "errors in the console")
	})
	b.run(chromedp.Navigate(link))
	return b
}

// listen collects errors of the page: exceptions, failed requests and violations of
// the content security policy.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			return
		}
		if message.Type != chromedp.ConsoleError && message.Type != chromedp.ConsoleException {
			continue
		}
		b.mu.Lock()
		b.problems = append(b.problems, message.Text+" "+message.URL)
		b.mu.Unlock()
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.Expect(chromedp.Do(b.ctx, actions...)).To(Succeed())
}

// script runs a statement in the page.
func (b *browser) script(text string) {
	b.t.Helper()
	b.run(chromedp.Evaluate[chromedp.Void](text))
}

// text returns the visible text of the page.
func (b *browser) text() string {
	return value[string](b, "document.body.innerText")
}

// value returns the result of an expression.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	b.Expect(err).NotTo(HaveOccurred())
	return result
}

func (b *browser) shows(text string) {
	b.t.Helper()
	b.Eventually(b.text, timeout, 100*time.Millisecond).Should(ContainSubstring(text))
}

// goTo opens a page by the router, as a link does.
func (b *browser) goTo(path string) {
	b.t.Helper()
	b.script(fmt.Sprintf(`history.pushState(null, "", %q); dispatchEvent(new PopStateEvent("popstate"))`, path))
}

func (b *browser) size(width, height int64) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(width, height))
}

// screenshot writes an image of the whole page.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(os.WriteFile(filepath.Join(images, name+".png"), image, 0o644)).To(Succeed())
}

// violations returns what axe finds.
func (b *browser) violations() []string {
	b.t.Helper()
	b.script(axe + "; undefined")
	result := value[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + " " + n.failureSummary))))`)
	var found []string
	b.Expect(json.Unmarshal([]byte(result), &found)).To(Succeed())
	return found
}

func TestPages_areAccessible(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	paint := value[float64](b, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`)
	t.Logf("first contentful paint after %.0f ms", paint)
	b.Expect(value[string](b, "location.hash")).To(BeEmpty(), "the token leaves the address bar")
	// axe is injected.
	_, err := chromedp.Call(b.ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
	b.Expect(err).NotTo(HaveOccurred())
	pages := []struct{ name, path, text string }{
		{"fleet", "/", "production"},
		{"matrix", "/?view=matrix", "cert-manager"},
		{"cluster", "/clusters/team-a/staging", "staging-vpc"},
		{"cluster-new", "/clusters/team-b/new", "new-eks"},
		{"cluster-failed", "/clusters/team-b/edge", "ResourceLimitExceeded"},
		{"workspace", "/workspaces/team-a/staging-vpc", "module.network.aws_nat_gateway.this"},
		{"workspace-running", "/workspaces/team-b/new-eks", "Still creating"},
		{"addons", "/addons", "karpenter"},
		{"addon", "/addons/team-b/karpenter", "batch"},
		{"events", "/events", "RunFailed"},
		{"missing", "/clusters/team-a/none", "none"},
	}
	for _, size := range []struct{ width, height int64 }{{1280, 800}, {390, 844}} {
		b.size(size.width, size.height)
		for _, theme := range []string{"light", "dark"} {
			b.script(`document.documentElement.dataset.theme = "` + theme + `"`)
			for _, p := range pages {
				b.goTo(p.path)
				b.shows(p.text)
				if p.name == "workspace" {
					b.script(`document.querySelectorAll("details.change")[1].open = true`)
					b.shows("forces replacement")
				}
				b.Expect(value[bool](b, `document.documentElement.scrollWidth <= innerWidth`)).To(BeTrue(), "%s is wider than %d", p.name, size.width)
				b.screenshot(fmt.Sprintf("%s-%d-%s", p.name, size.width, theme))
				b.Expect(b.violations()).To(BeEmpty(), "%s at %d, %s", p.name, size.width, theme)
			}
		}
	}
	b.size(1280, 800)
	b.script(`document.documentElement.dataset.theme = "light"; [...document.querySelectorAll("button")].find(b => b.lang === "ja").click()`)
	for _, p := range pages[:6] {
		b.goTo(p.path)
		b.shows("クラスター")
		b.shows(p.text)
		b.screenshot(p.name + "-1280-ja")
	}
	b.Expect(value[string](b, "document.documentElement.lang")).To(Equal("ja"))
}

// bind gives a user a role in the namespace team-a.
func bind(t *testing.T, user string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	g := NewWithT(t)
	g.Expect(fleet()).To(Succeed())
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: user}, Rules: append(rules, rbacv1.PolicyRule{
		APIGroups: []string{"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
	})}
	g.Expect(env.Client.Create(t.Context(), role)).To(Succeed())
	g.Expect(env.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	})).To(Succeed())
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = user
	return config
}

func TestWorkspace_approveIsRefusedWithoutTheRole(t *testing.T) {
	b := open(t, serve(t, bind(t, "viewer"), "team-a"))
	b.shows("Only namespaces team-a")
	b.Expect(b.text()).NotTo(ContainSubstring("team-b"))
	b.goTo("/workspaces/team-a/staging-vpc")
	b.shows("You may not approve plans: ask for the role capt-approver.")
	b.shows("You lack the permission to get secrets in team-a.")
	b.Expect(value[bool](b, `[...document.querySelectorAll("button")].find(b => b.textContent === "Approve").disabled`)).To(BeTrue())
	b.screenshot("viewer-1280-light")
	b.goTo("/addons")
	b.shows("You lack the permission to list captaddons.addons.cluster.x-k8s.io. The role capt-viewer has it.")
	b.screenshot("denied-1280-light")
}

// press presses keys one after the other.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

func TestWorkspace_isApprovedWithTheKeyboard(t *testing.T) {
	config := bind(t, "approver",
		rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspacetemplateapplies", "workspacetemplateapplies/approval"}, Verbs: []string{"patch", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}})
	b := open(t, serve(t, config, "team-a"))
	b.shows("staging")
	// The first row needs a user most. From its search field, the keyboard leads there.
	// chromedp types a character even if the page handles its key.
	b.script(`document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true}))`)
	b.Expect(value[string](b, "document.activeElement.type")).To(Equal("search"))
	b.run(chromedp.KeyEvent("staging"))
	b.Eventually(func() string { return value[string](b, "location.search") }, timeout).Should(Equal("?q=staging"))
	b.script(`document.querySelector("a.fleet-row").focus()`)
	b.press(kb.Enter)
	b.shows("Waits for you")
	b.Eventually(func() string { return value[string](b, "document.activeElement.tagName") }, timeout).Should(Equal("H1"))
	b.press(kb.Tab, kb.Enter)
	b.shows("1 to add, 2 to change, 1 to destroy.")
	approve := `[...document.querySelectorAll("button")].find(b => b.textContent === "Approve")`
	b.Eventually(func() bool { return value[bool](b, approve+"?.disabled === false") }, timeout).Should(BeTrue())
	b.script(approve + ".focus()")
	b.press(kb.Enter)
	b.shows("Type module.network.aws_nat_gateway.this to allow its destruction")
	b.screenshot("approve-1280-light")
	inDialog := `[...document.querySelectorAll("dialog button")].find(b => b.textContent === "Approve").disabled`
	b.Expect(value[bool](b, inDialog)).To(BeTrue(), "before the address is typed")
	b.run(chromedp.KeyEvent("module.network.aws_nat_gateway.this"))
	b.Eventually(func() bool { return value[bool](b, inDialog) }, timeout).Should(BeFalse())
	b.press(kb.Tab)
	b.run(chromedp.KeyEvent("Agreed with the network team"))
	b.press(kb.Tab, kb.Enter)
	b.shows("The plan is approved.")
	apply := &infrav1.WorkspaceTemplateApply{}
	b.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "staging-vpc"}, apply)).To(Succeed())
	b.Expect(apply.Spec.ApprovedPlan).To(Equal(planID))
	b.Expect(apply.Annotations[infrav1.AllowDestroyAnnotation]).To(Equal("module.network.aws_nat_gateway.this"))
	b.Expect(infrav1.CommentOf(apply, planID)).To(Equal("Agreed with the network team"))
}

func TestLog_follows(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	b.goTo("/workspaces/team-b/new-eks")
	b.shows("[1m30s elapsed]")
	more := firstLog + "module.eks.aws_eks_cluster.this: Creation complete after 9m2s\n"
	b.Expect(writeLog(t.Context(), more)).To(Succeed())
	b.shows("Creation complete after 9m2s")
	b.Expect(strings.Count(b.text(), "[1m30s elapsed]")).To(Equal(1), "no line appears twice")
}

func TestCluster_appearsAndTurnsReady(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "fresh"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "fresh"}
	b.Expect(env.Client.Create(t.Context(), cluster)).To(Succeed())
	b.shows("fresh")
	b.goTo("/clusters/team-b/fresh")
	b.shows("The Cluster references it, but it does not exist: create it")
	cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: metav1.Now()}}
	b.Expect(env.Client.Status().Update(t.Context(), cluster)).To(Succeed())
	b.goTo("/?q=fresh")
	b.Eventually(func() string { return value[string](b, `document.querySelector("a.fleet-row")?.innerText ?? ""`) }, timeout).Should(ContainSubstring("fresh"))
	b.Expect(env.Client.Delete(t.Context(), cluster)).To(Succeed())
	b.shows("No cluster matches the filters.")
}

// gate is a network that can be cut.
type gate struct {
	mu          sync.Mutex
	cut         bool
	connections []net.Conn
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut {
		return nil, errors.New("network is cut")
	}
	connection, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		g.connections = append(g.connections, connection)
	}
	return connection, err
}

func (g *gate) set(cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = cut
	if cut {
		for _, connection := range g.connections {
			_ = connection.Close()
		}
		g.connections = nil
	}
}

func TestConnection_recovers(t *testing.T) {
	network := &gate{}
	config := rest.CopyConfig(env.Config)
	config.Dial = network.dial
	b := open(t, serve(t, config, "default"))
	b.shows("production")
	network.set(true)
	b.shows("The management cluster is unreachable:")
	b.shows("production")
	b.screenshot("lost-1280-light")
	network.set(false)
	b.Eventually(b.text, timeout).ShouldNot(ContainSubstring("The management cluster is unreachable:"))
}

func TestLink_isUsedOnce(t *testing.T) {
	link := serve(t, env.Config, "default")
	first := open(t, link)
	first.shows("production")
	second := open(t, link)
	second.shows("The link was used before or has expired: open a new link of captctl ui.")
	second.screenshot("login-1280-light")
	second.ignoreProblems()
	// Another tab of the same browser shares the session.
	tab, cancel := chromedp.NewContext(first.ctx)
	defer cancel()
	base, _, _ := strings.Cut(link, "#")
	first.Expect(chromedp.Do(tab, chromedp.Navigate(base+"events"), chromedp.WaitVisible("ul.events"))).To(Succeed())
	text, err := chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
	first.Expect(err).NotTo(HaveOccurred())
	first.Expect(text).To(ContainSubstring("RunFailed"))
}

// ignoreProblems forgets the errors of the console that a test expects.
func (b *browser) ignoreProblems() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = nil
}

func TestSession_endsWithoutLosingThePage(t *testing.T) {
	link, stop := serveAt(t, env.Config, "default", "127.0.0.1:0")
	address := strings.TrimPrefix(strings.SplitN(link, "/#", 2)[0], "http://")
	b := open(t, link)
	b.shows("production")
	b.goTo("/workspaces/team-a/staging-vpc")
	reject := `[...document.querySelectorAll("button")].find(b => b.textContent === "Reject")`
	b.Eventually(func() bool { return value[bool](b, reject+"?.disabled === false") }, timeout).Should(BeTrue())
	b.script(reject + ".click()")
	b.shows("Reject the plan of staging-vpc?")
	b.script(`document.querySelector("dialog input").focus()`)
	b.run(chromedp.KeyEvent("Not this week"))

	stop()
	b.shows("Connection to captctl lost: trying again.")
	b.screenshot("stopped-1280-light")
	link, _ = serveAt(t, env.Config, "default", address)
	b.shows("Your session has ended")
	b.screenshot("ended-1280-light")
	b.size(390, 844)
	b.screenshot("ended-390-light")
	b.size(1280, 800)
	b.script(`document.querySelector("dialog form input").focus()`)
	b.run(chromedp.KeyEvent(link))
	b.press(kb.Enter)
	b.Eventually(b.text, timeout).ShouldNot(ContainSubstring("Your session has ended"))
	b.shows("Reject the plan of staging-vpc?")
	b.Expect(value[string](b, `document.querySelector("dialog input").value`)).To(Equal("Not this week"))
	b.Expect(value[string](b, "location.pathname")).To(Equal("/workspaces/team-a/staging-vpc"))
	b.ignoreProblems()
}

func TestFleet_scrollsThroughManyClusters(t *testing.T) {
	const clusters = 1000
	g := NewWithT(t)
	g.Expect(fleet()).To(Succeed())
	namespace := env.Namespace(t)
	var wait sync.WaitGroup
	failed := make(chan error, clusters)
	for worker := range 8 {
		wait.Go(func() {
			for i := worker; i < clusters; i += 8 {
				cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c%04d", i)}}
				cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "x"}
				failed <- env.Client.Create(context.Background(), cluster)
			}
		})
	}
	wait.Wait()
	close(failed)
	for err := range failed {
		g.Expect(err).NotTo(HaveOccurred())
	}
	t.Cleanup(func() {
		_ = env.Client.DeleteAllOf(context.Background(), &clusterv1.Cluster{}, client.InNamespace(namespace))
	})
	b := open(t, serve(t, env.Config, "default"))
	b.Eventually(func() int {
		return value[int](b, `parseInt(document.querySelector(".counters b")?.textContent ?? "0")`)
	}, timeout).Should(BeNumerically(">=", clusters))
	snapshot := value[float64](b, "performance.now()")
	longest := value[float64](b, `(async () => {
		let longest = 0;
		new PerformanceObserver(list => list.getEntries().forEach(e => longest = Math.max(longest, e.duration))).observe({type: "longtask"});
		for (let y = 0; y < 10000; y += 250) { scrollTo(0, y); await new Promise(requestAnimationFrame); }
		await new Promise(done => setTimeout(done, 100));
		return longest;
	})()`)
	rows := value[int](b, `document.querySelectorAll("a.fleet-row").length`)
	heap := value[float64](b, `performance.memory?.usedJSHeapSize ?? 0`)
	b.Expect(rows).To(BeNumerically("<", 60), "only visible rows are in the document")
	b.Expect(heap).To(BeNumerically("<", 80<<20))
	numbers := fmt.Sprintf(`{"clusters":%d,"snapshotMilliseconds":%.0f,"longestTaskMilliseconds":%.0f,"rowsInDocument":%d,"heapBytes":%.0f}`, clusters, snapshot, longest, rows, heap)
	t.Log(numbers)
	b.Expect(os.WriteFile(filepath.Join(images, "scale.json"), []byte(numbers+"\n"), 0o644)).To(Succeed())
}
