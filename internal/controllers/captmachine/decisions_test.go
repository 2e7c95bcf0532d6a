package captmachine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func newScope(spec infrav1.CAPTMachineSpec) *scope {
	return &scope{machine: &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}, Spec: spec}}
}

func TestOwnershipOf(t *testing.T) {
	ref := func(apiVersion, kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "x"}
	}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		want   ownership
	}{
		"no owner":       {nil, standalone},
		"CAPTMachineSet": {[]metav1.OwnerReference{ref("infrastructure.cluster.x-k8s.io/v1beta1", "CAPTMachineSet")}, standalone},
		"Cluster":        {[]metav1.OwnerReference{ref("cluster.x-k8s.io/v1beta2", "Cluster")}, standalone},
		"another group":  {[]metav1.OwnerReference{ref("example.com/v1", "Machine")}, standalone},
		"MachineSet":     {[]metav1.OwnerReference{ref("cluster.x-k8s.io/v1beta2", "MachineSet")}, pending},
		"another control plane": {
			[]metav1.OwnerReference{ref("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane")}, pending,
		},
		"Machine": {
			[]metav1.OwnerReference{ref("cluster.x-k8s.io/v1beta2", "MachineSet"), ref("cluster.x-k8s.io/v1beta2", "Machine")}, owned,
		},
		"Machine of an older version": {[]metav1.OwnerReference{ref("cluster.x-k8s.io/v1beta1", "Machine")}, owned},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ownershipOf(c.owners)).To(Equal(c.want))
		})
	}
}

func outputsApply(outputs map[string]string) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
	apply.Status.Outputs = map[string]infrav1.Value{}
	for name, raw := range outputs {
		apply.Status.Outputs[name] = infrav1.Value{Raw: []byte(raw)}
	}
	return apply
}

func TestReportInstance_writesProviderIDFirst(t *testing.T) {
	g := NewWithT(t)
	s := newScope(infrav1.CAPTMachineSpec{FailureDomain: "1a"})
	s.apply = outputsApply(map[string]string{
		"provider_id": `"test:///1"`, "node_name": `"ip-10-0-0-1"`,
		"addresses": `[{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"ip-10-0-0-1"}]`,
	})

	waiting, ok := fault.AsWaiting(s.reportInstance())
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForProviderIDReason))
	g.Expect(s.machine.Spec.ProviderID).To(Equal("test:///1"))
	g.Expect(s.machine.Status.NodeName).To(Equal("ip-10-0-0-1"))
	g.Expect(s.machine.Status.FailureDomain).To(Equal("1a"))
	g.Expect(s.machine.Status.Addresses).To(Equal([]clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}, {Type: clusterv1.MachineHostName, Address: "ip-10-0-0-1"},
	}))
	g.Expect(s.machine.Status.Initialization.Provisioned).To(BeNil(), "the provider ID has not been written yet")

	s.providerIDWritten = true
	g.Expect(s.reportInstance()).To(Succeed())
	g.Expect(s.machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
}

func TestReportInstance_refusesInvalidOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		providerID string
		outputs    map[string]string
		reason     string
		want       string
	}{
		"no provider ID":        {outputs: map[string]string{"provider_id": `null`}, reason: infrav1.MissingOutputReason, want: "output provider_id is empty or sensitive"},
		"number as provider ID": {outputs: map[string]string{"provider_id": `1`}, reason: infrav1.MissingOutputReason, want: "decoding output provider_id of WorkspaceTemplateApply worker-0"},
		"another instance":      {providerID: "test:///1", outputs: map[string]string{"provider_id": `"test:///2"`}, reason: infrav1.ProviderIDChangedReason, want: "replaced the instance with test:///2"},
		"unknown address type":  {outputs: map[string]string{"provider_id": `"x"`, "addresses": `[{"type":"IP","address":"10.0.0.1"}]`}, reason: infrav1.MissingOutputReason, want: `output addresses[0].type is "IP": it must be one of`},
		"empty address":         {outputs: map[string]string{"provider_id": `"x"`, "addresses": `[{"type":"InternalIP","address":""}]`}, reason: infrav1.MissingOutputReason, want: "omit unknown addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(infrav1.CAPTMachineSpec{ProviderID: c.providerID})
			s.apply = outputsApply(c.outputs)
			err := s.reportInstance()
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Reason).To(Equal(c.reason))
			g.Expect(stalled.Message()).To(ContainSubstring(c.want))
			g.Expect(s.machine.Status.Addresses).To(BeEmpty())
			g.Expect(s.machine.Status.Initialization.Provisioned).To(BeNil())
		})
	}
}

