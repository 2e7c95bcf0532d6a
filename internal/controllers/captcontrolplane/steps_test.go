package captcontrolplane

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/cluster/workspace/workspacetest"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

func reconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	c := workspacetest.NewClient(t, objects...)
	return &Reconciler{
		Client: c, Live: c, Workspaces: &workspace.Keeper{Client: c, Live: c},
		Now: func() time.Time { return noon },
	}
}

func newCluster(changes ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production", UID: "2"}}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "main"}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "network"}
	for _, change := range changes {
		change(c)
	}
	return c
}

func newInfra(changes ...func(*infrav1.CAPTCluster)) *infrav1.CAPTCluster {
	i := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "network"}}
	i.Spec.Region = "eu-west-1"
	i.Status.VPCID = "vpc-1"
	i.Status.Initialization.Provisioned = new(true)
	for _, change := range changes {
		change(i)
	}
	return i
}

func newTemplate() *infrav1.WorkspaceTemplate {
	t := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "eks"}}
	conditions.Set(t, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleNotInspectedReason})
	return t
}

// fakeCloud signs tokens that expire in 15 minutes, and counts its calls.
type fakeCloud struct {
	tokens, roles int
	err           error
	// leftovers are the answer to queries.
	leftovers aws.Leftovers
	queries   []aws.LeftoverQuery
	// keys are the credentials of tokens and queries, if there are any.
	keys []string
	// endpoint is that of the cluster of the last token.
	endpoint string
	// spotRoleOf is the role that the Spot role was created as.
	spotRoleOf string
}

func (c *fakeCloud) record(credentials *workspace.Credentials) {
	if key := credentials.Env["AWS_ACCESS_KEY_ID"]; key != "" {
		c.keys = append(c.keys, key)
	}
}

func (c *fakeCloud) EnsureSpotRole(_ context.Context, _ *workspace.Credentials, _, role string) (bool, error) {
	c.roles++
	c.spotRoleOf = role
	return c.err == nil, c.err
}

func (c *fakeCloud) SweepLeftovers(_ context.Context, credentials *workspace.Credentials, _ string, query aws.LeftoverQuery) (aws.Leftovers, error) {
	c.record(credentials)
	c.queries = append(c.queries, query)
	return c.leftovers, c.err
}

func (c *fakeCloud) Token(_ context.Context, credentials *workspace.Credentials, region, _ string, cluster aws.Cluster) (aws.Token, error) {
	c.record(credentials)
	c.tokens++
	c.endpoint = cluster.Endpoint
	return aws.Token{Value: aws.NewSecret("token-of-" + cluster.Name + "-in-" + region), ExpiresAt: noon.Add(15 * time.Minute)}, c.err
}

// fakeWorkload is a workload cluster with objects in memory.
type fakeWorkload struct {
	client client.Client
	err    error
}

func (w *fakeWorkload) Version(context.Context, []byte) (*apiversion.Info, error) {
	return &apiversion.Info{Major: "1", Minor: "33", GitVersion: "v1.33.5"}, w.err
}

func (w *fakeWorkload) Client([]byte) (client.Client, error) { return w.client, w.err }

func TestScope_waitsForTheOwningCluster(t *testing.T) {
	owned := func(c *controlplanev1.CAPTControlPlane) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: "production", UID: "2"}}
	}
	deleting := func(c *controlplanev1.CAPTControlPlane) { c.DeletionTimestamp = new(metav1.NewTime(noon)) }
	addressed := func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "a", Port: 443}
	}
	for name, c := range map[string]struct {
		controlPlane *controlplanev1.CAPTControlPlane
		cluster      *clusterv1.Cluster
		want         string
		published    bool
	}{
		"owned":                     {newControlPlane(owned), newCluster(), "", false},
		"owned, with an endpoint":   {newControlPlane(owned, addressed), newCluster(), "", true},
		"not owned yet":             {newControlPlane(), newCluster(), "wait " + infrav1.WaitingForClusterReason, false},
		"no Cluster":                {newControlPlane(), nil, "wait " + infrav1.WaitingForClusterReason, false},
		"being deleted, no Cluster": {newControlPlane(deleting), nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := reconciler(t).scope(t.Context(), c.controlPlane, c.cluster)
			g.Expect(result(err)).To(Equal(c.want))
			if err != nil {
				return
			}
			g.Expect(s.endpointPublished).To(Equal(c.published))
			g.Expect(s.now).To(Equal(noon))
			g.Expect(s.clusterName()).To(Equal("production"))
			g.Expect(c.controlPlane.Status.ExternalManagedControlPlane).To(HaveValue(BeTrue()))
		})
	}
}

