package node

import (
	"errors"
	"net/url"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParse(t *testing.T) {
	g := NewWithT(t)
	node, err := Parse([]byte(`{"name":"a","providerID":"local:///z/a","labels":null,"taints":[{"key":"k","value":null,"effect":"NoSchedule"}],"kubernetesVersion":null}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(node).To(Equal(&Node{Name: "a", ProviderID: "local:///z/a", Taints: []Taint{{Key: "k", Effect: "NoSchedule"}}}))
	for text, message := range map[string]string{
		``: "reading the node", `{"name":"a"}`: "name and providerID of the node are required", `{"name":"a","providerID":"b","size":1}`: `unknown field "size"`,
	} {
		g.Expect(Parse([]byte(text))).Error().To(MatchError(ContainSubstring(message)), text)
	}
}

// An API server that starts on a busy machine accepts connections long before it answers.
func TestIsTransient(t *testing.T) {
	g := NewWithT(t)
	g.Expect(isTransient(&url.Error{Op: "Get", URL: "https://127.0.0.1:6443", Err: os.ErrDeadlineExceeded})).To(BeTrue())
	g.Expect(isTransient(&url.Error{Op: "Get", URL: "https://127.0.0.1:6443", Err: errors.New("unknown authority")})).To(BeFalse())
	g.Expect(isTransient(nil)).To(BeFalse())
}

// Merge keeps what others have set, and removes what it set before and is no longer
// desired.
func TestMerge_removesOnlyWhatItHasSet(t *testing.T) {
	g := NewWithT(t)
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"foreign": "1"}, Annotations: map[string]string{"foreign": "2"},
	}}
	notReady := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}
	object.Spec.Taints = []corev1.Taint{notReady}

	first := Node{
		Name: "a", ProviderID: "p", Zone: "z", InstanceType: "t", Labels: map[string]string{"mine": "1", "kept": "1"}, Tags: map[string]string{"x": "y"},
		Taints: []Taint{{Key: "mine", Value: new("v"), Effect: "NoExecute"}, {Key: "kept", Effect: "NoSchedule"}},
	}
	g.Expect(first.merge(object)).To(Succeed())
	g.Expect(object.Labels).To(Equal(map[string]string{
		"foreign": "1", "mine": "1", "kept": "1", "kubernetes.io/hostname": "a", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": "t",
	}))
	g.Expect(object.Spec.Taints).To(Equal([]corev1.Taint{notReady, {Key: "mine", Value: "v", Effect: "NoExecute"}, {Key: "kept", Effect: "NoSchedule"}}))
	g.Expect(object.Annotations).To(And(HaveKeyWithValue("kwok.x-k8s.io/node", "fake"), HaveKeyWithValue("foreign", "2"), HaveKeyWithValue("capt.appthrust.io/tags", `{"x":"y"}`)))

	same := object.DeepCopy()
	g.Expect(first.merge(same)).To(Succeed())
	g.Expect(same).To(Equal(object), "a second merge changes nothing")

	second := Node{Name: "a", ProviderID: "p", Labels: map[string]string{"kept": "2"}, Taints: []Taint{{Key: "kept", Value: new("w"), Effect: "NoSchedule"}}}
	g.Expect(second.merge(object)).To(Succeed())
	g.Expect(object.Labels).To(Equal(map[string]string{
		"foreign": "1", "kept": "2", "kubernetes.io/hostname": "a", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
	}))
	g.Expect(object.Spec.Taints).To(Equal([]corev1.Taint{notReady, {Key: "kept", Value: "w", Effect: "NoSchedule"}}))
	g.Expect(object.Annotations).NotTo(HaveKey("capt.appthrust.io/tags"))

	other := Node{Name: "a", ProviderID: "q"}
	g.Expect(other.merge(object)).To(MatchError(ContainSubstring("belongs to another machine, p")))
}

func TestMergeStatus_reportsVersion(t *testing.T) {
	g := NewWithT(t)
	for given, want := range map[string]string{"1.36": "v1.36.0", "v1.36": "v1.36.0", "1.36.4": "v1.36.4", "": ""} {
		var object corev1.Node
		(&Node{KubernetesVersion: given}).mergeStatus(&object)
		g.Expect(object.Status.NodeInfo.KubeletVersion).To(Equal(want), given)
		g.Expect(object.Status.Allocatable).To(HaveKey(corev1.ResourcePods))
		g.Expect(object.Status.Conditions).To(BeEmpty(), "KWOK sets the conditions")
	}
}
