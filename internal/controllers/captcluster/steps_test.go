package captcluster

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/cluster/workspace/workspacetest"
)

// fakeCloud returns one VPC, and counts the calls.
type fakeCloud struct {
	vpc   aws.VPC
	err   error
	calls int
	// role and subnets are those of the last call.
	role    string
	subnets []string
}

func (c *fakeCloud) LookUpVPC(_ context.Context, _ *workspace.Credentials, region, role, vpcID, cluster string, subnets []string) (aws.VPC, error) {
	c.calls++
	c.role, c.subnets = role, subnets
	if region != "eu-west-1" || vpcID != "vpc-1" || cluster != "production" {
		return aws.VPC{}, errors.New("unexpected arguments")
	}
	return c.vpc, c.err
}

func (c *fakeCloud) ListVPCUsers(_ context.Context, _ *workspace.Credentials, _, vpcID string) ([]string, error) {
	return []string{"network interface eni-1 (in " + vpcID + ")"}, c.err
}

func reconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	c := workspacetest.NewClient(t, objects...)
	return &Reconciler{Client: c, Workspaces: &workspace.Keeper{Client: c, Live: c}, Now: time.Now}
}

func newCluster(controlPlaneKind string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production", UID: "2"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: controlPlaneKind, Name: "main",
	}
	return cluster
}

func newControlPlane() *controlplanev1.CAPTControlPlane {
	c := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "main", Labels: map[string]string{clusterv1.ClusterNameLabel: "production"},
	}}
	c.Spec.WorkspaceTemplateRef = infrav1.TemplateReference{Name: "eks"}
	return c
}

func TestVPC_createsWorkspace(t *testing.T) {
	template := func(status metav1.ConditionStatus) *infrav1.WorkspaceTemplate {
		found := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "vpc"}}
		conditions.Set(found, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: status, Reason: infrav1.ModuleNotInspectedReason, Message: "no"})
		return found
	}
	for name, c := range map[string]struct {
		objects []client.Object
		reason  string
		stalled bool
		created bool
	}{
		"no template yet":     {nil, infrav1.WaitingForTemplateReason, false, false},
		"an invalid template": {[]client.Object{template(metav1.ConditionFalse)}, infrav1.WaitingForTemplateReason, true, false},
		"a template":          {[]client.Object{template(metav1.ConditionTrue)}, infrav1.WaitingForWorkspaceReason, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			infra := newInfra(func(i *infrav1.CAPTCluster) { i.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "vpc"} })
			r := reconciler(t, c.objects...)
			reason, stalled := reasonOf(r.infrastructure(t.Context(), &scope{infra: infra, cluster: newCluster("")}))
			g.Expect(reason).To(Equal(c.reason))
			g.Expect(stalled).To(Equal(c.stalled))
			found, err := r.Workspaces.Find(t.Context(), infra)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found != nil).To(Equal(c.created))
		})
	}
}

func TestVPC_reportsWhatKeepsTheWorkspaceFromBeingCreated(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "vpc"}}
	conditions.Set(template, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleNotInspectedReason})
	r := reconciler(t, template)
	r.Workspaces.Client = interceptor.NewClient(workspacetest.NewClient(t, template), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("denied")
		},
	})
	infra := newInfra(func(i *infrav1.CAPTCluster) { i.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "vpc"} })
	g.Expect(r.infrastructure(t.Context(), &scope{infra: infra, cluster: newCluster("")})).To(MatchError(ContainSubstring("denied")))
}

func TestExistingVPC_isLookedUpOnce(t *testing.T) {
	g := NewWithT(t)
	cloud := &fakeCloud{vpc: aws.VPC{ID: "vpc-1", Subnets: []aws.Subnet{{ID: "a", Zone: "z2"}, {ID: "b", Zone: "z1"}}}}
	r := reconciler(t)
	r.Cloud = cloud
	infra := newInfra(func(i *infrav1.CAPTCluster) { i.Spec.Region, i.Spec.ExistingVPCID = "eu-west-1", "vpc-1" })
	for range 2 {
		s := &scope{infra: infra, cluster: newCluster("OtherControlPlane")}
		g.Expect(r.infrastructure(t.Context(), s)).To(Succeed())
		g.Expect(setFailureDomains(t.Context(), s)).To(Succeed())
		g.Expect(infra.Status.SubnetIDs).To(Equal([]string{"a", "b"}))
		g.Expect(names(infra.Status.FailureDomains)).To(Equal([]string{"z1", "z2"}))
	}
	g.Expect(cloud.calls).To(Equal(1))
}