func TestInfrastructure(t *testing.T) {
	other := func(provisioned *bool) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "other", Kind: "OtherCluster", Name: "network"}
			c.Status.Initialization.InfrastructureProvisioned = provisioned
		}
	}
	none := func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{} }
	waits := "wait " + controlplanev1.WaitingForInfrastructureReason
	for name, c := range map[string]struct {
		cluster *clusterv1.Cluster
		infra   *infrav1.CAPTCluster
		want    string
		message string
	}{
		"provisioned":     {newCluster(), newInfra(), "", "VPC vpc-1"},
		"missing":         {newCluster(), nil, waits, ""},
		"not provisioned": {newCluster(), newInfra(func(i *infrav1.CAPTCluster) { i.Status.Initialization.Provisioned = nil }), waits, "VPC vpc-1"},
		"VPC exists": {newCluster(), newInfra(func(i *infrav1.CAPTCluster) {
			i.Status.Initialization.Provisioned = nil
			i.Status.Conditions = []metav1.Condition{{Type: infrav1.FailureDomainsKnownCondition, Status: metav1.ConditionTrue}, {Type: infrav1.InfrastructureReadyCondition, Status: metav1.ConditionFalse}}
		}), "", "VPC vpc-1"},
		"no longer provisioned": {newCluster(), newInfra(func(i *infrav1.CAPTCluster) { i.Status.Initialization.Provisioned = new(false) }), waits, "VPC vpc-1"},
		"no VPC": {newCluster(), newInfra(func(i *infrav1.CAPTCluster) {
			i.Status.VPCID, i.Spec.VPCTemplateRef = "", &infrav1.TemplateReference{Name: "vpc"}
		}), waits, ""},
		"no VPC is needed":              {newCluster(), newInfra(func(i *infrav1.CAPTCluster) { i.Status.VPCID = "" }), "", ""},
		"another provider":              {newCluster(other(new(true))), nil, "", ""},
		"another provider, not ready":   {newCluster(other(nil)), nil, waits, ""},
		"another provider, not yet":     {newCluster(other(new(false))), nil, waits, ""},
		"a cluster without a reference": {newCluster(none), nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var objects []client.Object
			if c.infra != nil {
				objects = append(objects, c.infra)
			}
			s := newScope()
			s.cluster = c.cluster
			g.Expect(result(reconciler(t, objects...).infrastructure(t.Context(), s))).To(Equal(c.want))
			g.Expect(infrastructureMessage(s)).To(Equal(c.message))
		})
	}
}

func TestInfrastructure_offersItsOutputs(t *testing.T) {
	g := NewWithT(t)
	infra := newInfra(func(i *infrav1.CAPTCluster) {
		i.Spec.WorkspaceTemplateRef, i.Status.VPCID, i.UID = &infrav1.TemplateReference{Name: "network"}, "", "3"
	})
	apply := newWorkspace(map[string]string{"network_id": "42"})
	apply.Name = "production-infrastructure"
	apply.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(infra, infrav1.GroupVersion.WithKind("CAPTCluster"))}
	s := newScope()
	s.cluster = newCluster()
	g.Expect(reconciler(t, infra, apply).infrastructure(t.Context(), s)).To(Succeed())
	g.Expect(s.infraOutputs).To(HaveKey("network_id"))
}

func TestSpotRole_isEnsuredOnce(t *testing.T) {
	g := NewWithT(t)
	cloud := &fakeCloud{}
	r := reconciler(t, newTemplate())
	r.Cloud = cloud
	s := newScope()
	s.cluster = newCluster()
	g.Expect(r.spotRole(t.Context(), s)).To(Succeed())
	g.Expect(s.spotRoleCreated).To(BeTrue())
	g.Expect(cloud.spotRoleOf).To(BeEmpty())

	conditions.Set(s.controlPlane, metav1.Condition{Type: controlplanev1.SpotRoleReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
	g.Expect(r.spotRole(t.Context(), s)).To(Succeed())
	g.Expect(cloud.roles).To(Equal(1))

	s = newScope(func(c *controlplanev1.CAPTControlPlane) { c.Spec.SpotServiceLinkedRole = controlplanev1.SpotRoleSkip })
	g.Expect(r.spotRole(t.Context(), s)).To(Succeed())
	g.Expect(cloud.roles).To(Equal(1))

	const role = "arn:aws:iam::210987654321:role/capt"
	s = newScope(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: role}
	})
	s.cluster = newCluster()
	g.Expect(r.spotRole(t.Context(), s)).To(Succeed())
	g.Expect(cloud.spotRoleOf).To(Equal(role), "it is the role of the account")

	g.Expect(result(reconciler(t).spotRole(t.Context(), newScope()))).To(Equal("wait "+infrav1.WaitingForTemplateReason), "without the template there are no credentials")
}

func TestWorkspace(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		change  func(*controlplanev1.CAPTControlPlane)
		infra   *infrav1.CAPTCluster
		want    string
		created bool
	}{
		"created":            {objects: []client.Object{newTemplate()}, infra: newInfra(), want: "wait " + infrav1.WaitingForWorkspaceReason, created: true},
		"no VPC":             {objects: []client.Object{newTemplate()}, want: "wait " + controlplanev1.WaitingForInfrastructureReason},
		"no template":        {infra: newInfra(), want: "wait " + infrav1.WaitingForTemplateReason},
		"an invalid version": {objects: []client.Object{newTemplate()}, infra: newInfra(), change: func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "latest" }, want: "stall " + infrav1.InvalidVariableReason},
		"a variable of CAPT": {objects: []client.Object{newTemplate()}, infra: newInfra(), change: func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.Variables = map[string]infrav1.Value{"kubernetes_version": infrav1.StringValue("1.33")}
		}, want: "stall " + infrav1.InvalidVariableReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope()
			if c.change != nil {
				c.change(s.controlPlane)
			}
			s.cluster, s.infra = newCluster(), c.infra
			r := reconciler(t, c.objects...)
			g.Expect(result(r.workspace(t.Context(), s))).To(Equal(c.want))
			found, err := r.Workspaces.Find(t.Context(), s.controlPlane)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found != nil).To(Equal(c.created))
			g.Expect(s.controlPlane.Status.WorkspaceRef != nil).To(Equal(c.created))
		})
	}
}

func TestWorkspace_reportsWhatPreventsItsCreation(t *testing.T) {
	g := NewWithT(t)
	r := reconciler(t, newTemplate())
	r.Workspaces.Client = interceptor.NewClient(workspacetest.NewClient(t, newTemplate()), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("denied")
		},
	})
	s := newScope()
	s.cluster, s.infra = newCluster(), newInfra()
	g.Expect(r.workspace(t.Context(), s)).To(MatchError(ContainSubstring("denied")))
}

// oldVersions rejects Kubernetes versions above 1.33 for the add-on karpenter.
type oldVersions struct{}

func (oldVersions) CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error {
	if addon.Name == "karpenter" && kubernetes > "1.33" {
		return errors.New("supports 1.33")
	}
	return nil
}

