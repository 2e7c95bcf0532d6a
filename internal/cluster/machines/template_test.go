package machines

import (
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func value(text string) infrav1.Value { return infrav1.Value{Raw: []byte(text)} }

func fullSpec() *infrav1.CAPTMachineSpec {
	return &infrav1.CAPTMachineSpec{
		WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"},
		InstanceType:         "m7g.large",
		NodeGroupRef:         &infrav1.LocalReference{Name: "group"},
		Labels:               map[string]string{"a": "1"},
		Taints:               []infrav1.Taint{{Key: "k", Effect: "NoSchedule"}},
		Tags:                 map[string]string{"a": "1"},
		Variables:            map[string]infrav1.Value{"disk": value(`{"size": 10, "type": "gp3"}`)},
		Drain:                &infrav1.DrainPolicy{Mode: infrav1.DrainModeDrain},
		FailureDomain:        "a",
	}
}

// inPlace lists for each field of a template whether it is updated in place, as in
// the table of the package comment.
var inPlace = map[string]struct {
	yes    bool
	change func(*infrav1.CAPTMachineSpec)
}{
	"WorkspaceTemplateRef": {change: func(s *infrav1.CAPTMachineSpec) { s.WorkspaceTemplateRef.Name = "other" }},
	"InstanceType":         {change: func(s *infrav1.CAPTMachineSpec) { s.InstanceType = "m7g.xlarge" }},
	"Version":              {change: func(s *infrav1.CAPTMachineSpec) { s.Version = "1.34" }},
	"NodeGroupRef":         {change: func(s *infrav1.CAPTMachineSpec) { s.NodeGroupRef = nil }},
	"FailureDomain":        {change: func(s *infrav1.CAPTMachineSpec) { s.FailureDomain = "b" }},
	"Variables":            {change: func(s *infrav1.CAPTMachineSpec) { s.Variables["disk"] = value(`{"size": 20}`) }},
	"Labels":               {yes: true, change: func(s *infrav1.CAPTMachineSpec) { s.Labels["b"] = "2" }},
	"Taints":               {yes: true, change: func(s *infrav1.CAPTMachineSpec) { s.Taints = nil }},
	"Tags":                 {yes: true, change: func(s *infrav1.CAPTMachineSpec) { s.Tags = nil }},
	"Workspace":            {yes: true, change: func(s *infrav1.CAPTMachineSpec) { s.Workspace = &infrav1.WorkspaceSettings{Approval: "Manual"} }},
	"Drain":                {yes: true, change: func(s *infrav1.CAPTMachineSpec) { s.Drain.Mode = infrav1.DrainModeSkip }},
}

func TestUpdatableInPlace_coversEachField(t *testing.T) {
	for field := range reflect.TypeFor[infrav1.CAPTMachineSpec]().Fields() {
		t.Run(field.Name, func(t *testing.T) {
			g := NewWithT(t)
			if field.Name == "ProviderID" {
				t.Skip("templates have no provider ID")
			}
			decided, found := inPlace[field.Name]
			g.Expect(found).To(BeTrue(), "add the new field to the table")
			before, after := fullSpec(), fullSpec()
			decided.change(after)

			g.Expect(UpdatableInPlace(before, after)).To(Equal(decided.yes))
			g.Expect(Hash(before, nil) == Hash(after, nil)).To(Equal(decided.yes))
			if decided.yes {
				set := &infrav1.CAPTMachineSet{Spec: infrav1.CAPTMachineSetSpec{Template: infrav1.MachineTemplate{Spec: *after}}}
				m := &infrav1.CAPTMachine{Spec: *before}
				UpdateMachine(set, m)
				g.Expect(m.Spec).To(Equal(*after), "the machine follows")
				d := &infrav1.CAPTMachineDeployment{Spec: infrav1.CAPTMachineDeploymentSpec{Template: infrav1.MachineTemplate{Spec: *after}}}
				set.Spec.Template.Spec = *before
				UpdateCurrentSet(d, set, 1)
				g.Expect(set.Spec.Template.Spec).To(Equal(*after), "the set follows")
			}
		})
	}
}

func TestHash_ofEqualTemplates(t *testing.T) {
	g := NewWithT(t)
	a, b := fullSpec(), fullSpec()
	b.Variables["disk"] = value(`{"type":"gp3","size":10}`)
	g.Expect(UpdatableInPlace(a, b)).To(BeTrue(), "order and white space do not matter")
	g.Expect(Hash(a, nil)).To(Equal(Hash(b, nil)))
	a.Variables, b.Variables = nil, map[string]infrav1.Value{}
	g.Expect(UpdatableInPlace(a, b)).To(BeTrue())
	g.Expect(Hash(a, nil)).To(Equal(Hash(b, nil)))

	g.Expect(Hash(a, new(int32(0)))).To(Equal(Hash(a, nil)))
	g.Expect(Hash(a, new(int32(1)))).NotTo(Equal(Hash(a, nil)), "a collision changes the hash")
	g.Expect(Hash(a, new(int32(2)))).NotTo(Equal(Hash(a, new(int32(1)))))
	g.Expect(a.Variables).To(BeNil(), "the argument is not changed")
}

func TestNames_areValid(t *testing.T) {
	g := NewWithT(t)
	g.Expect(SetName("workers", "5f7b9")).To(Equal("workers-5f7b9"))
	long := strings.Repeat("a", 240) + strings.Repeat("-b", 6)
	g.Expect(validation.IsDNS1123Subdomain(SetName(long, "0123456789"))).To(BeEmpty())
	g.Expect(MachineName("workers-5f7b9")).To(MatchRegexp("^workers-5f7b9-[a-z0-9]{6}$"))
	g.Expect(validation.IsDNS1123Label(MachineName(strings.Repeat("a", 55) + "-" + strings.Repeat("b", 190)))).To(BeEmpty())
	g.Expect(MachineName("a")).NotTo(Equal(MachineName("a")))
}

func TestSelectorProblem(t *testing.T) {
	g := NewWithT(t)
	selector := labels.SelectorFromSet(labels.Set{"pool": "a"})
	g.Expect(SelectorProblem(selector, map[string]string{"pool": "a", "more": "b"})).To(BeEmpty())
	g.Expect(SelectorProblem(selector, map[string]string{"pool": "b"})).To(ContainSubstring("add labels for pool=a"))
	g.Expect(SelectorProblem(labels.Everything(), nil)).To(ContainSubstring("set matchLabels"))
}

func TestUpdateMachine_removesOnlyMetadataOfTheTemplate(t *testing.T) {
	g := NewWithT(t)
	set := &infrav1.CAPTMachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "s", Labels: map[string]string{clusterv1.WatchLabel: "mine"}},
		Spec: infrav1.CAPTMachineSetSpec{ClusterName: "production", Template: infrav1.MachineTemplate{
			ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a", "old": "x"}, Annotations: map[string]string{"note": "1", "old": "x"}},
			Spec:       *fullSpec(),
		}},
	}
	m := NewMachine(set, "m")
	g.Expect(m.Labels).To(Equal(map[string]string{"pool": "a", "old": "x", clusterv1.ClusterNameLabel: "production", clusterv1.WatchLabel: "mine"}))
	g.Expect(m.OwnerReferences).To(ConsistOf(And(HaveField("UID", BeEquivalentTo("s")), HaveField("Controller", HaveValue(BeTrue())))))
	g.Expect(m.Spec).To(Equal(*fullSpec()))
	g.Expect(HasLabels(set, m)).To(BeTrue())
	updated := m.DeepCopy()
	UpdateMachine(set, updated)
	g.Expect(SameMachine(m, updated)).To(BeTrue(), "a second update changes nothing")

	m.Labels["mine"], m.Annotations["mine"] = "x", "x"
	set.Spec.Template.ObjectMeta.Labels = map[string]string{"pool": "a", "new": "y"}
	set.Spec.Template.ObjectMeta.Annotations = nil
	g.Expect(HasLabels(set, m)).To(BeFalse())
	UpdateMachine(set, m)
	g.Expect(m.Labels).To(Equal(map[string]string{
		"pool": "a", "new": "y", "mine": "x", clusterv1.ClusterNameLabel: "production", clusterv1.WatchLabel: "mine",
	}))
	delete(m.Annotations, infrav1.TemplateMetadataAnnotation)
	g.Expect(m.Annotations).To(Equal(map[string]string{"mine": "x"}))

	m.Annotations = map[string]string{infrav1.TemplateMetadataAnnotation: "not JSON", "kept": "x"}
	UpdateMachine(set, m)
	g.Expect(m.Annotations).To(HaveKey("kept"))
}

