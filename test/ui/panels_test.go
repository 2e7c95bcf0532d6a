package ui

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// panel returns the text of a part of the page with a heading.
func (b *browser) panel(title string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf(`[...document.querySelectorAll("section.panel")].find(s => s.getAttribute("aria-label").startsWith(%q))?.innerText ?? ""`, title))
}

func TestPanels_showWhatIsKnown(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	for _, test := range []struct {
		path, panel string
		texts       []string
	}{
		{"/clusters/team-a/production", "Objects", []string{"production-vpc", "production-eks", "23 resources"}},
		{"/clusters/team-a/production", "Connect with kubectl", []string{"get kubeconfig production"}},
		{"/clusters/team-a/tools", "Timeline", []string{"Creation", "Upgrade", "CAPTControlPlane/tools"}},
		{"/clusters/team-b/edge", "Problems", []string{"ResourceLimitExceeded", "Cause", "Next", "Troubleshooting"}},
		{"/workspaces/team-a/production-vpc", "Outputs", []string{"vpc_id", "vpc-0a1b2c3d4e5f60718", "production-vpc-outputs"}},
		{"/workspaces/team-a/production-vpc", "Drift", []string{"No drift"}},
		{"/workspaces/team-a/staging-vpc", "Drift", []string{"module.network.aws_vpc.this"}},
		{"/workspaces/team-a/staging-vpc", "History", []string{"Apply Succeeded", "2m2s", "Apply Failed", "VpcLimitExceeded"}},
		{"/workspaces/team-b/new-eks", "Run new-eks-r1", []string{"Applying", "9 of 41 resources", "module.eks.aws_eks_cluster.this"}},
	} {
		b.goTo(test.path)
		for _, text := range test.texts {
			b.Eventually(func() string { return b.panel(test.panel) }, timeout).Should(ContainSubstring(text), "%s of %s", test.panel, test.path)
		}
	}
	b.Expect(value[string](b, `document.querySelector("[role=progressbar]").getAttribute("aria-valuenow")`)).To(Equal("9"))
}

func TestWorkspaces_areFoundWithoutACluster(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	b.script(`[...document.querySelectorAll("nav a")].find(a => a.textContent === "Workspaces").click()`)
	b.shows("shared-dns")
	// The key is for the shortcut, and not for the field: a browser suppresses what a
	// handled key types, the protocol of the test does not.
	handled := value[bool](b, `!document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true}))`)
	b.Expect(handled).To(BeTrue())
	b.press("d", "n", "s")
	b.Eventually(func() string { return value[string](b, "location.search") }, timeout).Should(Equal("?q=dns"))
	b.Eventually(func() int { return value[int](b, `document.querySelectorAll("a.fleet-row").length`) }, timeout).Should(Equal(1))
	b.script(`document.querySelector("a.fleet-row").click()`)
	b.shows("aws_route53_record.www")
	b.Expect(value[string](b, "location.pathname")).To(Equal("/workspaces/team-a/shared-dns"))
}

func TestWorkspace_staysOnThePageWhenItIsDeleted(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "short-lived"},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "vpc"}},
	}
	b.Expect(env.Client.Create(t.Context(), apply)).To(Succeed())
	apply.Status.History = []infrav1.RunRecord{{ID: "short-lived-r1", Operation: "Destroy", Outcome: "Succeeded", StartedAt: metav1.Now(), Summary: "7 destroyed"}}
	b.Expect(env.Client.Status().Update(t.Context(), apply)).To(Succeed())
	b.goTo("/workspaces/team-b/short-lived")
	b.shows("7 destroyed")
	b.Expect(env.Client.Delete(t.Context(), apply)).To(Succeed())
	b.shows("This object does not exist, or was deleted.")
	b.Expect(b.text()).To(And(ContainSubstring("7 destroyed"), Not(ContainSubstring("Run again"))))
}

// The settings have a menu of their own where the header has no room for them.
func TestSettings_areInAMenuOnAPhone(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.size(390, 844)
	b.shows("production")
	visible := func() bool {
		return value[bool](b, `[...document.querySelectorAll("button")].some(b => b.lang === "ja" && b.checkVisibility())`)
	}
	b.Expect(visible()).To(BeFalse())
	b.script(`document.querySelector("[aria-label=Settings]").click()`)
	b.Eventually(visible, timeout).Should(BeTrue())
	b.shows("management")
	b.fits("settings")
	b.screenshot("settings-390-light")
}