func TestHold(t *testing.T) {
	addon := func(name, cluster string) client.Object {
		return &addonsv1.CAPTAddon{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
			Status:     addonsv1.CAPTAddonStatus{Clusters: []addonsv1.ClusterAddonStatus{{Name: cluster}}},
		}
	}
	from := func(m int) *kubeversion.Minor { return &kubeversion.Minor{Major: 1, Minor: m} }
	karpenter := []client.Object{addon("flux", "production"), addon("karpenter", "production")}
	for name, c := range map[string]struct {
		addons    []client.Object
		requested *kubeversion.Minor
		next      int
		skip      bool
		unchecked bool
		want      string
	}{
		"not supported":            {addons: karpenter, requested: from(33), next: 34, want: "wait " + addonsv1.VersionUnsupportedReason},
		"supported":                {addons: karpenter, requested: from(32), next: 33},
		"no upgrade":               {addons: karpenter, requested: from(34), next: 34},
		"a new control plane":      {addons: karpenter, next: 34},
		"skipped":                  {addons: karpenter, requested: from(33), next: 34, skip: true},
		"unchecked":                {addons: karpenter, requested: from(33), next: 34, unchecked: true},
		"installed in another one": {addons: []client.Object{addon("karpenter", "staging")}, requested: from(33), next: 34},
		"without add-ons":          {requested: from(33), next: 34},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := reconciler(t, c.addons...)
			if !c.unchecked {
				r.Versions = oldVersions{}
			}
			s := newScope(func(cp *controlplanev1.CAPTControlPlane) {
				if c.skip {
					cp.Annotations = map[string]string{controlplanev1.SkipVersionChecksAnnotation: ""}
				}
			})
			held, err := r.hold(t.Context(), s, desired.Version{Requested: c.requested, Next: *from(c.next), Target: *from(c.next)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result(held)).To(Equal(c.want))
			if held != nil {
				g.Expect(held).To(MatchError(ContainSubstring("The upgrade to 1.34 waits for add-on karpenter: supports 1.33")))
			}
		})
	}
}

