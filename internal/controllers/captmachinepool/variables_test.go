package captmachinepool

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// templateOf is a template that has been inspected and declares variables.
func templateOf(variables ...string) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "group"}}
	for _, name := range variables {
		template.Status.Variables = append(template.Status.Variables, infrav1.DeclaredVariable{Name: name})
	}
	conditions.Set(template, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleInspectedReason})
	return template
}

func scopeOf(spec infrav1.CAPTMachinePoolSpec, replicas int32, change ...func(*clusterv1.MachinePool)) *scope {
	s := &scope{
		pool:         &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Name: "spot"}, Spec: spec},
		owner:        &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "spot"}, Spec: clusterv1.MachinePoolSpec{Replicas: &replicas}},
		surroundings: &nodes.Surroundings{ClusterName: "production", Version: "1.33"},
	}
	for _, c := range change {
		c(s.owner)
	}
	return s
}

func elsewhere(owner *clusterv1.MachinePool) {
	owner.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "cluster-autoscaler"}
}

func TestVariables_followTheFields(t *testing.T) {
	sizes := []string{"desired_size", "min_size", "max_size"}
	for name, c := range map[string]struct {
		scope    *scope
		declared []string
		want     string
	}{
		"a pool without settings": {
			scope:    scopeOf(infrav1.CAPTMachinePoolSpec{CapacityType: infrav1.CapacityTypeOnDemand}, 3),
			declared: []string{"name", "cluster_name", "kubernetes_version", "desired_size", "min_size", "max_size", "capacity_type"},
			want:     `{"name":"spot","cluster_name":"production","kubernetes_version":"1.33","desired_size":3,"min_size":3,"max_size":3,"capacity_type":"ON_DEMAND"}`,
		},
		"a template that knows no capacity type": {
			scope:    scopeOf(infrav1.CAPTMachinePoolSpec{CapacityType: infrav1.CapacityTypeOnDemand}, 1),
			declared: []string{"desired_size"}, want: `{"desired_size":1}`,
		},
		"a pool of nothing": {scope: scopeOf(infrav1.CAPTMachinePoolSpec{}, 0), declared: sizes, want: `{"desired_size":0,"min_size":0,"max_size":1}`},
		"bounds": {
			scope:    scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(10))}}, 3),
			declared: sizes, want: `{"desired_size":3,"min_size":1,"max_size":10}`,
		},
		"an autoscaler decides": {
			scope:    scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(10))}}, 3, elsewhere),
			declared: sizes, want: `{"min_size":1,"max_size":10}`,
		},
		"an autoscaler decides without bounds": {scope: scopeOf(infrav1.CAPTMachinePoolSpec{}, 3, elsewhere), declared: sizes, want: `{}`},
		"every field": {
			scope: scopeOf(infrav1.CAPTMachinePoolSpec{
				InstanceTypes: []string{"m7g.large", "m6g.large"}, CapacityType: infrav1.CapacityTypeSpot, AMIType: "AL2023_ARM_64_STANDARD", DiskSizeGiB: new(int32(50)),
				Labels: map[string]string{"a": "b"}, Tags: map[string]string{"c": "d"}, Taints: []infrav1.Taint{{Key: "spot", Effect: "NoSchedule"}},
				Update: &infrav1.PoolUpdate{MaxUnavailablePercentage: new(int32(25))},
			}, 1, func(owner *clusterv1.MachinePool) {
				owner.Spec.FailureDomains = []string{"1a", "1c"}
				owner.Spec.Template.Spec.Version = "v1.32.1"
				owner.Spec.Template.Spec.Bootstrap.DataSecretName = new("data")
			}),
			declared: []string{
				"instance_types", "capacity_type", "ami_type", "disk_size", "labels", "tags", "taints", "update_config",
				"availability_zones", "kubernetes_version", "bootstrap_secret_name", "desired_size",
			},
			want: `{"instance_types":["m7g.large","m6g.large"],"capacity_type":"SPOT","ami_type":"AL2023_ARM_64_STANDARD","disk_size":50,"labels":{"a":"b"},"tags":{"c":"d"},
				"taints":[{"key":"spot","value":"","effect":"NoSchedule"}],"update_config":{"max_unavailable_percentage":25},"availability_zones":["1a","1c"],
				"kubernetes_version":"1.32","bootstrap_secret_name":"data","desired_size":1}`,
		},
		"a number of unavailable nodes": {
			scope:    scopeOf(infrav1.CAPTMachinePoolSpec{Update: &infrav1.PoolUpdate{MaxUnavailable: new(int32(2))}}, 1),
			declared: []string{"update_config", "desired_size"}, want: `{"update_config":{"max_unavailable":2},"desired_size":1}`,
		},
		"a person's own values": {
			scope:    scopeOf(infrav1.CAPTMachinePoolSpec{Variables: map[string]infrav1.Value{"desired_size": {Raw: []byte("7")}}}, 1),
			declared: []string{"desired_size"}, want: `{"desired_size":7}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := c.scope.variables(templateOf(c.declared...))
			g.Expect(err).NotTo(HaveOccurred())
			text, err := json.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchJSON(c.want))
		})
	}
}

func TestVariables_refuseWhatTheTemplateDoesNotTake(t *testing.T) {
	for name, c := range map[string]struct {
		scope *scope
		want  string
	}{
		"spot": {scopeOf(infrav1.CAPTMachinePoolSpec{CapacityType: infrav1.CapacityTypeSpot}, 1), "spec.capacityType (variable capacity_type)"},
		"bounds": {
			scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(2))}}, 1),
			"spec.scaling.maxSize (variable max_size), spec.scaling.minSize (variable min_size)",
		},
		"zones": {
			scopeOf(infrav1.CAPTMachinePoolSpec{}, 1, func(p *clusterv1.MachinePool) { p.Spec.FailureDomains = []string{"1a"} }),
			"spec.failureDomains of the MachinePool (variable availability_zones)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := c.scope.variables(templateOf("desired_size"))
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Message()).To(ContainSubstring(c.want))
		})
	}
}

func TestVariables_followTheMachinePoolOfANodeGroupThatIsThere(t *testing.T) {
	g := NewWithT(t)
	s := scopeOf(infrav1.CAPTMachinePoolSpec{ProviderID: "group-1"}, 1)
	s.apply = &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Variables: map[string]infrav1.Value{
		"kubernetes_version": infrav1.StringValue("1.32"),
	}}}
	kept, err := s.variables(templateOf("kubernetes_version", "desired_size"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept["kubernetes_version"].String()).To(Equal("1.32"), "an upgrade of the control plane replaces no node")

	s.owner.Spec.Template.Spec.Version = "v1.33.1"
	raised, err := s.variables(templateOf("kubernetes_version", "desired_size"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(raised["kubernetes_version"].String()).To(Equal("1.33"), "the nodes follow their MachinePool")
}

func TestBounds_refuseWhatTheCloudWould(t *testing.T) {
	scaling := &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(3))}
	for name, c := range map[string]struct {
		scope   *scope
		refused bool
	}{
		"no bounds":             {scopeOf(infrav1.CAPTMachinePoolSpec{}, 100), false},
		"within":                {scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 3), false},
		"below":                 {scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 0), true},
		"above":                 {scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 4), true},
		"an autoscaler decides": {scopeOf(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 4, elsewhere), false},
	} {
		t.Run(name, func(t *testing.T) {
			stalled, ok := fault.AsStalled(c.scope.bounds())
			NewWithT(t).Expect(ok).To(Equal(c.refused))
			if c.refused {
				NewWithT(t).Expect(stalled.Reason).To(Equal(infrav1.ReplicasOutOfBoundsReason))
			}
		})
	}
}
