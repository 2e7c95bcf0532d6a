package describe

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// Objects are a Cluster and the objects that the tree is built from.
type Objects struct {
	Cluster *clusterv1.Cluster
	// Items are the objects that may belong to the Cluster.
	Items []client.Object
	// Addons are the add-ons of the namespace.
	Addons []addonsv1.CAPTAddon
	// Unread are the kinds that could not be listed.
	Unread []string
	// Nodes are the nodes of the workload cluster, or nil if they were not read.
	Nodes *Nodes
}

// Nodes are the nodes of a workload cluster, or the error of listing them.
type Nodes struct {
	Items []corev1.Node
	Err   error
}

// kind is a kind of object that may belong to a Cluster.
type kind struct {
	object client.Object
	list   client.ObjectList
	// labelled reports whether every object of the kind has the label with the
	// name of its Cluster from its creation.
	labelled bool
}

// kinds returns the kinds to read besides Clusters and add-ons. Implementation
// details are read only with all, so that other users need no permission to list
// them.
func kinds(all bool) []kind {
	kinds := []kind{
		{&infrav1.CAPTCluster{}, &infrav1.CAPTClusterList{}, false},
		{&controlplanev1.CAPTControlPlane{}, &controlplanev1.CAPTControlPlaneList{}, false},
		{&infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplateApplyList{}, true},
		{&infrav1.CAPTMachineDeployment{}, &infrav1.CAPTMachineDeploymentList{}, false},
		{&infrav1.CAPTMachineSet{}, &infrav1.CAPTMachineSetList{}, false},
		{&infrav1.CAPTMachine{}, &infrav1.CAPTMachineList{}, true},
		{&infrav1.CAPTMachinePool{}, &infrav1.CAPTMachinePoolList{}, true},
		{&clusterv1.MachineDeployment{}, &clusterv1.MachineDeploymentList{}, true},
		{&clusterv1.MachineSet{}, &clusterv1.MachineSetList{}, true},
		{&clusterv1.Machine{}, &clusterv1.MachineList{}, true},
		{&clusterv1.MachinePool{}, &clusterv1.MachinePoolList{}, true},
	}
	if all {
		kinds = append(kinds,
			kind{&bootstrapv1.CAPTBootstrapConfig{}, &bootstrapv1.CAPTBootstrapConfigList{}, true},
			kind{&clusteraddonsv1.ClusterResourceSet{}, &clusteraddonsv1.ClusterResourceSetList{}, false},
			kind{&clusteraddonsv1.ClusterResourceSetBinding{}, &clusteraddonsv1.ClusterResourceSetBindingList{}, false},
		)
	}
	return kinds
}

// Read reads a Cluster and the objects that may belong to it; with all, also
// implementation details. Kinds that are not installed have no objects.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey, all bool) (*Objects, error) {
	o := &Objects{Cluster: &clusterv1.Cluster{}}
	if err := c.Get(ctx, key, o.Cluster); err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", key.Name, err)
	}
	var addons addonsv1.CAPTAddonList
	// List concurrently: the API server may be far away.
	requested := append(kinds(all), kind{&addonsv1.CAPTAddon{}, &addons, false})
	lists, ctx := errgroup.WithContext(ctx)
	for _, k := range requested {
		lists.Go(func() error { return k.read(ctx, c, key) })
	}
	if err := lists.Wait(); err != nil {
		return nil, err
	}
	for _, k := range requested[:len(requested)-1] {
		if err := eachItem(k.list, func(item client.Object) { o.Items = append(o.Items, item) }); err != nil {
			return nil, err
		}
	}
	o.Addons = addons.Items
	return o, nil
}

// ReadAll reads the Clusters of a namespace, or of all namespaces if it is empty, with the objects
// that belong to them.
func ReadAll(ctx context.Context, c client.Reader, namespace string) ([]*Objects, error) {
	var clusters clusterv1.ClusterList
	var addons addonsv1.CAPTAddonList
	requested := append(kinds(false), kind{&clusterv1.Cluster{}, &clusters, false}, kind{&addonsv1.CAPTAddon{}, &addons, false})
	lists, ctx := errgroup.WithContext(ctx)
	for _, k := range requested {
		lists.Go(func() error { return k.readAll(ctx, c, client.InNamespace(namespace)) })
	}
	if err := lists.Wait(); err != nil {
		return nil, err
	}
	items := map[client.ObjectKey][]client.Object{}
	for _, k := range requested[:len(requested)-2] {
		if err := eachItem(k.list, func(obj client.Object) {
			if cluster, owned := ClusterOf(obj); owned {
				items[cluster] = append(items[cluster], obj)
			}
		}); err != nil {
			return nil, err
		}
	}
	all := make([]*Objects, len(clusters.Items))
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		all[i] = &Objects{Cluster: cluster, Items: items[client.ObjectKeyFromObject(cluster)]}
		for j := range addons.Items {
			if addons.Items[j].Namespace == cluster.Namespace {
				all[i].Addons = append(all[i].Addons, addons.Items[j])
			}
		}
	}
	return all, nil
}

// read lists the objects of a kind that may belong to a Cluster.
func (k kind) read(ctx context.Context, c client.Reader, cluster client.ObjectKey) error {
	options := []client.ListOption{client.InNamespace(cluster.Namespace)}
	if k.labelled {
		options = append(options, client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	}
	return k.readAll(ctx, c, options...)
}

// readAll lists the objects of a kind. A kind that is not installed has none.
func (k kind) readAll(ctx context.Context, c client.Reader, options ...client.ListOption) error {
	err := c.List(ctx, k.list, options...)
	if _, missing := scheme.NotInstalled(err); err == nil || missing {
		return nil
	}
	return fmt.Errorf("listing %T: %w", k.object, err)
}

// eachItem calls visit with each object of a list.
func eachItem(list client.ObjectList, visit func(client.Object)) error {
	err := meta.EachListItem(list, func(obj runtime.Object) error {
		if item, ok := obj.(client.Object); ok {
			visit(item)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	return nil
}

// ControlPlaneInitialized reports whether the API server of the workload cluster
// accepts requests, according to Cluster API.
func (o *Objects) ControlPlaneInitialized() bool {
	return ptr.Deref(o.Cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// Version returns the version of Kubernetes that the control plane has, or that is desired.
func (o *Objects) Version() string {
	for _, item := range o.Items {
		if cp, ok := item.(*controlplanev1.CAPTControlPlane); ok && belongs(o.Cluster, cp) {
			return cmp.Or(cp.Status.Version, cp.Spec.Version)
		}
	}
	return o.Cluster.Spec.Topology.Version
}

// kubeconfigRenewedAt returns the time of the current kubeconfig of the workload
// cluster. It changes with each new kubeconfig.
func (o *Objects) kubeconfigRenewedAt() metav1.Time {
	for _, item := range o.Items {
		if cp, ok := item.(*controlplanev1.CAPTControlPlane); ok && cp.Status.Kubeconfig != nil && belongs(o.Cluster, cp) {
			return cp.Status.Kubeconfig.RenewedAt
		}
	}
	return metav1.Time{}
}