// A move or a restore keeps annotations, but no status. What the tags of subnets select may have
// changed since the cluster was created.
func TestExistingVPC_keepsItsSubnetsWithoutTheStatus(t *testing.T) {
	g := NewWithT(t)
	cloud := &fakeCloud{vpc: aws.VPC{ID: "vpc-1", Subnets: []aws.Subnet{{ID: "b", Zone: "z1"}, {ID: "a", Zone: "z2"}}}}
	r := reconciler(t)
	r.Cloud = cloud
	infra := newInfra(func(i *infrav1.CAPTCluster) { i.Spec.Region, i.Spec.ExistingVPCID = "eu-west-1", "vpc-1" })
	lookUp := func() {
		t.Helper()
		g.Expect(r.infrastructure(t.Context(), &scope{infra: infra, cluster: newCluster("OtherControlPlane")})).To(Succeed())
	}
	lookUp()
	g.Expect(cloud.subnets).To(BeEmpty())
	g.Expect(infra.Annotations).To(HaveKeyWithValue(infrav1.SubnetsAnnotation, "b,a"))

	infra.Status = infrav1.CAPTClusterStatus{}
	cloud.vpc.Subnets = []aws.Subnet{{ID: "a", Zone: "z2"}, {ID: "b", Zone: "z1"}}
	lookUp()
	g.Expect(cloud.subnets).To(Equal([]string{"b", "a"}))
	g.Expect(infra.Status.SubnetIDs).To(Equal([]string{"b", "a"}), "in the order that the modules had")

	delete(infra.Annotations, infrav1.SubnetsAnnotation)
	lookUp()
	g.Expect(infra.Annotations).To(HaveKeyWithValue(infrav1.SubnetsAnnotation, "b,a"), "the status is recorded again")

	infra.Spec.ExistingSubnetIDs = []string{"c"}
	cloud.vpc.Subnets = []aws.Subnet{{ID: "c", Zone: "z1"}}
	lookUp()
	g.Expect(cloud.subnets).To(Equal([]string{"c"}), "the spec decides")
	g.Expect(infra.Annotations).To(HaveKeyWithValue(infrav1.SubnetsAnnotation, "c"))
}

func TestExistingVPC_isLookedUpInTheAccountOfTheControlPlane(t *testing.T) {
	g := NewWithT(t)
	const role = "arn:aws:iam::210987654321:role/capt"
	controlPlane := newControlPlane()
	controlPlane.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: role}
	cloud := &fakeCloud{vpc: aws.VPC{ID: "vpc-1", Subnets: []aws.Subnet{{ID: "a", Zone: "z1"}}}}
	r := reconciler(t, controlPlane, &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "eks"}})
	r.Cloud = cloud
	infra := newInfra(func(i *infrav1.CAPTCluster) { i.Spec.Region, i.Spec.ExistingVPCID = "eu-west-1", "vpc-1" })
	g.Expect(r.infrastructure(t.Context(), &scope{infra: infra, cluster: newCluster("CAPTControlPlane")})).To(Succeed())
	g.Expect(cloud.role).To(Equal(role))
}

// A team chooses no role that lent credentials assume.
func TestCredentials_thatAreLentAssumeAllowedRolesOnly(t *testing.T) {
	g := NewWithT(t)
	const role = "arn:aws:iam::123456789012:role/admin"
	controlPlane := newControlPlane()
	controlPlane.Spec.WorkspaceTemplateRef.Namespace = "platform"
	controlPlane.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: role}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "eks"}}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "aws"}}
	granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "team"}, Spec: infrav1.CAPTReferenceGrantSpec{
		From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"team"}}},
		To:   []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceTemplate}, {Kind: infrav1.GrantedWorkspaceProviderConfig}},
	}}
	r := reconciler(t, controlPlane, template, config, granted)
	r.Workspaces.Grants = &grant.Checker{Client: r.Client, Live: r.Client}
	s := &scope{infra: newInfra(), cluster: newCluster("CAPTControlPlane")}
	_, _, err := r.credentials(t.Context(), s)
	reason, _ := reasonOf(err)
	g.Expect(reason).To(Equal(infrav1.NotAllowedReason), "%v", err)

	config.Spec.Lending = &infrav1.ProviderConfigLending{RoleARNs: []string{role}}
	g.Expect(r.Client.Update(t.Context(), config)).To(Succeed())
	_, found, err := r.credentials(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal(role))
}

func TestExistingVPC_keepsStatusWhenTheLookupFails(t *testing.T) {
	g := NewWithT(t)
	r := reconciler(t)
	r.Cloud = &fakeCloud{err: errors.New("denied")}
	infra := newInfra(func(i *infrav1.CAPTCluster) { i.Spec.Region, i.Spec.ExistingVPCID = "eu-west-1", "vpc-1" })
	g.Expect(r.infrastructure(t.Context(), &scope{infra: infra, cluster: newCluster("OtherControlPlane")})).To(MatchError("denied"))
	g.Expect(infra.Status.VPCID).To(BeEmpty())
}

