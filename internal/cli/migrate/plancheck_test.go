package migrate

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func plan(destroy int32, changes ...string) *infrav1.PlanStatus {
	p := &infrav1.PlanStatus{ID: "plan-1", Destroy: destroy}
	for i := 0; i < len(changes); i += 2 {
		p.Changes = append(p.Changes, infrav1.ResourceChange{Action: changes[i], Address: changes[i+1]})
	}
	return p
}

const release = `module.karpenter.helm_release.karpenter["main"]`

func TestCheckForget_allowsOnlyToForgetTheRelease(t *testing.T) {
	for name, c := range map[string]struct {
		plan *infrav1.PlanStatus
		want string
	}{
		"forgets":                       {plan(0, "forget", release, "update", "aws_eks_cluster.this", "move", "module.karpenter_iam.aws_iam_role.a"), ""},
		"forgets a root release":        {plan(0, "forget", "helm_release.karpenter"), ""},
		"destroys the release":          {plan(1, "delete", release), "would delete"},
		"replaces something else":       {plan(1, "forget", release, "replace", "aws_eks_cluster.this"), "would replace aws_eks_cluster.this"},
		"destroys an unlisted resource": {plan(2, "forget", release), "would destroy 2"},
		"forgets something else":        {plan(0, "forget", release, "forget", "aws_vpc.this"), "which is not a helm_release"},
		"changes the release":           {plan(0, "update", release), "instead of forgetting"},
		"forgets nothing":               {plan(0, "update", "aws_eks_cluster.this"), "forgets no helm_release"},
		"has unlisted changes":          {&infrav1.PlanStatus{ID: "plan-1", OmittedChanges: 3}, "3 changes that its status does not list"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, checkForget(c.plan), c.want) })
	}
}

func TestCheckImport_refusesToInstallTheRelease(t *testing.T) {
	for name, c := range map[string]struct {
		plan *infrav1.PlanStatus
		want string
	}{
		"imports":                 {plan(0, "import", release), ""},
		"imports and changes":     {plan(0, "update", release), ""},
		"nothing":                 {plan(0), ""},
		"installs":                {plan(0, "create", release), "instead of importing"},
		"destroys":                {plan(1, "delete", "aws_vpc.this"), "would delete"},
		"forgets something":       {plan(0, "forget", "aws_vpc.this"), "would forget"},
		"replaces the release":    {plan(1, "replace", release), "would replace"},
		"creates other resources": {plan(0, "import", release, "create", "aws_sqs_queue.this"), ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, checkImport(c.plan), c.want) })
	}
}

func TestCheckTakeOver_allowsToCreateTheRelease(t *testing.T) {
	expect(t, checkTakeOver(plan(0, "create", release)), "")
	expect(t, checkTakeOver(plan(0, "forget", release)), "would forget")
	expect(t, checkTakeOver(plan(1, "create", release, "delete", "module.karpenter_iam.aws_iam_role.a")), "would delete")
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	g := NewWithT(t)
	if want == "" {
		g.Expect(err).NotTo(HaveOccurred())
		return
	}
	g.Expect(err).To(MatchError(ContainSubstring(want)))
}
