package captmachinepool

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestOutputsOf_sortsAndChecks(t *testing.T) {
	for name, c := range map[string]struct {
		outputs map[string]string
		want    []string
		refused string
	}{
		"sorted":        {outputs: map[string]string{"provider_id_list": `["b","a","b"]`}, want: []string{"a", "b"}},
		"none":          {outputs: map[string]string{"provider_id_list": `[]`}, want: []string{}},
		"no list":       {outputs: map[string]string{}, refused: "output provider_id_list is null or sensitive"},
		"null":          {outputs: map[string]string{"provider_id_list": `null`}, refused: "output provider_id_list is null or sensitive"},
		"string":        {outputs: map[string]string{"provider_id_list": `"a"`}, refused: "decoding output provider_id_list"},
		"empty entry":   {outputs: map[string]string{"provider_id_list": `["a",""]`}, refused: "has an empty entry"},
		"bad selector":  {outputs: map[string]string{"provider_id_list": `[]`, "node_selector": `["a"]`}, refused: "output node_selector"},
		"optional null": {outputs: map[string]string{"provider_id_list": `["a"]`, "node_selector": `null`, "provider_id": `null`}, want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{}
			apply.Status.Outputs = map[string]infrav1.Value{}
			for output, raw := range c.outputs {
				apply.Status.Outputs[output] = infrav1.Value{Raw: []byte(raw)}
			}
			out, err := outputsOf(apply)
			if c.refused != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.refused)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out.list).To(Equal(c.want))
		})
	}
}

func TestReportNodes_writesListFirst(t *testing.T) {
	g := NewWithT(t)
	s := &scope{pool: &infrav1.CAPTMachinePool{}}
	s.apply = &infrav1.WorkspaceTemplateApply{}
	s.apply.Status.Outputs = map[string]infrav1.Value{"provider_id_list": {Raw: []byte(`["b","a"]`)}}

	waiting, ok := fault.AsWaiting(s.reportNodes())
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForProviderIDReason))
	g.Expect(s.pool.Spec.ProviderIDList).To(Equal([]string{"a", "b"}))
	g.Expect(s.pool.Status.Initialization.Provisioned).To(BeNil(), "the list has not been written yet")
	g.Expect(s.pool.Status.Replicas).To(BeNil())

	s.writtenList = []string{"a", "b"}
	g.Expect(s.reportNodes()).To(Succeed())
	g.Expect(s.pool.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	g.Expect(s.pool.Status.Ready).To(HaveValue(BeTrue()), "the controller of MachinePools reads this field")
	g.Expect(s.pool.Status.Replicas).To(HaveValue(Equal(int32(2))))

	s.apply.Status.Outputs["provider_id_list"] = infrav1.Value{Raw: []byte(`["a"]`)}
	g.Expect(s.reportNodes()).To(Succeed(), "provisioned stays true")
	g.Expect(s.pool.Spec.ProviderIDList).To(Equal([]string{"a"}))
	g.Expect(s.pool.Status.Replicas).To(HaveValue(Equal(int32(2))), "the new list has not been written yet")
}

func TestCompare(t *testing.T) {
	node := func(id string, labels map[string]string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	own, other := map[string]string{"group": "spot", "zone": "1a"}, map[string]string{"group": "other"}
	found := []corev1.Node{node("a", own), node("b", own), node("z", other), node("", own)}
	for name, c := range map[string]struct {
		outputs outputs
		want    difference
		text    string
	}{
		"equal":                          {outputs: outputs{list: []string{"a", "b"}, selector: map[string]string{"group": "spot"}}},
		"missing":                        {outputs: outputs{list: []string{"a", "b", "c"}}, want: difference{missing: []string{"c"}}, text: "Nodes not in the cluster: c"},
		"extra":                          {outputs: outputs{list: []string{"a"}, selector: map[string]string{"group": "spot"}}, want: difference{extra: []string{"b"}}, text: "Nodes not in the outputs: b"},
		"unknown owner without selector": {outputs: outputs{list: []string{"a"}}},
		"all replaced":                   {outputs: outputs{list: []string{"x"}, selector: map[string]string{"group": "spot"}}, want: difference{missing: []string{"x"}, extra: []string{"a", "b"}}, text: "Nodes not in the cluster: x; nodes not in the outputs: a, b"},
		"empty pool":                     {outputs: outputs{list: []string{}}},
		"nodes of another pool":          {outputs: outputs{list: []string{"z"}, selector: map[string]string{"group": "other"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := compare(c.outputs, found)
			g.Expect(got).To(Equal(c.want))
			g.Expect(got.empty()).To(Equal(c.text == ""))
			g.Expect(got.String()).To(Equal(c.text))
		})
	}
}

func TestRefreshRequest_isStableForSameDifference(t *testing.T) {
	g := NewWithT(t)
	run := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	missing := difference{missing: []string{"c"}}

	first, wait := missing.refreshRequest([]string{"a", "c"}, run, run, run.Add(10*time.Second))
	g.Expect(wait).To(Equal(50*time.Second), "the pause after a run")
	repeated, wait := missing.refreshRequest([]string{"a", "c"}, run.Add(time.Hour), run, run.Add(2*time.Hour))
	g.Expect(repeated).To(Equal(first), "a run was requested already")
	g.Expect(wait).To(BeNumerically("<=", 0))
	other, _ := difference{missing: []string{"a", "c"}}.refreshRequest([]string{"a", "c"}, run, run, run)
	g.Expect(other).NotTo(Equal(first), "another difference")
	replaced, _ := missing.refreshRequest([]string{"b", "c"}, run, run, run)
	g.Expect(replaced).NotTo(Equal(first), "the outputs changed")
}

func TestRefreshRequest_repeatsForWrongSize(t *testing.T) {
	g := NewWithT(t)
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wrong := difference{wrongSize: "2 of 3"}
	seen := map[string]bool{}
	for _, c := range []struct{ ran, now, wait time.Duration }{
		{0, 0, time.Minute},
		{time.Minute, 2 * time.Minute, 0},
		{10 * time.Minute, 20 * time.Minute, 0},
		{20 * time.Minute, 21 * time.Minute, 9*time.Minute + 30*time.Second},
		{10 * time.Hour, 10*time.Hour + time.Minute, 29 * time.Minute},
	} {
		request, wait := wrong.refreshRequest([]string{"a", "b"}, since.Add(c.ran), since, since.Add(c.now))
		g.Expect(wait).To(Equal(c.wait), "at %s", c.now)
		g.Expect(seen).NotTo(HaveKey(request), "each run allows a new request")
		seen[request] = true
	}
}

func TestRunRequested_keepsTheRequestOfAUser(t *testing.T) {
	for name, test := range map[string]struct {
		request, handled string
		want             bool
	}{
		"none":              {"", "", false},
		"the first one":     {"now", "", true},
		"another one":       {"now", "before", true},
		"handled":           {"now", "now", false},
		"too long":          {strings.Repeat("x", 257), "", false},
		"removed by a user": {"", "before", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{apply: &infrav1.WorkspaceTemplateApply{}}
			s.apply.Annotations = map[string]string{infrav1.RunRequestedAnnotation: test.request}
			s.apply.Status.HandledRequest = test.handled
			NewWithT(t).Expect(s.runRequested()).To(Equal(test.want))
		})
	}
}
