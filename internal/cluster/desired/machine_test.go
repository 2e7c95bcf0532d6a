package desired

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// inspectedTemplate returns an inspected template that declares variables.
func inspectedTemplate(variables ...string) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	for _, name := range variables {
		template.Status.Variables = append(template.Status.Variables, infrav1.DeclaredVariable{Name: name})
	}
	conditions.Set(template, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleInspectedReason})
	return template
}

func newMachine(spec infrav1.CAPTMachineSpec) *Machine {
	return &Machine{
		Machine: &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}, Spec: spec},
		Info:    &ClusterInfo{Name: "production", Version: "1.33"},
	}
}

func TestMachine_setsVariablesFromFields(t *testing.T) {
	owner := func(change func(*clusterv1.MachineSpec)) *clusterv1.Machine {
		m := &clusterv1.Machine{Spec: clusterv1.MachineSpec{Version: "v1.32.4"}}
		change(&m.Spec)
		return m
	}
	pool := &infrav1.CAPTMachinePool{Spec: infrav1.CAPTMachinePoolSpec{
		InstanceTypes: []string{"m7g.large", "m6g.large"}, CapacityType: infrav1.CapacityTypeSpot, AMIType: "BOTTLEROCKET_ARM_64", DiskSizeGiB: new(int32(50)),
		Labels: map[string]string{"pool": "a", "tier": "spot"}, Tags: map[string]string{"team": "platform"},
		Taints: []infrav1.Taint{{Key: "spot", Effect: "NoSchedule"}, {Key: "dedicated", Value: "a", Effect: "NoSchedule"}},
	}}
	for name, c := range map[string]struct {
		spec     infrav1.CAPTMachineSpec
		owner    *clusterv1.Machine
		pool     *infrav1.CAPTMachinePool
		declared []string
		want     string
	}{
		"standalone machine": {
			declared: []string{"name", "cluster_name", "kubernetes_version", "labels", "bootstrap_secret_name"},
			want:     `{"name":"worker-0","cluster_name":"production","kubernetes_version":"1.33"}`,
		},
		"own version": {
			spec:     infrav1.CAPTMachineSpec{Version: "v1.31.4"},
			declared: []string{"kubernetes_version"}, want: `{"kubernetes_version":"1.31"}`,
		},
		"own version and that of the owner": {
			spec: infrav1.CAPTMachineSpec{Version: "1.31"}, owner: owner(func(*clusterv1.MachineSpec) {}),
			declared: []string{"kubernetes_version"}, want: `{"kubernetes_version":"1.32"}`,
		},
		"template with one variable": {declared: []string{"name"}, want: `{"name":"worker-0"}`},
		"every field": {
			spec: infrav1.CAPTMachineSpec{
				InstanceType: "m7g.large", Labels: map[string]string{"a": "b"}, Tags: map[string]string{"c": "d"}, FailureDomain: "1a",
				Taints: []infrav1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}, {Key: "dedicated", Effect: "NoExecute"}},
			},
			declared: []string{"instance_type", "labels", "taints", "tags", "availability_zone"},
			want: `{"instance_type":"m7g.large","labels":{"a":"b"},"tags":{"c":"d"},"availability_zone":"1a","taints":[
				{"key":"dedicated","value":"gpu","effect":"NoSchedule"},{"key":"dedicated","value":"","effect":"NoExecute"}]}`,
		},
		"owning Machine decides version and zone": {
			spec: infrav1.CAPTMachineSpec{FailureDomain: "1a"},
			owner: owner(func(m *clusterv1.MachineSpec) {
				m.FailureDomain, m.Bootstrap.DataSecretName = "1c", new("worker-0-data")
			}),
			declared: []string{"kubernetes_version", "kubernetes_full_version", "availability_zone", "bootstrap_secret_name"},
			want:     `{"kubernetes_version":"1.32","kubernetes_full_version":"1.32.4","availability_zone":"1c","bootstrap_secret_name":"worker-0-data"}`,
		},
		"owning Machine without bootstrap data": {
			owner:    owner(func(m *clusterv1.MachineSpec) { m.Bootstrap.DataSecretName = new("") }),
			declared: []string{"bootstrap_secret_name"}, want: `{}`,
		},
		"settings of the pool": {
			pool:     pool,
			declared: []string{"instance_type", "labels", "taints", "tags", "ami_type", "disk_size", "capacity_type"},
			want: `{"instance_type":"m7g.large","labels":{"pool":"a","tier":"spot"},"tags":{"team":"platform"},"ami_type":"BOTTLEROCKET_ARM_64","disk_size":50,
				"capacity_type":"SPOT","taints":[{"key":"spot","value":"","effect":"NoSchedule"},{"key":"dedicated","value":"a","effect":"NoSchedule"}]}`,
		},
		"own settings take precedence over the pool": {
			spec: infrav1.CAPTMachineSpec{
				InstanceType: "c7g.large", Labels: map[string]string{"pool": "b"}, Tags: map[string]string{"team": "data"},
				Taints: []infrav1.Taint{{Key: "dedicated", Value: "b", Effect: "NoSchedule"}},
			},
			pool: pool, declared: []string{"instance_type", "labels", "taints", "tags"},
			want: `{"instance_type":"c7g.large","labels":{"pool":"b","tier":"spot"},"tags":{"team":"data"},
				"taints":[{"key":"spot","value":"","effect":"NoSchedule"},{"key":"dedicated","value":"b","effect":"NoSchedule"}]}`,
		},
		"spec.variables takes precedence over everything": {
			spec:     infrav1.CAPTMachineSpec{InstanceType: "m7g.large", Variables: map[string]infrav1.Value{"instance_type": infrav1.StringValue("x"), "extra": {Raw: []byte(`[1,true]`)}}},
			declared: []string{"instance_type", "extra"},
			want:     `{"instance_type":"x","extra":[1,true]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := newMachine(c.spec)
			m.Owner, m.Pool = c.owner, c.pool
			got, err := m.variables(inspectedTemplate(c.declared...))
			g.Expect(err).NotTo(HaveOccurred())
			text, err := json.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchJSON(c.want))
		})
	}
}

func TestMachine_readsNoSecretOfOthers(t *testing.T) {
	for _, name := range []string{"production-kubeconfig", "production-ca", "capt-token-a-r1", "tfstate-default-a-ws"} {
		g := NewWithT(t)
		own := newMachine(infrav1.CAPTMachineSpec{Variables: map[string]infrav1.Value{"bootstrap_secret_name": infrav1.StringValue(name)}})
		owned := newMachine(infrav1.CAPTMachineSpec{})
		owned.Owner = &clusterv1.Machine{Spec: clusterv1.MachineSpec{Bootstrap: clusterv1.Bootstrap{DataSecretName: &name}}}
		for _, m := range []*Machine{own, owned} {
			_, err := m.variables(inspectedTemplate("bootstrap_secret_name"))
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Reason).To(Equal(infrav1.NotAllowedReason))
		}
	}
}

func TestMachine_refusesFieldsWithoutVariable(t *testing.T) {
	pool := &infrav1.CAPTMachinePool{Spec: infrav1.CAPTMachinePoolSpec{Taints: []infrav1.Taint{{Key: "spot", Effect: "NoSchedule"}}}}
	for name, c := range map[string]struct {
		spec  infrav1.CAPTMachineSpec
		owner *clusterv1.Machine
		pool  *infrav1.CAPTMachinePool
		want  string
	}{
		"instance type": {spec: infrav1.CAPTMachineSpec{InstanceType: "m7g.large"}, want: "spec.instanceType (variable instance_type)"},
		"zone":          {spec: infrav1.CAPTMachineSpec{FailureDomain: "1a"}, want: "spec.failureDomain (variable availability_zone)"},
		"zone of the Machine": {
			owner: &clusterv1.Machine{Spec: clusterv1.MachineSpec{FailureDomain: "1a"}},
			want:  "spec.failureDomain of the Machine (variable availability_zone)",
		},
		"taints of the pool": {pool: pool, want: "spec.nodeGroupRef with its taints (variable taints)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := newMachine(c.spec)
			m.Owner, m.Pool = c.owner, c.pool
			_, err := m.variables(inspectedTemplate("name"))
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Reason).To(Equal(infrav1.FieldNotTakenReason))
			g.Expect(stalled.Message()).To(ContainSubstring(c.want))
		})
	}
}

func TestMachine_pinsVariablesOfExistingInstance(t *testing.T) {
	g := NewWithT(t)
	m := newMachine(infrav1.CAPTMachineSpec{Labels: map[string]string{"a": "new"}})
	m.Existing = &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Variables: map[string]infrav1.Value{
		"kubernetes_version": infrav1.StringValue("1.32"), "labels": {Raw: []byte(`{"a":"old"}`)},
	}}}
	template := inspectedTemplate("kubernetes_version", "labels")

	created, err := m.variables(template)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(created["kubernetes_version"].String()).To(Equal("1.33"), "the instance does not exist yet")

	m.Machine.Spec.ProviderID = "test:///1"
	pinned, err := m.variables(template)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pinned["kubernetes_version"].String()).To(Equal("1.32"), "an upgrade of the control plane must not replace the node")
	g.Expect(pinned["labels"].String()).To(Equal(`{"a":"new"}`), "fields of the machine reach the instance")
}

func TestMachine_workspace(t *testing.T) {
	g := NewWithT(t)
	m := newMachine(infrav1.CAPTMachineSpec{})
	m.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
	wanted, err := m.Workspace(inspectedTemplate("name", "tags", "labels", "taints"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(wanted.Name).To(Equal("worker-0"))
	g.Expect(wanted.Cluster).To(Equal("production"))
	g.Expect(wanted.Spec.Variables).To(HaveLen(1), "fields that are not set are not passed on")
	g.Expect(wanted.Spec.Variables["name"].String()).To(Equal("worker-0"))

	m.Machine.Spec.Tags = map[string]string{"a": "b"}
	_, err = m.Workspace(inspectedTemplate("name"))
	_, stalled := fault.AsStalled(err)
	g.Expect(stalled).To(BeTrue(), "%v", err)
}