func TestLimitsOf_roundsLikeKubernetes(t *testing.T) {
	n, percent := intstr.FromInt32, intstr.FromString
	rolling := func(surge, unavailable intstr.IntOrString) *infrav1.MachineDeploymentStrategy {
		return &infrav1.MachineDeploymentStrategy{RollingUpdate: &infrav1.RollingUpdate{MaxSurge: &surge, MaxUnavailable: &unavailable}}
	}
	tests := []struct {
		name     string
		strategy *infrav1.MachineDeploymentStrategy
		replicas int32
		want     Limits
	}{
		{name: "defaults", replicas: 5, want: Limits{Surge: 1}},
		{name: "defaults of a rolling update", strategy: &infrav1.MachineDeploymentStrategy{RollingUpdate: &infrav1.RollingUpdate{}}, replicas: 5, want: Limits{Surge: 1}},
		{name: "numbers", strategy: rolling(n(3), n(2)), replicas: 5, want: Limits{Surge: 3, Unavailable: 2}},
		{name: "surge is rounded up", strategy: rolling(percent("1%"), n(0)), replicas: 5, want: Limits{Surge: 1}},
		{name: "unavailable is rounded down", strategy: rolling(n(1), percent("39%")), replicas: 5, want: Limits{Surge: 1, Unavailable: 1}},
		{name: "never both zero", strategy: rolling(n(0), percent("10%")), replicas: 5, want: Limits{Unavailable: 1}},
		{name: "at most all replicas", strategy: rolling(n(0), n(9)), replicas: 3, want: Limits{Unavailable: 3}},
		{name: "no replicas", strategy: rolling(percent("50%"), percent("50%")), replicas: 0, want: Limits{}},
		{name: "all", strategy: rolling(percent("100%"), percent("100%")), replicas: 4, want: Limits{Surge: 4, Unavailable: 4}},
		{name: "OnDelete", strategy: &infrav1.MachineDeploymentStrategy{Type: infrav1.OnDeleteStrategy}, replicas: 4, want: Limits{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := LimitsOf(tt.strategy, tt.replicas)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tt.want))
		})
	}
	for _, bad := range []*infrav1.MachineDeploymentStrategy{rolling(percent("x"), n(0)), rolling(n(1), percent("x"))} {
		_, err := LimitsOf(bad, 3)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("parsing max")))
	}
}
