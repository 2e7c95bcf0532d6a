package captmachinepool

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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
		"no list":       {outputs: map[string]string{}, refused: "output provider_id_list is null"},
		"null":          {outputs: map[string]string{"provider_id_list": `null`}, refused: "output provider_id_list is null"},
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
			out, err := outputsOf(apply, apply.Status.Outputs["provider_id_list"].Raw)
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
	s.outputs = outputs{list: []string{"a", "b"}}

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

	s.outputs.list = []string{"a"}
	g.Expect(s.reportNodes()).To(Succeed(), "provisioned stays true")
	g.Expect(s.pool.Spec.ProviderIDList).To(Equal([]string{"a"}))
	g.Expect(s.pool.Status.Replicas).To(HaveValue(Equal(int32(2))), "the new list has not been written yet")

	s.outputs = outputs{list: []string{"c"}, selector: map[string]string{"group": "spot"}}
	g.Expect(s.reportNodes()).To(Succeed())
	g.Expect(s.pool.Spec.ProviderIDList).To(Equal([]string{"a"}), "the next step follows the nodes, if it can reach the cluster")
}

func TestReportCapacity(t *testing.T) {
	g := NewWithT(t)
	s := &scope{pool: &infrav1.CAPTMachinePool{Spec: infrav1.CAPTMachinePoolSpec{InstanceTypes: []string{"m7g.xlarge", "m7g.large"}, AMIType: "BOTTLEROCKET_ARM_64"}}}
	s.reportCapacity()
	g.Expect(s.pool.Status.Capacity.Cpu().String()).To(Equal("2"))
	g.Expect(s.pool.Status.NodeInfo).To(Equal(infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}))
	s.pool.Spec = infrav1.CAPTMachinePoolSpec{InstanceTypes: []string{"p5.48xlarge"}}
	s.reportCapacity()
	g.Expect(s.pool.Status.Capacity).To(BeEmpty(), "the type is not known")
	g.Expect(s.pool.Status.NodeInfo).To(BeZero())
}

func TestCompare(t *testing.T) {
	node := func(id string) corev1.Node { return corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}} }
	found := []corev1.Node{node("a"), node("b"), node("z"), node("")}
	for name, c := range map[string]struct {
		outputs outputs
		want    difference
		text    string
	}{
		"equal":      {outputs: outputs{list: []string{"a", "b"}}},
		"missing":    {outputs: outputs{list: []string{"a", "b", "c"}}, want: difference{missing: []string{"c"}}, text: "Nodes not in the cluster: c"},
		"empty pool": {outputs: outputs{list: []string{}}},
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

func TestExisting(t *testing.T) {
	applied := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	node := func(id, group string, created time.Duration, ready corev1.ConditionStatus) corev1.Node {
		n := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"group": group, "zone": "1a"}, CreationTimestamp: metav1.NewTime(applied.Add(created))},
			Spec:       corev1.NodeSpec{ProviderID: id},
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(applied.Add(-time.Minute))}}
		return n
	}
	silent := node("b", "spot", -time.Hour, corev1.ConditionUnknown)
	silent.Status.Conditions[0].LastTransitionTime = metav1.NewTime(applied.Add(30 * time.Minute))
	const (
		before, during, after = -time.Hour, -3 * time.Minute, time.Hour
		yes, unknown          = corev1.ConditionTrue, corev1.ConditionUnknown
	)
	for name, c := range map[string]struct {
		node    corev1.Node
		list    []string
		missing []string
	}{
		"in the outputs":                   {node("a", "spot", after, yes), []string{"a"}, nil},
		"in the outputs, not ready":        {node("a", "spot", before, unknown), []string{"a"}, nil},
		"in the outputs, without label":    {node("a", "", after, yes), []string{"a"}, nil},
		"added":                            {node("b", "spot", after, yes), []string{"b"}, []string{"a"}},
		"added during the run":             {node("b", "spot", before, yes), []string{"b"}, []string{"a"}},
		"added, not ready yet":             {node("b", "spot", after, unknown), []string{"b"}, []string{"a"}},
		"deleted by the run":               {node("b", "spot", before, unknown), nil, []string{"a"}},
		"not ready for a short time":       {silent, []string{"b"}, []string{"a"}},
		"joined after the run had begun":   {node("b", "spot", during, unknown), []string{"b"}, []string{"a"}},
		"of another group":                 {node("b", "other", after, yes), nil, []string{"a"}},
		"a member whose label was removed": {node("w", "", after, yes), []string{"w"}, []string{"a"}},
		"without provider ID":              {node("", "spot", after, yes), nil, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{writtenList: []string{"w"}, outputs: outputs{list: []string{"a"}, selector: map[string]string{"group": "spot"}}}
			s.apply = &infrav1.WorkspaceTemplateApply{}
			s.apply.Status.AppliedAt = applied
			s.apply.Status.History = []infrav1.RunRecord{{StartedAt: metav1.NewTime(applied.Add(time.Hour))}, {StartedAt: metav1.NewTime(applied.Add(-5 * time.Minute))}}
			s.now = applied.Add(35 * time.Minute)
			list, missing := s.existing([]corev1.Node{c.node})
			g.Expect(list).To(HaveExactElements(c.list))
			g.Expect(missing).To(HaveExactElements(c.missing))
		})
	}
}

