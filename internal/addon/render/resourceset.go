package render

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// maxNamePrefix leaves room for the digest in an object name of 253 characters.
const maxNamePrefix = 240

// Name returns the name of the ClusterResourceSet of an add-on in a cluster, and
// of its Secret. The digest distinguishes add-on a-b in cluster c from add-on a
// in cluster b-c.
func Name(addon, cluster string) string {
	prefix := addon + "-" + cluster
	return fmt.Sprintf("%s-%s", prefix[:min(len(prefix), maxNamePrefix)], digest(addon, cluster)[:8])
}

// ResourceSet returns the ClusterResourceSet that installs an add-on in a cluster. It
// applies no changes: Cluster API's merge patch would remove the finalizers, labels and
// annotations that others added.
func ResourceSet(addon *addonsv1.CAPTAddon, cluster string) *clusteraddonsv1.ClusterResourceSet {
	return &clusteraddonsv1.ClusterResourceSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusteraddonsv1.GroupVersion.String(), Kind: "ClusterResourceSet"},
		ObjectMeta: objectMeta(addon, cluster),
		Spec: clusteraddonsv1.ClusterResourceSetSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{addonsv1.ClusterLabel: cluster}},
			Resources: []clusteraddonsv1.ResourceRef{{
				Name: Name(addon.Name, cluster), Kind: string(clusteraddonsv1.SecretClusterResourceSetResourceKind),
			}},
			Strategy: string(clusteraddonsv1.ClusterResourceSetStrategyApplyOnce),
		},
	}
}

// Secret returns the Secret with the manifests that the ClusterResourceSet
// applies.
func Secret(addon *addonsv1.CAPTAddon, cluster string, rendered *Rendered, round int, requestedAt time.Time) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(addon, cluster),
		Type:       clusteraddonsv1.ClusterResourceSetSecretType,
		Data:       rendered.Data,
	}
	secret.Labels[infrav1.ComponentLabel] = addonsv1.ComponentAddon
	secret.Annotations = map[string]string{
		addonsv1.HashAnnotation: rendered.Hash, addonsv1.RoundAnnotation: strconv.Itoa(round),
		addonsv1.RequestedAtAnnotation: requestedAt.UTC().Format(time.RFC3339),
	}
	return secret
}

// objectMeta makes the add-on the owner, so that the object is deleted with it.
func objectMeta(addon *addonsv1.CAPTAddon, cluster string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace: addon.Namespace, Name: Name(addon.Name, cluster),
		Labels: map[string]string{addonsv1.AddonLabel: addon.Name, clusterv1.ClusterNameLabel: cluster},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: addonsv1.GroupVersion.String(), Kind: "CAPTAddon", Name: addon.Name, UID: addon.UID, Controller: new(true),
		}},
	}
	if filter, found := addon.Labels[clusterv1.WatchLabel]; found {
		meta.Labels[clusterv1.WatchLabel] = filter
	}
	return meta
}

// Round returns how often the same content was applied again, as a rendered
// Secret records it. It is 0 for nil.
func Round(secret *corev1.Secret) int {
	if secret == nil {
		return 0
	}
	round, err := strconv.Atoi(secret.Annotations[addonsv1.RoundAnnotation])
	if err != nil {
		return 0
	}
	return round
}

// RequestedAt returns when the content of a rendered Secret was handed to Cluster
// API. It is the zero time for nil.
func RequestedAt(secret *corev1.Secret) time.Time {
	if secret == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, secret.Annotations[addonsv1.RequestedAtAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}