func TestHold_forNodesThatAreTooOld(t *testing.T) {
	node := func(name, kubelet string, labels map[string]string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		n.Status.NodeInfo.KubeletVersion = kubelet
		return n
	}
	group := map[string]string{"eks.amazonaws.com/nodegroup": "workers"}
	from := func(m int) *kubeversion.Minor { return &kubeversion.Minor{Major: 1, Minor: m} }
	for name, c := range map[string]struct {
		nodes   []client.Object
		next    int
		failing error
		skip    bool
		want    string
		message string
	}{
		"supported":         {nodes: []client.Object{node("a", "v1.31.4-eks-1", nil)}, next: 34},
		"too old":           {nodes: []client.Object{node("b", "v1.30.4-eks-1", group), node("a", "v1.30.0", nil), node("c", "v1.33.0", nil)}, next: 34, want: "wait " + controlplanev1.NodesTooOldReason, message: "The upgrade to 1.34 waits for nodes with a kubelet before 1.31, which it does not support: a (1.30), b (1.30, workers)."},
		"an older rule":     {nodes: []client.Object{node("a", "v1.24.4", nil)}, next: 27, want: "wait " + controlplanev1.NodesTooOldReason},
		"skipped":           {nodes: []client.Object{node("a", "v1.20.0", nil)}, next: 34, skip: true},
		"unknown version":   {nodes: []client.Object{node("a", "", nil)}, next: 34},
		"cannot be reached": {failing: errors.New("refused"), next: 34, want: "wait " + controlplanev1.APIServerUnreachableReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(func(cp *controlplanev1.CAPTControlPlane) {
				cp.Status.Initialization.ControlPlaneInitialized = new(true)
				if c.skip {
					cp.Annotations = map[string]string{controlplanev1.SkipVersionChecksAnnotation: ""}
				}
			})
			version := desired.Version{Requested: from(c.next - 1), Next: *from(c.next), Target: *from(c.next)}
			r := reconciler(t)
			r.Workload = &fakeWorkload{client: workloadCluster(g, c.nodes...), err: c.failing}
			held, err := r.hold(t.Context(), s, version)
			g.Expect(err).NotTo(HaveOccurred())
			if !c.skip {
				g.Expect(result(held)).To(Equal("wait "+controlplanev1.WaitingForKubeconfigReason), "without a kubeconfig")
			}

			kubeconfig := s.newSecret(secret.Kubeconfig, []byte("x"))
			g.Expect(controllerutil.SetControllerReference(s.controlPlane, kubeconfig, scheme.New())).To(Succeed())
			g.Expect(r.Client.Create(t.Context(), kubeconfig)).To(Succeed())
			held, err = r.hold(t.Context(), s, version)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result(held)).To(Equal(c.want))
			if c.message != "" {
				g.Expect(held).To(MatchError(ContainSubstring(c.message)))
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	g := NewWithT(t)
	r := reconciler(t)
	s := newScope()
	g.Expect(result(r.available(t.Context(), s))).To(Equal("wait " + controlplanev1.WaitingForKubeconfigReason))

	s.kubeconfig = []byte("x")
	r.Workload = &fakeWorkload{err: errors.New("refused")}
	g.Expect(result(r.available(t.Context(), s))).To(Equal("wait " + controlplanev1.APIServerUnreachableReason))
	g.Expect(s.controlPlane.Status.Version).To(BeEmpty())

	r.Workload = &fakeWorkload{}
	g.Expect(r.available(t.Context(), s)).To(Succeed())
	g.Expect(s.controlPlane.Status.Version).To(Equal("v1.33.5"))
}

// ca is a certificate authority as EKS returns it.
const ca = `"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkNnPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="`

func TestTokenKubeconfig_isRenewedInTime(t *testing.T) {
	g := NewWithT(t)
	cloud := &fakeCloud{}
	r := reconciler(t, newTemplate())
	r.Cloud = cloud
	at := func(now time.Time, outputs map[string]string) *scope {
		s := newScope()
		s.cluster, s.infra, s.now, s.apply = newCluster(), newInfra(), now, newWorkspace(outputs)
		return s
	}
	outputs := map[string]string{"cluster_endpoint": `"https://a"`, "cluster_certificate_authority_data": ca}

	s := at(noon, outputs)
	g.Expect(r.kubeconfig(t.Context(), s)).To(Succeed())
	g.Expect(cloud.tokens).To(Equal(1))
	g.Expect(renewsIn(s)).To(Equal(defaultTokenLifetime))
	g.Expect(string(s.kubeconfig)).To(ContainSubstring("token-of-production-in-eu-west-1"))
	g.Expect(s.controlPlane.Status.Kubeconfig.RenewedAt.Time).To(BeTemporally("==", noon))

	s = at(noon.Add(9*time.Minute), outputs)
	g.Expect(r.kubeconfig(t.Context(), s)).To(Succeed())
	g.Expect(cloud.tokens).To(Equal(1), "the token is recent")
	g.Expect(renewsIn(s)).To(Equal(time.Minute))
	g.Expect(s.controlPlane.Status.Kubeconfig.RenewedAt.Time).To(BeTemporally("==", noon))
	g.Expect(string(s.kubeconfig)).To(ContainSubstring("token-of-production"))

	s = at(noon.Add(10*time.Minute), outputs)
	g.Expect(r.kubeconfig(t.Context(), s)).To(Succeed())
	g.Expect(cloud.tokens).To(Equal(2), "the token is due")

	outputs["cluster_endpoint"] = `"https://b"`
	s = at(noon.Add(10*time.Minute), outputs)
	g.Expect(r.kubeconfig(t.Context(), s)).To(Succeed())
	g.Expect(cloud.tokens).To(Equal(3), "the endpoint changed")

	cloud.err = errors.New("denied")
	s = at(noon.Add(time.Hour), outputs)
	g.Expect(r.kubeconfig(t.Context(), s)).To(MatchError("denied"))
	g.Expect(string(s.kubeconfig)).To(ContainSubstring("https://b"), "the old kubeconfig is used until there is a new one")

	cloud.err = nil
	outputs["cluster_certificate_authority_data"] = `"nonsense"`
	s = at(noon.Add(time.Hour), outputs)
	g.Expect(result(r.kubeconfig(t.Context(), s))).To(Equal("stall " + controlplanev1.MissingOutputReason))
	g.Expect(string(s.kubeconfig)).To(ContainSubstring("https://b"))
}

func TestKubeconfig_waitsForOutputs(t *testing.T) {
	g := NewWithT(t)
	for _, apply := range []*infrav1.WorkspaceTemplateApply{nil, newWorkspace(nil)} {
		s := newScope()
		s.apply = apply
		g.Expect(result(reconciler(t).kubeconfig(t.Context(), s))).To(Equal("wait " + controlplanev1.WaitingForOutputsReason))
	}
}

func TestOutputKubeconfig(t *testing.T) {
	const config = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: s3cret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	output := func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	}
	connection := func(key, value string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production-eks-connection", OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(newWorkspace(nil), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")),
			}},
			Data: map[string][]byte{key: []byte(value)},
		}
	}
	foreign := connection("kubeconfig", config)
	foreign.OwnerReferences = nil
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"copied":    {[]client.Object{connection("kubeconfig", config)}, ""},
		"of a user": {[]client.Object{foreign}, "stall " + infrav1.SecretConflictReason},
		"no Secret": {nil, "wait " + controlplanev1.WaitingForOutputsReason},
		"no output": {[]client.Object{connection("other", config)}, "stall " + controlplanev1.MissingOutputReason},
		"invalid":   {[]client.Object{connection("kubeconfig", "x")}, "stall " + controlplanev1.MissingOutputReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := reconciler(t, c.objects...)
			s := newScope(output)
			s.apply = newWorkspace(map[string]string{"cluster_endpoint": `"a"`})
			g.Expect(result(r.kubeconfig(t.Context(), s))).To(Equal(c.want))
			if c.want != "" {
				g.Expect(s.controlPlane.Status.Kubeconfig).To(BeNil())
				return
			}
			g.Expect(renewsIn(s)).To(BeZero())
			later := newScope(output)
			later.apply, later.now = s.apply, noon.Add(time.Hour)
			g.Expect(r.kubeconfig(t.Context(), later)).To(Succeed())
			g.Expect(later.controlPlane.Status.Kubeconfig.RenewedAt.Time).To(BeTemporally("==", noon), "the same kubeconfig is not new")
			g.Expect(kubeconfigMessage(s)).To(Equal("Secret production-kubeconfig"))
		})
	}
}

func TestEnsureSecret(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	r := reconciler(t)
	writes := 0
	r.Client = interceptor.NewClient(workspacetest.NewClient(t), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, obj, options...)
		},
	})
	r.Live = r.Client
	ensure := func(found *corev1.Secret, text string) error {
		return r.ensureSecret(t.Context(), s, found, s.newSecret(workload.UserKubeconfig, []byte(text)))
	}
	g.Expect(ensure(nil, "a")).To(Succeed())
	found, err := r.findSecret(t.Context(), s, workload.UserKubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Data).To(HaveKeyWithValue("value", []byte("a")))

	g.Expect(ensure(found, "a")).To(Succeed())
	g.Expect(writes).To(BeZero(), "an equal Secret is not written")
	g.Expect(ensure(nil, "b")).To(Succeed(), "a Secret that is not in the cache is read and updated")
	g.Expect(writes).To(Equal(1))

	s.controlPlane.UID = "other"
	g.Expect(result(ensure(nil, "c"))).To(Equal("stall " + infrav1.SecretConflictReason))
	_, err = r.findSecret(t.Context(), s, workload.UserKubeconfig)
	g.Expect(result(err)).To(Equal("stall " + infrav1.SecretConflictReason))
	g.Expect(r.deleteSecrets(t.Context(), s)).To(Succeed(), "the Secret of another owner is kept")
	s.controlPlane.UID = "1"
	found, err = r.findSecret(t.Context(), s, workload.UserKubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).NotTo(BeNil())

	g.Expect(r.deleteSecrets(t.Context(), s)).To(Succeed())
	found, err = r.findSecret(t.Context(), s, workload.UserKubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeNil())
}

