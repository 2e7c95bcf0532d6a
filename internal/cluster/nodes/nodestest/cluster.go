package nodestest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Version is the Kubernetes version of the clusters.
const Version = "v1.33.0"

// Cluster is a Cluster whose infrastructure and control plane have no controllers:
// the test sets their status. Its workload cluster is the API server of the test.
type Cluster struct {
	Client       client.Client
	Cluster      *clusterv1.Cluster
	Infra        *infrav1.CAPTCluster
	ControlPlane *controlplanev1.CAPTControlPlane
}

// NewCluster creates a Cluster and the kubeconfig Secret of its workload cluster.
func NewCluster(ctx context.Context, c client.Client, namespace, name string, kubeconfig []byte) (*Cluster, error) {
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	created := &Cluster{
		Client: c,
		Infra: &infrav1.CAPTCluster{ObjectMeta: meta, Spec: infrav1.CAPTClusterSpec{
			Region: "ap-northeast-1", ExistingVPCID: "vpc-0123456789abcdef0",
		}},
		ControlPlane: &controlplanev1.CAPTControlPlane{ObjectMeta: meta, Spec: controlplanev1.CAPTControlPlaneSpec{
			Version: Version, WorkspaceTemplateRef: infrav1.TemplateReference{Name: "eks"},
		}},
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name},
		}},
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig", Labels: labels},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	}
	for _, obj := range []client.Object{created.Infra, created.ControlPlane, created.Cluster, secret} {
		if err := c.Create(ctx, obj); err != nil {
			return nil, fmt.Errorf("creating %T %s: %w", obj, obj.GetName(), err)
		}
	}
	return created, nil
}

// Provision marks the infrastructure as provisioned. It patches the object, because
// Cluster API writes it at the same time.
func (c *Cluster) Provision(ctx context.Context) error {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(c.Infra), c.Infra); err != nil {
		return err
	}
	previous := c.Infra.DeepCopy()
	status := &c.Infra.Status
	status.Initialization.Provisioned = new(true)
	status.VPCID, status.SubnetIDs = c.Infra.Spec.ExistingVPCID, []string{"subnet-1", "subnet-2"}
	conditions.Set(c.Infra, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
	return c.Client.Status().Patch(ctx, c.Infra, client.MergeFrom(previous))
}

// Initialize marks the control plane as initialized and creates its workspace.
func (c *Cluster) Initialize(ctx context.Context) error {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(c.ControlPlane), c.ControlPlane); err != nil {
		return err
	}
	previous := c.ControlPlane.DeepCopy()
	c.ControlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 443}
	if err := c.Client.Patch(ctx, c.ControlPlane, client.MergeFrom(previous)); err != nil {
		return err
	}
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Cluster.Namespace, Name: c.Cluster.Name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: c.ControlPlane.Spec.WorkspaceTemplateRef},
	}
	if err := controllerutil.SetControllerReference(c.ControlPlane, apply, c.Client.Scheme()); err != nil {
		return err
	}
	if err := c.Client.Create(ctx, apply); err != nil {
		return err
	}
	previous = c.ControlPlane.DeepCopy()
	status := &c.ControlPlane.Status
	status.ExternalManagedControlPlane = new(true)
	status.Initialization.ControlPlaneInitialized = new(true)
	version := c.ControlPlane.Spec.Version
	status.Version, status.Versions = version, []clusterv1.StatusVersion{{Version: version}}
	conditions.Set(c.ControlPlane, metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Available"})
	return c.Client.Status().Patch(ctx, c.ControlPlane, client.MergeFrom(previous))
}

// ControlPlaneOutputs returns the outputs of the workspace of a control plane.
func ControlPlaneOutputs() map[string]any {
	return map[string]any{
		"cluster_endpoint": "https://api.example.com", "cluster_certificate_authority_data": "Q0E=", "node_security_group_id": "sg-1",
	}
}

// Join creates a ready node.
func Join(ctx context.Context, c client.Client, name, providerID string, labels map[string]string) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if err := c.Create(ctx, node); err != nil {
		return nil, err
	}
	joined := node.DeepCopy()
	joined.Status.NodeInfo.KubeletVersion = Version
	if err := c.Status().Patch(ctx, joined, client.MergeFrom(node)); err != nil {
		return nil, err
	}
	return joined, SetReady(ctx, c, joined, corev1.ConditionTrue)
}

// SetReady sets the Ready condition of a node.
func SetReady(ctx context.Context, c client.Client, node *corev1.Node, ready corev1.ConditionStatus) error {
	previous := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready, Reason: "Test", Message: "set by the test",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	return c.Status().Patch(ctx, node, client.MergeFrom(previous))
}
