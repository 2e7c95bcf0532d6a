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

// mostOfName leaves room for what tells equal beginnings apart.
const mostOfName = 240

// Name is the name of the ClusterResourceSet of an add-on in a cluster, and of
// its Secret. The names of add-on and cluster alone would not tell a-b in c from
// a in b-c.
func Name(addon, cluster string) string {
	name := addon + "-" + cluster
	return fmt.Sprintf("%s-%s", name[:min(len(name), mostOfName)], digest(addon, cluster)[:8])
}

// ResourceSet is the ClusterResourceSet that applies an add-on to one cluster.
func ResourceSet(addon *addonsv1.CAPTAddon, cluster string) *clusteraddonsv1.ClusterResourceSet {
	strategy := string(clusteraddonsv1.ClusterResourceSetStrategyReconcile)
	if addon.Spec.Strategy == addonsv1.StrategyApplyOnce {
		strategy = string(clusteraddonsv1.ClusterResourceSetStrategyApplyOnce)
	}
	return &clusteraddonsv1.ClusterResourceSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusteraddonsv1.GroupVersion.String(), Kind: "ClusterResourceSet"},
		ObjectMeta: meta(addon, cluster),
		Spec: clusteraddonsv1.ClusterResourceSetSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{addonsv1.ClusterLabel: cluster}},
			Resources: []clusteraddonsv1.ResourceRef{{
				Name: Name(addon.Name, cluster), Kind: string(clusteraddonsv1.SecretClusterResourceSetResourceKind),
			}},
			Strategy: strategy,
		},
	}
}

// Secret is what the ClusterResourceSet applies.
func Secret(addon *addonsv1.CAPTAddon, cluster string, rendered *Rendered, round int, askedAt time.Time) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta(addon, cluster),
		Type:       clusteraddonsv1.ClusterResourceSetSecretType,
		Data:       rendered.Data,
	}
	secret.Labels[infrav1.ComponentLabel] = addonsv1.ComponentAddon
	secret.Annotations = map[string]string{
		addonsv1.HashAnnotation: rendered.Hash, addonsv1.RoundAnnotation: strconv.Itoa(round),
		addonsv1.AskedAtAnnotation: askedAt.UTC().Format(time.RFC3339),
	}
	return secret
}

// meta ties an object to its add-on, without which it has no use.
func meta(addon *addonsv1.CAPTAddon, cluster string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: addon.Namespace, Name: Name(addon.Name, cluster),
		Labels: map[string]string{addonsv1.AddonLabel: addon.Name, clusterv1.ClusterNameLabel: cluster},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: addonsv1.GroupVersion.String(), Kind: "CAPTAddon", Name: addon.Name, UID: addon.UID, Controller: new(true),
		}},
	}
	if filter, found := addon.Labels[clusterv1.WatchLabel]; found {
		m.Labels[clusterv1.WatchLabel] = filter
	}
	return m
}

// Round is how often the content of a rendered Secret was applied again.
func Round(secret metav1.Object) int {
	if secret == nil {
		return 0
	}
	round, err := strconv.Atoi(secret.GetAnnotations()[addonsv1.RoundAnnotation])
	if err != nil {
		return 0
	}
	return round
}

// AskedAt is when the content of a rendered Secret was asked for.
func AskedAt(secret metav1.Object) time.Time {
	if secret == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, secret.GetAnnotations()[addonsv1.AskedAtAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}
