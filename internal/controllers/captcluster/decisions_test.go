package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// newInfra returns a CAPTCluster after changes.
func newInfra(changes ...func(*infrav1.CAPTCluster)) *infrav1.CAPTCluster {
	infra := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "network", UID: "1"}}
	for _, change := range changes {
		change(infra)
	}
	return infra
}

// newWorkspace returns a workspace with outputs, whose Ready condition has a
// status and a reason.
func newWorkspace(status metav1.ConditionStatus, reason string, outputs map[string]string) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "production-vpc"}}
	for name, value := range outputs {
		if apply.Status.Outputs == nil {
			apply.Status.Outputs = map[string]infrav1.Value{}
		}
		apply.Status.Outputs[name] = infrav1.Value{Raw: []byte(value)}
	}
	conditions.Set(apply, metav1.Condition{Type: clusterv1.ReadyCondition, Status: status, Reason: reason, Message: "Applied: 3 of 9"})
	return apply
}

// reasonOf returns the reason of a fault, and how it ends.
func reasonOf(err error) (reason string, stalled bool) {
	if s, ok := fault.AsStalled(err); ok {
		return s.Reason, true
	}
	if w, ok := fault.AsWaiting(err); ok {
		return w.Reason, false
	}
	return "", false
}

// created makes a CAPTCluster one whose VPC a template creates.
func created(i *infrav1.CAPTCluster) { i.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "vpc"} }

func names(domains []clusterv1.FailureDomain) (names []string) {
	for _, domain := range domains {
		names = append(names, domain.Name)
	}
	return names
}

func TestRecordWorkspace(t *testing.T) {
	applied := map[string]string{"vpc_id": `"vpc-2"`, "subnet_ids": `["c"]`, "azs": `["z2","z1"]`}
	for name, c := range map[string]struct {
		apply   *infrav1.WorkspaceTemplateApply
		vpc     string
		zones   []string
		reason  string
		stalled bool
	}{
		"applied":        {apply: newWorkspace(metav1.ConditionTrue, "Ready", applied), vpc: "vpc-2", zones: []string{"z2", "z1"}},
		"being changed":  {newWorkspace(metav1.ConditionFalse, infrav1.RunInProgressReason, applied), "vpc-2", []string{"z2", "z1"}, infrav1.WaitingForWorkspaceReason, false},
		"being created":  {newWorkspace(metav1.ConditionFalse, infrav1.RunInProgressReason, nil), "", nil, infrav1.WaitingForWorkspaceReason, false},
		"failed":         {newWorkspace(metav1.ConditionFalse, infrav1.RunFailedReason, applied), "vpc-2", []string{"z2", "z1"}, infrav1.WorkspaceFailedReason, true},
		"without an ID":  {newWorkspace(metav1.ConditionTrue, "Ready", map[string]string{"vpc_id": `""`}), "", nil, infrav1.VPCNotFoundReason, true},
		"with a null ID": {newWorkspace(metav1.ConditionTrue, "Ready", map[string]string{"vpc_id": `null`}), "", nil, infrav1.VPCNotFoundReason, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{infra: newInfra(created)}
			reason, stalled := reasonOf(s.recordWorkspace(c.apply))
			g.Expect(reason).To(Equal(c.reason))
			g.Expect(stalled).To(Equal(c.stalled))
			g.Expect(s.infra.Status.WorkspaceRef).To(HaveField("Name", "production-vpc"))
			g.Expect(s.infra.Status.VPCID).To(Equal(c.vpc))
			g.Expect(names(s.domains)).To(Equal(c.zones))
		})
	}
}

func TestRecordWorkspace_keepsVPCWhileOutputsAreUnknown(t *testing.T) {
	g := NewWithT(t)
	s := &scope{infra: newInfra(func(i *infrav1.CAPTCluster) { i.Status.VPCID, i.Status.SubnetIDs = "vpc-1", []string{"a"} })}
	g.Expect(s.recordWorkspace(newWorkspace(metav1.ConditionTrue, "Ready", nil))).To(Succeed())
	g.Expect(s.infra.Status.VPCID).To(Equal("vpc-1"))
	g.Expect(s.infra.Status.SubnetIDs).To(Equal([]string{"a"}))
}

func TestRecordOutputs_prefersPrivateSubnets(t *testing.T) {
	for name, c := range map[string]struct {
		outputs map[string]string
		want    []string
		err     string
	}{
		"private_subnets":    {map[string]string{"private_subnets": `["a","b"]`, "private_subnet_ids": `["c"]`, "subnet_ids": `["d"]`}, []string{"a", "b"}, ""},
		"private_subnet_ids": {map[string]string{"private_subnets": `[]`, "private_subnet_ids": `["c"]`, "subnet_ids": `["d"]`}, []string{"c"}, ""},
		"subnet_ids":         {map[string]string{"private_subnets": `null`, "subnet_ids": `["d"]`}, []string{"d"}, ""},
		"none":               {map[string]string{"vpc_id": `"vpc-1"`}, nil, ""},
		"no list":            {map[string]string{"subnet_ids": `"d"`}, nil, "decoding output subnet_ids"},
		"no ID":              {map[string]string{"vpc_id": `[]`}, nil, "decoding output vpc_id"},
		"no zones":           {map[string]string{"azs": `"a"`}, nil, "decoding output azs"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{infra: newInfra()}
			err := s.recordOutputs(newWorkspace(metav1.ConditionTrue, "Ready", c.outputs))
			if c.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.infra.Status.SubnetIDs).To(Equal(c.want))
		})
	}
}