// failing returns a client whose reads fail.
func failing(t *testing.T) client.Client {
	t.Helper()
	return interceptor.NewClient(workspacetest.NewClient(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("denied")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("denied")
		},
	})
}

func TestSteps_retryErrorsOfTheManagementCluster(t *testing.T) {
	r := reconciler(t)
	r.Client = failing(t)
	r.Live, r.Workspaces = r.Client, &workspace.Keeper{Client: r.Client, Live: r.Client}
	for name, step := range map[string]func(context.Context, *scope) error{
		"infrastructure": r.infrastructure, "spotRole": r.spotRole, "workspace": r.workspace, "kubeconfig": r.kubeconfig,
		"adoptDeployments": r.adoptDeployments, "readForDeletion": r.readForDeletion, "waitForAddons": r.waitForAddons,
		"deleteMachines": r.deleteMachines, "destroy": r.destroy, "deleteSecrets": r.deleteSecrets,
	} {
		s := newScope()
		s.cluster, s.apply = newCluster(), newWorkspace(nil)
		NewWithT(t).Expect(result(step(t.Context(), s))).To(Equal("error"), name)
	}
	r.Versions = oldVersions{}
	NewWithT(t).Expect(r.hold(t.Context(), newScope(), desired.Version{Requested: &kubeversion.Minor{Major: 1, Minor: 32}, Next: kubeversion.Minor{Major: 1, Minor: 33}})).Error().To(MatchError(ContainSubstring("denied")))
}

func TestReadForDeletion(t *testing.T) {
	controlPlane := newControlPlane()
	apply := newWorkspace(nil)
	NewWithT(t).Expect(controllerutil.SetControllerReference(controlPlane, apply, scheme.New())).To(Succeed())
	r := reconciler(t, apply, newInfra())
	for name, c := range map[string]struct {
		cluster *clusterv1.Cluster
		want    bool
	}{
		"a CAPTCluster":       {newCluster(), true},
		"no Cluster":          {nil, false},
		"another provider":    {newCluster(func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Kind = "Other" }), false},
		"a deleted reference": {newCluster(func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "deleted" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{controlPlane: controlPlane, cluster: c.cluster}
			g.Expect(r.readForDeletion(t.Context(), s)).To(Succeed())
			g.Expect(s.apply).NotTo(BeNil())
			g.Expect(s.infra != nil).To(Equal(c.want))
		})
	}
}

func karpenter(kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind(kind)
	u.SetName(name)
	u.SetFinalizers([]string{"karpenter.sh/termination"})
	return u
}

func service(name string, kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Type: kind}}
}