func TestDrainExemption(t *testing.T) {
	cluster := func(change func(*clusterv1.Cluster)) *clusterv1.Cluster {
		c := &clusterv1.Cluster{}
		c.Status.Initialization.ControlPlaneInitialized = new(true)
		if change != nil {
			change(c)
		}
		return c
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		change  func(*scope)
		reason  string
		message string
	}{
		"machine with a node": {},
		"mode Drain":          {change: func(s *scope) { s.machine.Spec.Drain = &infrav1.DrainPolicy{Mode: infrav1.DrainModeDrain} }},
		"mode Skip": {
			change: func(s *scope) { s.machine.Spec.Drain = &infrav1.DrainPolicy{Mode: infrav1.DrainModeSkip} },
			reason: infrav1.DrainSkippedReason, message: "spec.drain.mode is Skip",
		},
		"annotation": {
			change: func(s *scope) {
				s.machine.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""}
			},
			reason: infrav1.DrainSkippedReason, message: "machine.cluster.x-k8s.io/exclude-node-draining",
		},
		"no node yet": {
			change: func(s *scope) { s.machine.Spec.ProviderID = "" },
			reason: infrav1.NodeGoneReason, message: "never had a node",
		},
		"no Cluster": {
			change: func(s *scope) { s.cluster = nil },
			reason: infrav1.DrainSkippedReason, message: "The Cluster does not exist",
		},
		"Cluster being deleted": {
			change: func(s *scope) { s.cluster = cluster(func(c *clusterv1.Cluster) { c.DeletionTimestamp = &now }) },
			reason: infrav1.DrainSkippedReason, message: "The Cluster is being deleted",
		},
		"control plane being deleted": {
			change: func(s *scope) { s.info = &desired.ClusterInfo{ControlPlaneDeleting: true} },
			reason: infrav1.DrainSkippedReason, message: "The control plane is being deleted",
		},
		"no control plane yet": {
			change: func(s *scope) { s.cluster = &clusterv1.Cluster{} },
			reason: infrav1.DrainSkippedReason, message: "never initialized",
		},
		"earlier decision": {
			change: func(s *scope) {
				conditions.Set(s.machine, metav1.Condition{
					Type: infrav1.DrainedCondition, Status: metav1.ConditionTrue, Reason: infrav1.DrainTimedOutReason, Message: "aborted",
				})
			},
			reason: infrav1.DrainTimedOutReason, message: "aborted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(infrav1.CAPTMachineSpec{ProviderID: "test:///1"})
			s.cluster = cluster(nil)
			if c.change != nil {
				c.change(s)
			}
			reason, message := s.drainExemption()
			g.Expect(reason).To(Equal(c.reason))
			g.Expect(message).To(ContainSubstring(c.message))
		})
	}
}

func TestDrain_isLimitedByTimeout(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newScope(infrav1.CAPTMachineSpec{})
	s.machine.DeletionTimestamp = &metav1.Time{Time: start}

	s.now = start.Add(100 * time.Hour)
	g.Expect(s.drainTimedOut()).To(BeFalse(), "no limit without a timeout")
	g.Expect(s.nextDrainCheck()).To(Equal(drainInterval))

	s.machine.Status.NodeProblem = &infrav1.NodeProblem{Reason: infrav1.NodeNotReadyReason}
	g.Expect(s.drainTimedOut()).To(BeTrue(), "a disruption budget does not keep a node that does not work for ever")
	s.node = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	g.Expect(s.drainTimedOut()).To(BeFalse(), "the node works again")

	s.machine.Spec.Drain = &infrav1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Minute}}
	for after, want := range map[time.Duration]struct {
		timedOut bool
		next     time.Duration
	}{
		0:                {false, drainInterval},
		58 * time.Second: {false, 2 * time.Second},
		time.Minute:      {true, 0},
	} {
		s.now = start.Add(after)
		g.Expect(s.drainTimedOut()).To(Equal(want.timedOut), "after %s", after)
		g.Expect(s.nextDrainCheck()).To(Equal(want.next), "after %s", after)
	}
}