func TestIsLookedUp_untilTheSpecChanges(t *testing.T) {
	for name, c := range map[string]struct {
		vpc          string
		found, given []string
		want         bool
	}{
		"never":                        {"", nil, nil, false},
		"selected":                     {"vpc-1", []string{"a", "b"}, nil, true},
		"another VPC":                  {"vpc-2", []string{"a", "b"}, nil, false},
		"no subnets":                   {"vpc-1", nil, nil, false},
		"the given ones, in any order": {"vpc-1", []string{"a", "b"}, []string{"b", "a"}, true},
		"one more given":               {"vpc-1", []string{"a", "b"}, []string{"a", "b", "c"}, false},
		"one less given":               {"vpc-1", []string{"a", "b"}, []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{infra: newInfra(func(i *infrav1.CAPTCluster) {
				i.Spec.ExistingVPCID, i.Spec.ExistingSubnetIDs = "vpc-1", c.given
				i.Status.VPCID, i.Status.SubnetIDs = c.vpc, c.found
			})}
			NewWithT(t).Expect(s.isLookedUp()).To(Equal(c.want))
		})
	}
}

func TestRecordVPC_replacesSubnets(t *testing.T) {
	g := NewWithT(t)
	s := &scope{infra: newInfra(func(i *infrav1.CAPTCluster) { i.Status.SubnetIDs = []string{"old"} })}
	s.recordVPC(aws.VPC{ID: "vpc-1", Subnets: []aws.Subnet{{ID: "a", Zone: "z1"}, {ID: "b", Zone: "z2"}}})
	g.Expect(s.infra.Status.VPCID).To(Equal("vpc-1"))
	g.Expect(s.infra.Status.SubnetIDs).To(Equal([]string{"a", "b"}))
	g.Expect(names(s.domains)).To(Equal([]string{"z1", "z2"}))
}

func TestSetFailureDomains_listsEachZoneOnce(t *testing.T) {
	g := NewWithT(t)
	s := &scope{infra: newInfra(created)}
	s.addZones("z2", "z1", "z2")
	s.infra.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "old"}}
	g.Expect(setFailureDomains(t.Context(), s)).To(Succeed())
	g.Expect(s.infra.Status.FailureDomains).To(Equal([]clusterv1.FailureDomain{
		{Name: "z1", ControlPlane: new(true)}, {Name: "z2", ControlPlane: new(true)},
	}))
	g.Expect(domainsMessage(s)).To(Equal("z1, z2"))
	g.Expect(domainsMessage(&scope{infra: newInfra(created)})).To(ContainSubstring("add an output failure_domains or azs"))
	g.Expect(domainsMessage(&scope{infra: newInfra()})).To(Equal("The cluster has no failure domains"))
}

func TestInfrastructureMessage(t *testing.T) {
	g := NewWithT(t)
	s := &scope{infra: newInfra(func(i *infrav1.CAPTCluster) { i.Status.VPCID, i.Status.SubnetIDs = "vpc-1", []string{"a", "b"} })}
	g.Expect(infrastructureMessage(s)).To(Equal("The cluster has no infrastructure of its own"))
	s.infra.Status.WorkspaceRef = &infrav1.LocalReference{Name: "demo-infrastructure"}
	g.Expect(infrastructureMessage(s)).To(Equal("WorkspaceTemplateApply demo-infrastructure is applied"))
	created(s.infra)
	g.Expect(infrastructureMessage(s)).To(Equal("VPC vpc-1"))
	s.infra.Spec.ExistingVPCID = "vpc-1"
	g.Expect(infrastructureMessage(s)).To(Equal("Using VPC vpc-1 with 2 subnets"))
}

func TestRetainsVPC(t *testing.T) {
	for name, c := range map[string]struct {
		vpc, existing string
		retain        bool
		want          bool
	}{
		"created":                    {"vpc-1", "", false, false},
		"created and to be retained": {"vpc-1", "", true, true},
		"existing":                   {"vpc-1", "vpc-1", false, true},
		"not created yet":            {"", "", true, false},
		"not looked up yet":          {"", "vpc-1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{infra: newInfra(func(i *infrav1.CAPTCluster) {
				i.Status.VPCID, i.Spec.ExistingVPCID, i.Spec.RetainVPCOnDelete = c.vpc, c.existing, c.retain
			})}
			if c.want {
				g.Expect(destroyedReason(s)).To(Equal(infrav1.VPCRetainedReason))
				g.Expect(destroyedMessage(s)).To(Equal("VPC vpc-1 is retained"))
				return
			}
			g.Expect(destroyedReason(s)).To(BeEmpty())
			g.Expect(destroyedMessage(s)).To(BeEmpty())
		})
	}
}

func TestClusterName(t *testing.T) {
	g := NewWithT(t)
	infra := newInfra(func(i *infrav1.CAPTCluster) { i.Labels = map[string]string{clusterv1.ClusterNameLabel: "label"} })
	g.Expect((&scope{infra: infra}).clusterName()).To(Equal("label"))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	g.Expect((&scope{infra: infra, cluster: cluster}).clusterName()).To(Equal("cluster"))
	g.Expect((&scope{infra: newInfra()}).clusterName()).To(BeEmpty())
}
