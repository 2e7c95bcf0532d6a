package captaddon

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// ago returns the time before now.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func newAddon(name string, dependencies ...string) *addonsv1.CAPTAddon {
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
	for _, d := range dependencies {
		addon.Spec.DependsOn = append(addon.Spec.DependsOn, infrav1.LocalReference{Name: d})
	}
	return addon
}

// withStatus returns the add-on with the status of clusters.
func withStatus(addon *addonsv1.CAPTAddon, clusters ...addonsv1.ClusterAddonStatus) *addonsv1.CAPTAddon {
	addon.Status.Clusters = clusters
	return addon
}

// newCluster returns a Cluster with an initialized control plane of another provider that
// Cluster API is connected to.
func newCluster(name string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name, Labels: map[string]string{"fluxcd.io/enabled": "true"}}}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: name}
	c.Status.Initialization.ControlPlaneInitialized = new(true)
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionTrue}}
	return c
}

// textOf returns the text of an error, or an empty string if there is none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// selected returns a selected installation with rendered content.
func selected(name string) *installation {
	return &installation{
		name: name, cluster: newCluster(name), selected: true,
		previous: addonsv1.ClusterAddonStatus{Name: name}, current: addonsv1.ClusterAddonStatus{Name: name},
		rendered: &rendering{Rendered: &render.Rendered{Hash: "new"}},
	}
}

// requested returns the installation after a request for the content with a hash.
func requested(in *installation, hash string) *installation {
	in.resourceSet = &clusteraddonsv1.ClusterResourceSet{}
	in.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{addonsv1.HashAnnotation: hash}}}
	return in
}