// workloadCluster returns a cluster with kinds of Karpenter, Flux and the Gateway API.
func workloadCluster(g Gomega, objects ...client.Object) client.WithWatch {
	known := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(known)).To(Succeed())
	kinds := []schema.GroupVersionKind{
		{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
		{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
		{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Provisioner"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
		{Group: "gateway.networking.k8s.io", Version: "v1beta1", Kind: "Gateway"},
		{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
	}
	var versions []schema.GroupVersion
	for _, kind := range kinds {
		versions = append(versions, kind.GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for _, kind := range kinds {
		known.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		known.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return fake.NewClientBuilder().WithScheme(known).WithRESTMapper(mapper).WithObjects(objects...).Build()
}

func inCluster(apiVersion, kind, name string, finalizers ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace("default")
	u.SetName(name)
	u.SetFinalizers(finalizers)
	return u
}

// deletedScope returns a control plane that is initialized and has outputs.
func deletedScope(g Gomega, r *Reconciler, objects client.Client) *scope {
	r.Cloud, r.Workload = &fakeCloud{}, &fakeWorkload{client: objects}
	s := newScope(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Initialization.ControlPlaneInitialized = new(true)
	})
	s.cluster, s.infra = newCluster(), newInfra()
	s.apply = newWorkspace(map[string]string{"cluster_endpoint": `"https://a"`, "cluster_certificate_authority_data": ca})
	return s
}

func TestDeleteFromWorkload(t *testing.T) {
	g := NewWithT(t)
	objects := workloadCluster(g,
		karpenter("NodePool", "default"), karpenter("NodeClaim", "one"), inCluster("karpenter.sh/v1alpha5", "Provisioner", "old"),
		service("web", corev1.ServiceTypeLoadBalancer), service("internal", corev1.ServiceTypeClusterIP),
		inCluster("networking.k8s.io/v1", "Ingress", "site"), inCluster("gateway.networking.k8s.io/v1beta1", "Gateway", "entry"),
	)
	r := reconciler(t, newTemplate())
	s := deletedScope(g, r, objects)

	err := r.deleteLoadBalancers(t.Context(), s)
	g.Expect(err).To(MatchError(HaveSuffix("Waiting for the deletion of Service default/web, Ingress default/site, Gateway default/entry")), "a missing kubeconfig is created again")
	g.Expect(r.deleteLoadBalancers(t.Context(), s)).To(Succeed())
	g.Expect(objects.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "internal"}, &corev1.Service{})).To(Succeed())

	err = r.deleteNodes(t.Context(), s)
	g.Expect(result(err)).To(Equal("wait " + infrav1.DeletingReason))
	g.Expect(err).To(MatchError(ContainSubstring("NodePool default, NodeClaim one, Provisioner default/old")))
	err = r.deleteNodes(t.Context(), s)
	g.Expect(err).To(MatchError(ContainSubstring("NodePool default (finalizers: karpenter.sh/termination)")))

	r.Workload = &fakeWorkload{err: errors.New("refused")}
	g.Expect(result(r.deleteNodes(t.Context(), s))).To(Equal("wait " + controlplanev1.APIServerUnreachableReason))
	s.controlPlane.Status.Initialization.ControlPlaneInitialized = nil
	g.Expect(r.deleteNodes(t.Context(), s)).To(Succeed(), "a cluster that was never available has no nodes")
}

// EKS terminates the nodes of Auto Mode with the cluster, and creates its pools again.
func TestDeleteNodes_leavesThoseOfAutoMode(t *testing.T) {
	g := NewWithT(t)
	pool, claim := karpenter("NodePool", "general-purpose"), karpenter("NodeClaim", "general-purpose-1")
	g.Expect(unstructured.SetNestedField(pool.Object, "eks.amazonaws.com", "spec", "template", "spec", "nodeClassRef", "group")).To(Succeed())
	g.Expect(unstructured.SetNestedField(claim.Object, "eks.amazonaws.com", "spec", "nodeClassRef", "group")).To(Succeed())
	r := reconciler(t, newTemplate())
	s := deletedScope(g, r, workloadCluster(g, pool, claim, karpenter("NodePool", "own")))
	err := r.deleteNodes(t.Context(), s)
	g.Expect(err).To(MatchError(HaveSuffix("Waiting for the deletion of NodePool own")))
}

func TestDeleteNodes_endsADrainThatIsBlocked(t *testing.T) {
	g := NewWithT(t)
	objects := workloadCluster(g, karpenter("NodePool", "default"), karpenter("NodeClaim", "one"))
	r := reconciler(t, newTemplate())
	s := deletedScope(g, r, objects)
	termination := func() string {
		claim := karpenter("NodeClaim", "one")
		g.Expect(objects.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		return claim.GetAnnotations()["karpenter.sh/nodeclaim-termination-timestamp"]
	}
	started := s.now
	conditions.Set(s.controlPlane, metav1.Condition{Type: controlplanev1.NodesGoneCondition, Status: metav1.ConditionFalse, Reason: "R", LastTransitionTime: metav1.NewTime(started)})
	for after, want := range map[time.Duration]bool{0: false, 7 * time.Minute: false} {
		s.now = started.Add(after)
		g.Expect(r.deleteNodes(t.Context(), s)).NotTo(Succeed())
		g.Expect(termination() != "").To(Equal(want), after)
	}
	claim := karpenter("NodeClaim", "one")
	g.Expect(objects.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)).To(Succeed())
	claim.SetAnnotations(map[string]string{"karpenter.sh/nodeclaim-termination-timestamp": started.Add(time.Hour).Format(time.RFC3339)})
	g.Expect(objects.Update(t.Context(), claim)).To(Succeed())
	s.now = started.Add(8 * time.Minute)
	g.Expect(r.deleteNodes(t.Context(), s)).NotTo(Succeed())
	g.Expect(termination()).To(Equal(s.now.UTC().Format(time.RFC3339)))
	s.now = started.Add(9 * time.Minute)
	g.Expect(r.deleteNodes(t.Context(), s)).NotTo(Succeed())
	g.Expect(termination()).To(Equal(started.Add(8*time.Minute).UTC().Format(time.RFC3339)), "it is set once")
}

func TestDelete_namesWhoCreatesObjectsAgain(t *testing.T) {
	g := NewWithT(t)
	began := noon.Add(-5 * time.Minute)
	again, first := service("web", corev1.ServiceTypeLoadBalancer), service("api", corev1.ServiceTypeLoadBalancer)
	first.CreationTimestamp = metav1.NewTime(began)
	again.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	again.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "aws-load-balancer-controller", Operation: "Update", Time: new(metav1.NewTime(noon))},
		{Manager: "argocd-controller", Operation: "Apply", Time: new(metav1.NewTime(noon.Add(-time.Minute)))},
	}
	var remaining descriptions
	for _, obj := range []*corev1.Service{again, first} {
		g.Expect(remaining.delete(t.Context(), workloadCluster(g), workloadObject{obj, "Service"}, began)).To(Succeed())
	}
	g.Expect(remaining).To(HaveExactElements(
		"Service default/web (created after the deletion began, by argocd-controller: stop the controller that creates it)", "Service default/api"))
}

func TestGuard_ofAProtectedControlPlane(t *testing.T) {
	protect := func(value string) map[string]infrav1.Value {
		return map[string]infrav1.Value{protectionVariable: {Raw: []byte(value)}}
	}
	byTemplate := newTemplate()
	byTemplate.Status.Variables = []infrav1.DeclaredVariable{{Name: protectionVariable, Default: "true"}}
	conditions.Set(byTemplate, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleInspectedReason})
	for name, c := range map[string]struct {
		spec, workspace map[string]infrav1.Value
		run             *infrav1.RunStatus
		template        *infrav1.WorkspaceTemplate
		skip            string
		want            string
	}{
		"not protected":              {template: newTemplate()},
		"protected":                  {spec: protect("true"), workspace: protect("true"), template: newTemplate(), want: "stall " + controlplanev1.DeletionProtectedReason},
		"protected by the template":  {template: byTemplate, want: "stall " + controlplanev1.DeletionProtectedReason},
		"without protection":         {spec: protect("false"), workspace: protect("false"), template: byTemplate},
		"protection to be removed":   {spec: protect("false"), workspace: protect("true"), template: newTemplate(), want: "wait " + controlplanev1.RemovingProtectionReason},
		"removed from the spec":      {workspace: protect("true"), template: newTemplate(), want: "wait " + controlplanev1.RemovingProtectionReason},
		"removed just before":        {spec: protect("false"), workspace: protect("false"), run: &infrav1.RunStatus{ID: "eks-r2"}, template: newTemplate(), want: "wait " + controlplanev1.RemovingProtectionReason},
		"protection removed by hand": {spec: protect("true"), workspace: protect("true"), template: newTemplate(), skip: "protection"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects := workloadCluster(g, inCluster("helm.toolkit.fluxcd.io/v2", "HelmRelease", "apps"))
			apply := newWorkspace(nil)
			apply.Spec.Variables = c.workspace
			r := reconciler(t, c.template, apply)
			s := deletedScope(g, r, objects)
			s.apply.ResourceVersion, s.apply.Spec.Variables, s.controlPlane.Spec.Variables = apply.ResourceVersion, c.workspace, c.spec
			s.controlPlane.Annotations = map[string]string{controlplanev1.SkipDeletionChecksAnnotation: c.skip}
			if s.apply.Status.Run = c.run; c.run != nil {
				conditions.Set(s.apply, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.RunInProgressReason})
			}
			err := r.guard(t.Context(), s)
			g.Expect(result(err)).To(Equal(c.want))

			release := inCluster("helm.toolkit.fluxcd.io/v2", "HelmRelease", "apps")
			g.Expect(objects.Get(t.Context(), client.ObjectKeyFromObject(release), release)).To(Succeed())
			suspended, _, _ := unstructured.NestedBool(release.Object, "spec", "suspend")
			g.Expect(suspended).To(Equal(c.want == ""), "nothing is changed before the protection is removed")
			if c.want != "wait "+controlplanev1.RemovingProtectionReason {
				return
			}
			g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), s.apply)).To(Succeed())
			g.Expect(s.apply.Spec.Variables[protectionVariable].String()).To(Equal("false"))
			conditions.Set(s.controlPlane, metav1.Condition{Type: controlplanev1.GuardedCondition, Status: metav1.ConditionFalse, Reason: controlplanev1.RemovingProtectionReason})
			conditions.Set(s.apply, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.RunFailedReason, Message: "no permission"})
			g.Expect(r.guard(t.Context(), s)).To(MatchError(ContainSubstring("no permission")))
			conditions.Set(s.apply, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
			g.Expect(result(r.unprotect(t.Context(), s))).To(BeEmpty())
		})
	}
}

