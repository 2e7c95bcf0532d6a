package operate

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestNotFound_suggestsTheNearestName(t *testing.T) {
	for name, tc := range map[string]struct {
		existing []string
		want     string
	}{
		"similar name":     {[]string{"network", "other"}, `workspace "netwrk" not found in namespace "n": did you mean "network"?`},
		"other names":      {[]string{"other"}, `workspace "netwrk" not found in namespace "n": press TAB to complete a name, or choose another namespace with -n`},
		"nothing in there": {nil, `workspace "netwrk" not found in namespace "n", which has no workspaces: choose another namespace with -n`},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(NotFound("workspace", "n", "netwrk", tc.existing)).To(MatchError(tc.want))
		})
	}
}

func TestNotFoundOf_namesTheCommandThatListsThem(t *testing.T) {
	g := NewWithT(t)
	g.Expect(notFoundOf("run", "net-r3", []string{"net-r2"}, "captctl history net")).To(MatchError(`run "net-r3" not found: did you mean "net-r2"?`))
	g.Expect(notFoundOf("run", "other", []string{"net-r2"}, "captctl history net")).To(MatchError(`run "other" not found: see captctl history net`))
}

func controlled(apply *infrav1.WorkspaceTemplateApply, owner types.UID) *infrav1.WorkspaceTemplateApply {
	apply.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "owner", UID: owner, Controller: new(true)}}
	return apply
}

func TestFind_byNameAndByCluster(t *testing.T) {
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}
	}
	demo := &clusterv1.Cluster{ObjectMeta: object("demo")}
	demo.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTControlPlane", Name: "demo-cp"}
	demo.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTCluster", Name: "demo-infra"}
	// Its control plane has no workspace yet, and its infrastructure is not CAPT's.
	starting := &clusterv1.Cluster{ObjectMeta: object("starting")}
	starting.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTControlPlane", Name: "starting-cp"}
	starting.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "OtherCluster", Name: "other"}
	c := newClient(
		demo, starting, &clusterv1.Cluster{ObjectMeta: object("empty")},
		&controlplanev1.CAPTControlPlane{ObjectMeta: object("demo-cp")}, &infrav1.CAPTCluster{ObjectMeta: object("demo-infra")},
		&controlplanev1.CAPTControlPlane{ObjectMeta: object("starting-cp")},
		controlled(workspace("eks"), "demo-cp"), controlled(workspace("net"), "demo-infra"), workspace("alone"),
	)
	for name, tc := range map[string]struct{ want, err string }{
		"alone":                {want: "alone"},
		"cluster/demo":         {want: "eks"},
		"cluster/demo/vpc":     {want: "net"},
		"alon":                 {err: `workspace "alon" not found in namespace "team": did you mean "alone"?`},
		"cluster/dem":          {err: `cluster "dem" not found in namespace "team": did you mean "demo"?`},
		"cluster/demo/eks":     {err: "cluster/demo/eks is not a workspace: use cluster/demo for the control plane, or cluster/demo/vpc for the VPC"},
		"cluster/empty":        {err: "cluster empty has no control plane that CAPT manages: see captctl describe cluster empty"},
		"cluster/starting":     {err: "the control plane of starting has no workspace yet: see captctl describe cluster starting"},
		"cluster/starting/vpc": {err: "cluster starting has no VPC that CAPT manages: see captctl describe cluster starting"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply, err := Find(t.Context(), c, "team", name)
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(apply.Name).To(Equal(tc.want))
		})
	}
}

func TestPolicy_takesTheTemplatesSettings(t *testing.T) {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shared", Name: "net"}}
	template.Spec.Template.Spec.Approval = infrav1.ApprovalManual
	local := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
	c := newClient(template, local)
	for name, tc := range map[string]struct {
		namespace, template string
		want                infrav1.ApprovalMode
	}{
		"other namespace":            {"shared", "net", infrav1.ApprovalManual},
		"namespace of the workspace": {"", "net", infrav1.ApprovalAuto},
		"template does not exist":    {"", "none", infrav1.ApprovalAuto},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := workspace("net")
			apply.Spec.TemplateRef.Namespace, apply.Spec.TemplateRef.Name = tc.namespace, tc.template
			policy, err := Policy(t.Context(), c, apply)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policy.Approval).To(Equal(tc.want))
		})
	}
}
