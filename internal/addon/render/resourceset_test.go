package render

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestName_isUniquePerPairAndShortEnough(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Name("flux", "demo")).To(MatchRegexp(`^flux-demo-[0-9a-f]{8}$`))
	g.Expect(Name("flux", "demo")).To(Equal(Name("flux", "demo")))
	g.Expect(Name("a-b", "c")).NotTo(Equal(Name("a", "b-c")))

	long, other := strings.Repeat("a", 253), strings.Repeat("a", 252)
	g.Expect(Name(long, "b")).To(HaveLen(240 + 1 + 8))
	g.Expect(Name(long, "b")).NotTo(Equal(Name(other, "ab")))
	exact := strings.Repeat("a", 238)
	g.Expect(Name(exact, "b")).To(HavePrefix(exact + "-b-"))
}

func TestResourceSet_selectsOneCluster(t *testing.T) {
	for _, strategy := range []addonsv1.Strategy{"", addonsv1.StrategyReconcile, addonsv1.StrategyApplyOnce} {
		t.Run(string(strategy), func(t *testing.T) {
			g := NewWithT(t)
			addon := karpenter()
			addon.Spec.Strategy = strategy
			set := ResourceSet(addon, "demo")
			g.Expect(set.Spec.Strategy).To(Equal("ApplyOnce"), "Cluster API applies no changes")
			g.Expect(set.Spec.ClusterSelector).To(Equal(metav1.LabelSelector{MatchLabels: map[string]string{addonsv1.ClusterLabel: "demo"}}))
			g.Expect(set.Spec.Resources).To(Equal([]clusteraddonsv1.ResourceRef{{Name: Name("karpenter", "demo"), Kind: "Secret"}}))
			g.Expect(set.Name).To(Equal(Name("karpenter", "demo")))
			g.Expect(set.Namespace).To(Equal("fleet"))
			g.Expect(set.Labels).To(Equal(map[string]string{addonsv1.AddonLabel: "karpenter", clusterv1.ClusterNameLabel: "demo"}))
			g.Expect(metav1.IsControlledBy(set, addon)).To(BeTrue())
		})
	}
}

func TestSecret_recordsHashRoundAndTime(t *testing.T) {
	g := NewWithT(t)
	addon := karpenter()
	addon.Labels = map[string]string{clusterv1.WatchLabel: "blue"}
	at := time.Date(2026, 11, 15, 13, 0, 0, 5, time.FixedZone("", 3600))
	secret := Secret(addon, "demo", &Rendered{Hash: "sha256:1", Data: map[string][]byte{"a": []byte("b")}}, 3, at)

	g.Expect(secret.Type).To(Equal(clusteraddonsv1.ClusterResourceSetSecretType))
	g.Expect(secret.Data).To(HaveKeyWithValue("a", []byte("b")))
	g.Expect(secret.Labels).To(HaveKeyWithValue(infrav1.ComponentLabel, addonsv1.ComponentAddon))
	g.Expect(secret.Labels).To(HaveKeyWithValue(clusterv1.WatchLabel, "blue"), "the same manager sees it")
	g.Expect(secret.Annotations).To(Equal(map[string]string{
		addonsv1.HashAnnotation: "sha256:1", addonsv1.RoundAnnotation: "3", addonsv1.RequestedAtAnnotation: "2026-11-15T12:00:00Z",
	}))
	g.Expect(Round(secret)).To(Equal(3))
	g.Expect(RequestedAt(secret)).To(BeTemporally("==", at.Truncate(time.Second)))
}

func TestRoundAndRequestedAt_areZeroIfNotRecorded(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{
		"no Secret":      nil,
		"no annotations": {},
		"edited": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			addonsv1.RoundAnnotation: "7x", addonsv1.RequestedAtAnnotation: "yesterday",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Round(secret)).To(BeZero())
			g.Expect(RequestedAt(secret).IsZero()).To(BeTrue())
		})
	}
}