func TestCredentials_areThoseOfTheControlPlane(t *testing.T) {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "eks"}}
	for name, c := range map[string]struct {
		kind    string
		objects []client.Object
		reason  string
	}{
		"another provider":     {kind: "OtherControlPlane"},
		"no control plane yet": {kind: "CAPTControlPlane", reason: infrav1.WaitingForTemplateReason},
		"a control plane":      {kind: "CAPTControlPlane", objects: []client.Object{newControlPlane(), template}},
		"no template yet":      {kind: "CAPTControlPlane", objects: []client.Object{newControlPlane()}, reason: infrav1.WaitingForTemplateReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			credentials, _, err := reconciler(t, c.objects...).credentials(t.Context(), &scope{infra: newInfra(), cluster: newCluster(c.kind)})
			if c.reason == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(credentials).NotTo(BeNil())
				return
			}
			reason, stalled := reasonOf(err)
			g.Expect(reason).To(Equal(c.reason), "%v", err)
			g.Expect(stalled).To(BeFalse())
		})
	}
}

func TestWaitForControlPlane(t *testing.T) {
	for name, c := range map[string]struct {
		label string
		waits bool
	}{
		"of the cluster":        {"production", true},
		"of another cluster":    {"staging", false},
		"of an unknown cluster": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			infra := newInfra(func(i *infrav1.CAPTCluster) {
				if c.label != "" {
					i.Labels = map[string]string{clusterv1.ClusterNameLabel: c.label}
				}
			})
			err := reconciler(t, newControlPlane()).waitForControlPlane(t.Context(), &scope{infra: infra})
			if !c.waits {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			reason, _ := reasonOf(err)
			g.Expect(reason).To(Equal(infrav1.WaitingForControlPlaneDeletionReason))
			g.Expect(err).To(MatchError(ContainSubstring("CAPTControlPlane main uses the infrastructure")))
		})
	}
}

func TestScope_waitsForTheOwningCluster(t *testing.T) {
	cluster := newCluster("")
	owned := func(i *infrav1.CAPTCluster) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: cluster.Name, UID: cluster.UID}}
	}
	deleting := func(i *infrav1.CAPTCluster) { i.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }
	for name, c := range map[string]struct {
		infra   *infrav1.CAPTCluster
		cluster *clusterv1.Cluster
		waits   bool
	}{
		"owned":                     {newInfra(owned), cluster, false},
		"not owned yet":             {newInfra(), cluster, true},
		"no Cluster":                {newInfra(), nil, true},
		"being deleted, no Cluster": {newInfra(deleting), nil, false},
		"being deleted, not owned":  {newInfra(deleting), cluster, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := reconciler(t).scope(t.Context(), c.infra, c.cluster)
			if c.waits {
				reason, _ := reasonOf(err)
				g.Expect(reason).To(Equal(infrav1.WaitingForClusterReason))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.infra).To(Equal(c.infra))
			g.Expect(s.cluster).To(Equal(c.cluster))
		})
	}
}

func TestRequests(t *testing.T) {
	g := NewWithT(t)
	named := func(namespace, name string, ref *infrav1.TemplateReference) *infrav1.CAPTCluster {
		return newInfra(func(i *infrav1.CAPTCluster) {
			i.Namespace, i.Name, i.Spec.VPCTemplateRef = namespace, name, ref
			i.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
		})
	}
	r := reconciler(t,
		named("team", "same", &infrav1.TemplateReference{Name: "network"}),
		named("other", "across", &infrav1.TemplateReference{Namespace: "team", Name: "network"}),
		named("other", "different", &infrav1.TemplateReference{Name: "network"}),
		named("team", "existing", nil),
		named("other", "same", nil),
	)
	request := func(namespace, name string) ctrl.Request {
		return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
	}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "network"}}
	g.Expect(r.requestsForTemplate(t.Context(), template)).To(ConsistOf(request("team", "same"), request("other", "across")))

	controlPlane := newControlPlane()
	g.Expect(r.requestsForControlPlane(t.Context(), controlPlane)).To(BeEmpty())
	controlPlane.Labels = map[string]string{clusterv1.ClusterNameLabel: "same"}
	g.Expect(r.requestsForControlPlane(t.Context(), controlPlane)).To(ConsistOf(request("team", "same")))
	controlPlane.Labels = nil
	g.Expect(r.requestsForControlPlane(t.Context(), controlPlane)).To(BeEmpty())
}

func TestCreatedOrDeleted(t *testing.T) {
	g := NewWithT(t)
	p := createdOrDeleted()
	g.Expect(p.Create(event.CreateEvent{})).To(BeTrue())
	g.Expect(p.Update(event.UpdateEvent{})).To(BeFalse())
	g.Expect(p.Delete(event.DeleteEvent{})).To(BeTrue())
	g.Expect(p.Generic(event.GenericEvent{})).To(BeFalse())
}
