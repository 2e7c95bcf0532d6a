package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestCheckArgs(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{args: nil},
		{args: []string{"-parallelism=5", "--target=aws_vpc.a", "-var", "a=b", "-lock=false", "-auto-approve"}},
		{args: []string{"-out=x"}, want: "-out is set by the engine: remove it"},
		{args: []string{"--chdir", "/"}, want: "-chdir is set by the engine: remove it"},
		{args: []string{"-var", "a"}},
		{args: []string{"-var"}},
		{args: []string{"-parallelism=5", "-out=x"}, want: "-out is set by the engine: remove it"},
		{args: []string{"-var", "a", "-out=x"}, want: "-out is set by the engine: remove it"},
		{args: []string{"-auto-approve", "-out=x"}, want: "-out is set by the engine: remove it"},
		{args: []string{"plan.out"}, want: `"plan.out" is not an option: write it as -name=value`},
	}
	for _, test := range tests {
		g := NewWithT(t)
		if err := CheckArgs(test.args); test.want == "" {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(test.want))
		}
	}
}

func TestSplitArgs(t *testing.T) {
	g := NewWithT(t)
	planning, applying := SplitArgs([]string{"-auto-approve", "-var", "a=b", "-parallelism=5", "-target=x.y", "-lock-timeout", "5s", "-input=false"})
	g.Expect(planning).To(Equal([]string{"-var", "a=b", "-parallelism=5", "-target=x.y"}))
	g.Expect(applying).To(Equal([]string{"-parallelism=5", "-lock-timeout", "5s"}))
	planning, applying = SplitArgs([]string{"-parallelism", "5", "-target=x.y", "a", "-var"})
	g.Expect(planning).To(Equal([]string{"-parallelism", "5", "-target=x.y", "-var"}))
	g.Expect(applying).To(Equal([]string{"-parallelism", "5", "a"}))
	g.Expect(DropImplied([]string{"-input=true", "-refresh=false", "-no-color"})).To(Equal([]string{"-refresh=false"}))
}

func TestRefreshOnly_dropsWhatARefreshRejects(t *testing.T) {
	g := NewWithT(t)
	g.Expect(RefreshOnly(nil)).To(BeEmpty())
	g.Expect(RefreshOnly([]string{"-refresh=false", "-replace=a.b", "-replace", "a.c", "-var", "x=1", "-target=a.b", "-parallelism=3", "-compact-warnings"})).
		To(Equal([]string{"-var", "x=1", "-target=a.b", "-parallelism=3"}))
	g.Expect(RefreshOnly([]string{"-var"})).To(Equal([]string{"-var"}))
}

func TestSplitInit(t *testing.T) {
	g := NewWithT(t)
	get, rest := SplitInit([]string{"-upgrade", "-var", "a=b", "-get=true", "--var-file=x", "-lockfile", "readonly"})
	g.Expect(get).To(Equal([]string{"-update", "-var", "a=b", "--var-file=x"}))
	g.Expect(rest).To(Equal([]string{"-get=false", "-upgrade", "-var", "a=b", "--var-file=x", "-lockfile", "readonly"}))
	get, rest = SplitInit([]string{"-upgrade=false"})
	g.Expect(get).To(BeEmpty())
	g.Expect(rest).To(Equal([]string{"-get=false", "-upgrade=false"}))
}

func TestPlanningArgs(t *testing.T) {
	args := Request{
		PlanArgs: []string{"-refresh=false"}, ApplyArgs: []string{"-target=a.b", "-parallelism=3", "-lock-timeout=5s"}, DestroyArgs: []string{"-target=c.d"},
	}
	for operation, want := range map[Operation][]string{
		OperationPlan:         {"-refresh=false", "-target=a.b", "-parallelism=3"},
		OperationPlanAndApply: {"-refresh=false", "-target=a.b", "-parallelism=3"},
		OperationDestroy:      {"-target=c.d"},
	} {
		request := args
		request.Operation = operation
		NewWithT(t).Expect(request.PlanningArgs()).To(Equal(want), string(operation))
	}
}
