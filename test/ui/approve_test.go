package ui

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

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
	b.shows("You may not start or stop runs: ask for the role capt-editor.")
	b.shows("module.network.aws_route_table.private")
	b.script(`document.querySelectorAll("details.change")[0].open = true`)
	b.shows("staging-v2")
	b.Expect(value[bool](b, `[...document.querySelectorAll("button")].find(b => b.textContent === "Approve").disabled`)).To(BeTrue())
	b.screenshot("viewer-1280-light")
	b.goTo("/addons")
	b.shows("You lack the permission to list captaddons.addons.cluster.x-k8s.io. The role capt-viewer has it.")
	b.screenshot("denied-1280-light")
}

func TestPolicies_deniedPlansAreFoundAndCannotBeApproved(t *testing.T) {
	b := open(t, serve(t, env.Config, "default"))
	b.shows("production")
	b.goTo("/?policy=Deny")
	b.Eventually(func() string {
		return value[string](b, `[...document.querySelectorAll("a.fleet-row strong")].map(e => e.textContent).join()`)
	}, timeout).Should(Equal("sandbox"))
	b.goTo("/workspaces/team-b/sandbox-vpc")
	b.shows("A policy denies this plan, so it cannot be approved.")
	b.shows("ClusterWorkspacePolicy allowed-regions, rule region")
	b.shows("and 21 more")
	b.Expect(value[int](b, `[...document.querySelectorAll("button")].filter(b => ["Approve", "Reject"].includes(b.textContent)).length`)).To(BeZero())
}

func TestWorkspace_isApprovedWithTheKeyboard(t *testing.T) {
	config := bind(t, "approver",
		rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspaceapprovals"}, Verbs: []string{"create"}})
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
	b.Expect(value[string](b, `document.querySelector("dialog").innerText`)).To(ContainSubstring("ClusterWorkspacePolicy approve-destructive, rule destroyed"))
	b.screenshot("approve-1280-light")
	inDialog := `[...document.querySelectorAll("dialog button")].find(b => b.textContent === "Approve").disabled`
	b.Expect(value[bool](b, inDialog)).To(BeTrue(), "before the address is typed")
	b.run(chromedp.KeyEvent("module.network.aws_nat_gateway.this"))
	b.Eventually(func() bool { return value[bool](b, inDialog) }, timeout).Should(BeFalse())
	b.press(kb.Tab)
	b.run(chromedp.KeyEvent("Agreed with the network team"))
	b.press(kb.Tab, kb.Enter)
	b.shows("The plan is approved.")
	var approvals infrav1.WorkspaceApprovalList
	b.Expect(env.Client.List(t.Context(), &approvals, client.InNamespace("team-a"))).To(Succeed())
	b.Expect(approvals.Items).To(HaveLen(1))
	decision := approvals.Items[0].Spec
	b.Expect(decision.Plan).To(Equal(planID))
	b.Expect(decision.Decision).To(Equal(infrav1.DecisionApprove))
	b.Expect(decision.AllowDestroy).To(Equal([]string{"module.network.aws_nat_gateway.this"}))
	b.Expect(decision.Comment).To(Equal("Agreed with the network team"))
}