func TestForgetDeletion(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	for _, condition := range []string{controlplanev1.AvailableCondition, controlplanev1.AddonsGoneCondition, controlplanev1.NodesGoneCondition} {
		conditions.Set(s.controlPlane, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "R"})
	}
	g.Expect(forgetDeletion(t.Context(), s)).To(Succeed())
	g.Expect(s.controlPlane.Status.Conditions).To(ConsistOf(HaveField("Type", controlplanev1.AvailableCondition)))
}

func TestGuard_suspendsFlux(t *testing.T) {
	g := NewWithT(t)
	suspended := inCluster("helm.toolkit.fluxcd.io/v2", "HelmRelease", "suspended")
	g.Expect(unstructured.SetNestedField(suspended.Object, true, "spec", "suspend")).To(Succeed())
	patches := 0
	addon := inCluster("helm.toolkit.fluxcd.io/v2", "HelmRelease", "addon")
	addon.SetLabels(map[string]string{addonsv1.AddonLabel: "addon"})
	objects := interceptor.NewClient(workloadCluster(g,
		inCluster("helm.toolkit.fluxcd.io/v2", "HelmRelease", "karpenter"), suspended, addon,
	), interceptor.Funcs{Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		patches++
		return w.Patch(ctx, obj, patch, opts...)
	}})
	r := reconciler(t, newTemplate())
	s := deletedScope(g, r, objects)
	g.Expect(r.guard(t.Context(), s)).To(Succeed())
	g.Expect(r.guard(t.Context(), s)).To(Succeed())
	g.Expect(patches).To(Equal(1))
	release := inCluster("helm.toolkit.fluxcd.io/v2", "HelmRelease", "karpenter")
	g.Expect(objects.Get(t.Context(), client.ObjectKeyFromObject(release), release)).To(Succeed())
	g.Expect(release.Object["spec"]).To(HaveKeyWithValue("suspend", true))
}

func TestDeleteFromWorkload_reportsErrorsAsUnreachable(t *testing.T) {
	denied := func(funcs interceptor.Funcs) client.Client {
		return interceptor.NewClient(workloadCluster(NewWithT(t), service("web", corev1.ServiceTypeLoadBalancer)), funcs)
	}
	for name, c := range map[string]client.Client{
		"list": denied(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("denied")
		}}),
		"delete": denied(interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("denied")
		}}),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(func(c *controlplanev1.CAPTControlPlane) {
				c.Status.Initialization.ControlPlaneInitialized = new(true)
				c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
			})
			s.apply = newWorkspace(nil)
			existing := s.newSecret(secret.Kubeconfig, []byte("x"))
			g.Expect(controllerutil.SetControllerReference(s.controlPlane, existing, scheme.New())).To(Succeed())
			r := reconciler(t, existing)
			r.Workload = &fakeWorkload{client: c}
			err := r.deleteLoadBalancers(t.Context(), s)
			g.Expect(result(err)).To(Equal("wait " + controlplanev1.APIServerUnreachableReason))
			g.Expect(err).To(MatchError(ContainSubstring("denied")))
			g.Expect(string(s.kubeconfig)).To(Equal("x"))
			if name == "list" {
				g.Expect(result(r.deleteNodes(t.Context(), s))).To(Equal("wait " + controlplanev1.APIServerUnreachableReason))
			}
		})
	}
}

