package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const (
	networkModule = "variable \"cidr\" {\n  type = string\n}\n\noutput \"cidr\" {\n  value = var.cidr\n}\n"
	networkState  = `{"version": 4, "lineage": "a-lineage", "serial": 3, "resources": [{}, {}]}`
)

// moduleDir writes files and returns their directory.
func moduleDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	return dir
}

func TestAdoptState_printsObjectsThatOnlyObserve(t *testing.T) {
	g := NewWithT(t)
	dir := moduleDir(t, map[string]string{"main.tf": networkModule, "values.tfvars.json": `{"cidr": "10.0.0.0/16"}`})
	out, problem, code := captctl(t, "", "adopt", "state", "net", "--module", dir, "--variables", filepath.Join(dir, "values.tfvars.json"), "--provider-config", "aws", "--dry-run")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(And(
		ContainSubstring("kind: WorkspaceTemplate\n"), ContainSubstring("      providerConfigRef:\n        name: aws\n"), ContainSubstring("          variable \"cidr\" {\n"),
		ContainSubstring("kind: WorkspaceTemplateApply\n"), ContainSubstring("  adoption: Observe\n"), ContainSubstring("  retainWorkspaceOnDelete: true\n"),
		ContainSubstring("  variables:\n    cidr: 10.0.0.0/16\n"), ContainSubstring("    name: net-connection\n"),
	))
	_, problem, code = captctl(t, out, "validate", "-")
	g.Expect(code).To(Equal(0), problem)
}

func TestAdoptState_refusesWhatIsNoState(t *testing.T) {
	dir := moduleDir(t, map[string]string{"main.tf": networkModule})
	for name, tc := range map[string]struct{ state, want string }{
		"text":      {"s3cr3t", "this is no Terraform state"},
		"JSON":      {`{"a": "s3cr3t"}`, "this is no Terraform state"},
		"encrypted": {`{"serial": 1, "lineage": "", "encrypted_data": "s3cr3t"}`, "the state is encrypted: decrypt it with tofu state pull"},
		"old":       {`{"version": 3, "lineage": "a"}`, "the state has version 3"},
	} {
		g := NewWithT(t)
		_, problem, code := captctl(t, tc.state, "adopt", "state", "net", "--module", dir, "--from", "-", "--yes")
		g.Expect(code).To(Equal(2), name)
		g.Expect(problem).To(And(ContainSubstring(tc.want), Not(ContainSubstring("s3cr3t"))), name)
	}
}

func TestAdopt_goesThroughItsStages(t *testing.T) {
	h := newHarness(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: networkModule}
	net := workspace("net")
	net.Spec.Adoption = infrav1.AdoptionObserve
	h.create(template, net)
	a := h.run("adopt", "commit", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("net has no plan yet"))

	h.setStatus(net, func() {
		net.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Run: "net-r1", Destroy: 1, Add: 1, Changes: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "replace"}}}
	})
	a = h.run("adopt", "status", "net")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(And(ContainSubstring("Adoption of net: Observe\n"), ContainSubstring("Would be replaced, which an adoption refuses: 1\n  aws_vpc.this\n")))
	a = h.run("adopt", "commit", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("would destroy or replace resources: see captctl adopt status net"))

	h.setStatus(net, func() {
		net.Status.Plan = &infrav1.PlanStatus{ID: "plan-2", Run: "net-r2", Change: 1, Changes: []infrav1.ResourceChange{{Address: "aws_vpc.this", Action: "update"}}}
	})
	a = h.run("adopt", "complete", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("net is not applied yet"))
	a = h.run("adopt", "commit", "net", "--yes")
	h.Expect(a.code).To(Equal(0), a.err)
	h.reload(net)
	h.Expect(net.Spec.Adoption).To(Equal(infrav1.AdoptionCommit))

	h.setStatus(net, func() {
		net.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedCondition, "")
	})
	a = h.run("adopt", "complete", "net", "--yes")
	h.Expect(a.code).To(Equal(0), a.err)
	h.reload(net)
	h.Expect(net.Spec.Adoption).To(BeEmpty())

	template.Spec.Template.Spec.Adoption = infrav1.AdoptionObserve
	h.Expect(env.Client.Update(h.ctx, template)).To(Succeed())
	a = h.run("adopt", "complete", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("WorkspaceTemplate t still has adoption: Observe"))
}

func TestAdoptRelease_keepsTheResources(t *testing.T) {
	h := newHarness(t)
	net := workspace("net")
	net.Finalizers = []string{"example.com/observe"}
	h.create(net)
	a := h.run("adopt", "release", "net", "--yes")
	h.Expect(a.code).To(Equal(0), a.err)
	h.reload(net)
	h.Expect(net.Spec.RetainWorkspaceOnDelete).To(BeTrue())
	h.Expect(net.DeletionTimestamp.IsZero()).To(BeFalse())
	net.Finalizers = nil
	h.Expect(env.Client.Update(h.ctx, net)).To(Succeed())
	h.Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(h.ctx, client.ObjectKeyFromObject(net), net))
	}).Should(BeTrue())

	owned := workspace("owned")
	setController(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "1"}}, owned, "CAPTControlPlane", "controlplane.cluster.x-k8s.io/v1beta1")
	h.create(owned)
	a = h.run("adopt", "release", "owned", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("owned belongs to CAPTControlPlane demo"))
}
