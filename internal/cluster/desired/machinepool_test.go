package desired

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func newPool(spec infrav1.CAPTMachinePoolSpec, replicas int32, change ...func(*clusterv1.MachinePool)) *MachinePool {
	p := &MachinePool{
		Pool:  &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Name: "spot"}, Spec: spec},
		Owner: &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "spot"}, Spec: clusterv1.MachinePoolSpec{Replicas: &replicas}},
		Info:  &ClusterInfo{Name: "production", Version: "1.33"},
	}
	for _, c := range change {
		c(p.Owner)
	}
	return p
}

func managedByAutoscaler(owner *clusterv1.MachinePool) {
	owner.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "cluster-autoscaler"}
}

func TestMachinePool_setsVariablesFromFields(t *testing.T) {
	sizes := []string{"desired_size", "min_size", "max_size"}
	for name, c := range map[string]struct {
		pool     *MachinePool
		declared []string
		want     string
	}{
		"pool without settings": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{CapacityType: infrav1.CapacityTypeOnDemand}, 3),
			declared: []string{"name", "cluster_name", "kubernetes_version", "desired_size", "min_size", "max_size", "capacity_type"},
			want:     `{"name":"spot","cluster_name":"production","kubernetes_version":"1.33","desired_size":3,"min_size":3,"max_size":3,"capacity_type":"ON_DEMAND"}`,
		},
		"template without capacity type": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{CapacityType: infrav1.CapacityTypeOnDemand}, 1),
			declared: []string{"desired_size"}, want: `{"desired_size":1}`,
		},
		"empty pool": {pool: newPool(infrav1.CAPTMachinePoolSpec{}, 0), declared: sizes, want: `{"desired_size":0,"min_size":0,"max_size":1}`},
		"bounds": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(10))}}, 3),
			declared: sizes, want: `{"desired_size":3,"min_size":1,"max_size":10}`,
		},
		"autoscaler decides": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(10))}}, 3, managedByAutoscaler),
			declared: sizes, want: `{"min_size":1,"max_size":10}`,
		},
		"autoscaler decides, and the template keeps the number": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(4)), MaxSize: new(int32(10))}}, 3, managedByAutoscaler),
			declared: append(sizes, "autoscaled"), want: `{"autoscaled":true,"desired_size":4,"min_size":4,"max_size":10}`,
		},
		"autoscaler decides without bounds": {pool: newPool(infrav1.CAPTMachinePoolSpec{}, 3, managedByAutoscaler), declared: sizes, want: `{}`},
		"every field": {
			pool: newPool(infrav1.CAPTMachinePoolSpec{
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
		"number of unavailable nodes": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{Update: &infrav1.PoolUpdate{MaxUnavailable: new(int32(2))}}, 1),
			declared: []string{"update_config", "desired_size"}, want: `{"update_config":{"max_unavailable":2},"desired_size":1}`,
		},
		"spec.variables": {
			pool:     newPool(infrav1.CAPTMachinePoolSpec{Variables: map[string]infrav1.Value{"desired_size": {Raw: []byte("7")}}}, 1),
			declared: []string{"desired_size"}, want: `{"desired_size":7}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := c.pool.variables(inspectedTemplate(c.declared...))
			g.Expect(err).NotTo(HaveOccurred())
			text, err := json.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchJSON(c.want))
		})
	}
}

func TestMachinePool_refusesFieldsWithoutVariable(t *testing.T) {
	for name, c := range map[string]struct {
		pool *MachinePool
		want string
	}{
		"spot": {newPool(infrav1.CAPTMachinePoolSpec{CapacityType: infrav1.CapacityTypeSpot}, 1), "spec.capacityType (variable capacity_type)"},
		"bounds": {
			newPool(infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(2))}}, 1),
			"spec.scaling.maxSize (variable max_size), spec.scaling.minSize (variable min_size)",
		},
		"zones": {
			newPool(infrav1.CAPTMachinePoolSpec{}, 1, func(p *clusterv1.MachinePool) { p.Spec.FailureDomains = []string{"1a"} }),
			"spec.failureDomains of the MachinePool (variable availability_zones)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := c.pool.variables(inspectedTemplate("desired_size"))
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Message()).To(ContainSubstring(c.want))
		})
	}
}

func TestMachinePool_followsVersions(t *testing.T) {
	for name, c := range map[string]struct {
		owner, controlPlane, before string
		want, behind                string
		upgrading                   bool
	}{
		"waits for the end of an upgrade":      {owner: "", controlPlane: "1.34", before: "1.33", want: "1.33", upgrading: true},
		"new, during an upgrade":               {owner: "", controlPlane: "1.34", before: "", want: "1.34", upgrading: true},
		"new":                                  {owner: "", controlPlane: "1.33", before: "", want: "1.33", behind: ""},
		"follows the control plane":            {owner: "", controlPlane: "1.34", before: "1.33", want: "1.34", behind: ""},
		"is not downgraded":                    {owner: "", controlPlane: "1.33", before: "1.34", want: "1.34", behind: ""},
		"has the version of the MachinePool":   {owner: "v1.33.1", controlPlane: "1.33", before: "1.32", want: "1.33", behind: ""},
		"stays at that of the MachinePool":     {owner: "v1.32.1", controlPlane: "1.34", before: "1.32", want: "1.32", behind: "1.32"},
		"of a control plane without a version": {owner: "v1.32.1", controlPlane: "", before: "1.32", want: "1.32", behind: ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := newPool(infrav1.CAPTMachinePoolSpec{ProviderID: "group-1"}, 1)
			p.Info.Version, p.Owner.Spec.Template.Spec.Version = c.controlPlane, c.owner
			p.Info.Upgrading = c.upgrading
			if c.before != "" {
				p.Existing = &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Variables: map[string]infrav1.Value{
					"kubernetes_version": infrav1.StringValue(c.before),
				}}}
			}
			got, err := p.variables(inspectedTemplate("kubernetes_version", "desired_size"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got["kubernetes_version"].String()).To(Equal(c.want))
			g.Expect(p.VersionBehind()).To(Equal(c.behind))
		})
	}
}

func TestMachinePool_keepsTheFirstSizeOfAnAutoscaledPool(t *testing.T) {
	g := NewWithT(t)
	pool := newPool(infrav1.CAPTMachinePoolSpec{}, 7, managedByAutoscaler)
	pool.Pool.Status.Initialization.Provisioned = new(true)
	pool.Existing = &infrav1.WorkspaceTemplateApply{}
	pool.Existing.Spec.Variables = map[string]infrav1.Value{"desired_size": {Raw: []byte("2")}}
	got, err := pool.variables(inspectedTemplate("desired_size", "autoscaled"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got["desired_size"].String()).To(Equal("2"), "the number of nodes that exist must not start a run")
	g.Expect(got["autoscaled"].String()).To(Equal("true"))
}

func TestMachinePool_firstSizeIsWithinTheBoundsOfTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		spec     infrav1.CAPTMachinePoolSpec
		replicas int32
		before   string
		want     string
	}{
		"defaults of the module":           {replicas: 5, want: "3"},
		"below the default of the minimum": {replicas: 0, want: "1"},
		"scaling":                          {infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(2)), MaxSize: new(int32(10))}}, 5, "", "5"},
		"variables":                        {infrav1.CAPTMachinePoolSpec{Variables: map[string]infrav1.Value{"max_size": {Raw: []byte("4")}}}, 5, "", "4"},
		"own number":                       {infrav1.CAPTMachinePoolSpec{Variables: map[string]infrav1.Value{"desired_size": {Raw: []byte("2")}}}, 5, "", "2"},
		"lowered maximum":                  {infrav1.CAPTMachinePoolSpec{Scaling: &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(2))}}, 5, "5", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pool := newPool(c.spec, c.replicas, managedByAutoscaler)
			if c.before != "" {
				pool.Pool.Status.Initialization.Provisioned = new(true)
				pool.Existing = &infrav1.WorkspaceTemplateApply{}
				pool.Existing.Spec.Variables = map[string]infrav1.Value{"desired_size": {Raw: []byte(c.before)}}
			}
			template := inspectedTemplate("desired_size", "autoscaled", "min_size", "max_size")
			template.Status.Variables[2].Default, template.Status.Variables[3].Default = "1", "3"
			got, err := pool.variables(template)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got["desired_size"].String()).To(Equal(c.want))
		})
	}
}

func TestMachinePool_refusesReplicasOutsideOfScaling(t *testing.T) {
	scaling := &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(3))}
	for name, c := range map[string]struct {
		pool    *MachinePool
		refused bool
	}{
		"no bounds":          {newPool(infrav1.CAPTMachinePoolSpec{}, 100), false},
		"within":             {newPool(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 3), false},
		"below":              {newPool(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 0), true},
		"above":              {newPool(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 4), true},
		"autoscaler decides": {newPool(infrav1.CAPTMachinePoolSpec{Scaling: scaling}, 4, managedByAutoscaler), false},
	} {
		t.Run(name, func(t *testing.T) {
			stalled, ok := fault.AsStalled(c.pool.checkReplicas())
			NewWithT(t).Expect(ok).To(Equal(c.refused))
			if c.refused {
				NewWithT(t).Expect(stalled.Reason).To(Equal(infrav1.ReplicasOutOfBoundsReason))
			}
		})
	}
}