func TestEachOf_withoutKarpenter(t *testing.T) {
	g := NewWithT(t)
	removed := interceptor.NewClient(workloadCluster(g), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "nodepools"}, "")
		},
	})
	for _, c := range []client.Client{removed, fake.NewClientBuilder().Build()} {
		g.Expect(eachOf(t.Context(), c, nodeKinds, func(workloadObject) error { return errors.New("an object") })).To(Succeed())
	}
}

func TestMachines(t *testing.T) {
	g := NewWithT(t)
	member := func(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "team", Name: name, OwnerReferences: owners, Finalizers: []string{"test"},
			Labels: map[string]string{clusterv1.ClusterNameLabel: "production"},
		}
	}
	set := metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTMachineSet", Name: "set", UID: "3", Controller: new(true)}
	other := member("other")
	other.Labels = map[string]string{clusterv1.ClusterNameLabel: "staging"}
	r := reconciler(t,
		&infrav1.CAPTMachineDeployment{ObjectMeta: member("workers")},
		&infrav1.CAPTMachineDeployment{ObjectMeta: member("owned", set)},
		&infrav1.CAPTMachineDeployment{ObjectMeta: other},
		&infrav1.CAPTMachineSet{ObjectMeta: member("set")},
		&infrav1.CAPTMachine{ObjectMeta: member("machine", set)},
		&infrav1.CAPTMachinePool{ObjectMeta: member("pool")},
	)
	s := newScope()
	s.apply = newWorkspace(nil)
	owner := func(name string) *metav1.OwnerReference {
		deployment := &infrav1.CAPTMachineDeployment{}
		g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, deployment)).To(Succeed())
		return metav1.GetControllerOf(deployment)
	}
	g.Expect(r.adoptDeployments(t.Context(), s)).To(Succeed())
	g.Expect(owner("workers")).To(HaveField("Name", "main"))
	g.Expect(owner("owned")).To(HaveField("Name", "set"))
	g.Expect(owner("other")).To(BeNil())

	err := r.deleteMachines(t.Context(), s)
	g.Expect(result(err)).To(Equal("wait " + infrav1.DeletingReason))
	g.Expect(err).To(MatchError(ContainSubstring("CAPTMachineDeployment owned, CAPTMachineDeployment workers, CAPTMachineSet set, CAPTMachine machine, CAPTMachinePool pool")))
	deleting := func(obj client.Object, name string) bool {
		g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, obj)).To(Succeed())
		return !obj.GetDeletionTimestamp().IsZero()
	}
	g.Expect(deleting(&infrav1.CAPTMachineDeployment{}, "workers")).To(BeTrue())
	g.Expect(deleting(&infrav1.CAPTMachineDeployment{}, "owned")).To(BeFalse())
	g.Expect(deleting(&infrav1.CAPTMachineDeployment{}, "other")).To(BeFalse())
	g.Expect(deleting(&infrav1.CAPTMachineSet{}, "set")).To(BeTrue())
	g.Expect(deleting(&infrav1.CAPTMachine{}, "machine")).To(BeFalse(), "it is deleted with its set")
	g.Expect(deleting(&infrav1.CAPTMachinePool{}, "pool")).To(BeTrue())

	before := &infrav1.CAPTMachineSet{}
	g.Expect(deleting(before, "set")).To(BeTrue())
	before.OwnerReferences = nil
	g.Expect(r.adoptDeployments(t.Context(), s)).To(Succeed(), "a deployment that is being deleted is not adopted")
}

func TestRequests(t *testing.T) {
	g := NewWithT(t)
	deleting := newControlPlane(func(c *controlplanev1.CAPTControlPlane) {
		c.Name, c.Finalizers = "deleting", []string{"test"}
		c.DeletionTimestamp, c.Labels = new(metav1.NewTime(noon)), nil
	})
	held := newControlPlane(func(c *controlplanev1.CAPTControlPlane) {
		c.Name, c.Labels = "held", map[string]string{clusterv1.ClusterNameLabel: "staging"}
		c.Spec.WorkspaceTemplateRef = infrav1.TemplateReference{Namespace: "shared", Name: "eks"}
		conditions.Set(c, metav1.Condition{Type: controlplanev1.WorkspaceReadyCondition, Status: metav1.ConditionFalse, Reason: "Held"})
	})
	r := reconciler(t, newControlPlane(), deleting, held)
	named := func(names ...string) []ctrl.Request {
		var requests []ctrl.Request
		for _, name := range names {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: name}})
		}
		return requests
	}
	machine := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "x", Labels: map[string]string{clusterv1.ClusterNameLabel: "production"}}}
	g.Expect(r.requestsForMember(t.Context(), machine)).To(Equal(named("main")))
	g.Expect(r.requestsForDeleting(t.Context(), machine)).To(BeEmpty())
	machine.DeletionTimestamp = new(metav1.NewTime(noon))
	g.Expect(r.requestsForDeleting(t.Context(), machine)).To(Equal(named("main")))
	machine.Labels = nil
	g.Expect(r.requestsForMember(t.Context(), machine)).To(BeEmpty())

	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}}
	g.Expect(r.requestsForAddon(t.Context(), addon)).To(ConsistOf(named("deleting", "held")))
	addon.Namespace = "other"
	g.Expect(r.requestsForAddon(t.Context(), addon)).To(BeEmpty())

	template := newTemplate()
	g.Expect(r.requestsForTemplate(t.Context(), template)).To(ConsistOf(named("main", "deleting")))
	template.Namespace = "shared"
	g.Expect(r.requestsForTemplate(t.Context(), template)).To(Equal(named("held")))

	g.Expect(requestsForCluster(t.Context(), newCluster())).To(Equal(named("main")))
	g.Expect(requestsForCluster(t.Context(), newCluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "Other" }))).To(BeEmpty())
	g.Expect(requestsForCluster(t.Context(), machine)).To(BeEmpty())
}
