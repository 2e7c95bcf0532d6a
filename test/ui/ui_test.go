package ui

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/web"
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

func TestPages_areAccessible(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	b.Expect(value[string](b, "location.hash")).To(BeEmpty(), "the token leaves the address bar")
	// axe is injected.
	b.Expect(chromedp.Call(b.ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})).Error().NotTo(HaveOccurred())
	pages := []struct{ name, path, text string }{
		{"fleet", "/", "production"},
		{"matrix", "/?view=matrix", "cert-manager"},
		{"workspaces", "/workspaces", "shared-dns"},
		{"cluster", "/clusters/team-a/staging", "staging-vpc"},
		{"cluster-new", "/clusters/team-b/new", "new-eks"},
		{"cluster-upgraded", "/clusters/team-a/tools", "Upgrading"},
		{"cluster-deleting", "/clusters/team-b/legacy", "NodesGone"},
		{"cluster-failed", "/clusters/team-b/edge", "ResourceLimitExceeded"},
		{"workspace", "/workspaces/team-a/staging-vpc", "module.network.aws_route_table.private"},
		{"workspace-denied", "/workspaces/team-b/sandbox-vpc", "module.network.aws_vpc.this is in us-west-2"},
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
				b.fits(p.name)
				b.screenshot(fmt.Sprintf("%s-%d-%s", p.name, size.width, theme))
				b.Expect(b.violations()).To(BeEmpty(), "%s at %d, %s", p.name, size.width, theme)
			}
		}
	}
	// Text of twice the size on a small screen.
	b.size(320, 640)
	for _, p := range pages {
		b.goTo(p.path)
		b.shows(p.text)
		b.fits(p.name)
	}
	b.script(`document.documentElement.dataset.theme = "light"; [...document.querySelectorAll("button")].find(b => b.lang === "ja").click()`)
	for _, width := range []int64{390, 1280} {
		b.size(width, 844)
		for _, p := range pages {
			b.goTo(p.path)
			b.shows("クラスター")
			b.shows(p.text)
			b.fits(p.name)
			b.Expect(value[int](b, `document.querySelector(".top").offsetHeight`)).To(BeNumerically("<", 80), "the header has one line at %d", width)
			b.screenshot(fmt.Sprintf("%s-%d-ja", p.name, width))
			b.Expect(b.violations()).To(BeEmpty(), "%s at %d in Japanese", p.name, width)
		}
	}
	b.Expect(value[string](b, "document.documentElement.lang")).To(Equal("ja"))
}

// make docs-images writes the images of the documentation, too.
func TestPages_areInTheDocumentation(t *testing.T) {
	root, err := testenv.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	for _, image := range []struct {
		name, path, text string
		width, height    int64
	}{
		{"ui-fleet", "/", "production", 1280, 660},
		{"ui-plan", "/workspaces/team-a/staging-vpc", "module.network.aws_route_table.private", 1280, 900},
		{"ui-cluster", "/clusters/team-a/tools", "Upgrading", 1280, 960},
		{"ui-phone", "/", "production", 390, 844},
	} {
		b.size(image.width, image.height)
		b.goTo(image.path)
		b.shows(image.text)
		if image.name == "ui-plan" {
			b.script(`document.querySelectorAll("details.change")[1].open = true`)
			b.shows("forces replacement")
		}
		b.script("scrollTo(0, 0)")
		b.Eventually(func() bool { return value[bool](b, `!!document.querySelector(".link.live")`) }, timeout).Should(BeTrue())
		content, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		b.Expect(err).NotTo(HaveOccurred())
		file := filepath.Join("docs", "images", image.name+".png")
		b.Expect(os.ReadFile(filepath.Join(root, "docs", "ui.md"))).To(ContainSubstring("images/" + image.name + ".png"))
		if os.Getenv("CAPT_DOCS_IMAGES") != "" {
			b.Expect(os.WriteFile(filepath.Join(root, file), content, 0o644)).To(Succeed())
		}
	}
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