func TestFollow_countsNodesThatMayJoin(t *testing.T) {
	g := NewWithT(t)
	applied := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &scope{pool: &infrav1.CAPTMachinePool{}, owner: &clusterv1.MachinePool{}, apply: &infrav1.WorkspaceTemplateApply{}}
	s.owner.Spec.Replicas = new(int32(2))
	s.apply.Status.AppliedAt = metav1.NewTime(applied)
	s.outputs = outputs{list: []string{"a", "c"}, selector: map[string]string{"group": "spot"}}
	found := []corev1.Node{{Spec: corev1.NodeSpec{ProviderID: "c"}}}

	s.now = applied.Add(5 * time.Minute)
	waiting, ok := fault.AsWaiting(s.follow(found))
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.RetryAfter).To(Equal(10 * time.Minute))
	g.Expect(waiting.Error()).To(ContainSubstring("Nodes not in the cluster: a"))
	g.Expect(s.pool.Spec.ProviderIDList).To(Equal([]string{"a", "c"}))

	s.now = applied.Add(joinTimeout)
	waiting, ok = fault.AsWaiting(s.follow(found))
	g.Expect(ok).To(BeTrue(), "a node is missing")
	g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForNodeReason))
	g.Expect(s.pool.Spec.ProviderIDList).To(Equal([]string{"c"}))

	s.owner.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "cluster-autoscaler"}
	g.Expect(s.follow(found)).To(Succeed(), "the autoscaler removed a node")
}

// A number that was changed in the cloud is corrected, unless an autoscaler decides it.
func TestIsWrongSize(t *testing.T) {
	applied := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*scope)
		want   bool
	}{
		"changed in the cloud": {want: true},
		"the number is right":  {change: func(s *scope) { s.owner.Spec.Replicas = new(int32(1)) }},
		"a run is in progress": {change: func(s *scope) { s.applied = false }},
		"nodes may still join": {change: func(s *scope) { s.apply.Status.AppliedAt = metav1.NewTime(s.now.Add(-time.Minute)) }},
		"for a short time": {change: func(s *scope) {
			s.pool.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.now.Add(-time.Minute))
		}},
		"an autoscaler decides": {change: func(s *scope) {
			s.owner.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "cluster-autoscaler"}
		}},
		"no condition until now": {change: func(s *scope) { s.pool.Status.Conditions = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{pool: &infrav1.CAPTMachinePool{}, owner: &clusterv1.MachinePool{}, apply: &infrav1.WorkspaceTemplateApply{}, applied: true, now: applied.Add(time.Hour)}
			s.owner.Spec.Replicas, s.pool.Spec.ProviderIDList = new(int32(2)), []string{"a"}
			s.apply.Status.AppliedAt = metav1.NewTime(applied)
			s.pool.Status.Conditions = []metav1.Condition{{Type: infrav1.ReplicasReadyCondition, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(applied)}}
			if c.change != nil {
				c.change(s)
			}
			NewWithT(t).Expect(s.isWrongSize()).To(Equal(c.want))
		})
	}
}

// The topology controller would undo each write.
func TestTopologyReplicas(t *testing.T) {
	g := NewWithT(t)
	s := &scope{cluster: &clusterv1.Cluster{}, owner: &clusterv1.MachinePool{}}
	g.Expect(s.topologyReplicas()).To(BeFalse())
	s.owner.Labels = map[string]string{clusterv1.ClusterTopologyMachinePoolNameLabel: "workers"}
	s.cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "eks"}, Workers: clusterv1.WorkersTopology{
		MachinePools: []clusterv1.MachinePoolTopology{{Name: "other", Replicas: new(int32(1))}, {Name: "workers"}},
	}}
	g.Expect(s.topologyReplicas()).To(BeFalse(), "the autoscaler decides")
	s.cluster.Spec.Topology.Workers.MachinePools[1].Replicas = new(int32(3))
	g.Expect(s.topologyReplicas()).To(BeTrue())
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
