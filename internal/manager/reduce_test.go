package manager

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

// The users of a workload cluster must not be able to fill the memory of the manager, and
// the manager holds none of their secrets.
func TestReduce_keepsLittleOfAnObject(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	many := []any{}
	for range 10_000 {
		many = append(many, map[string]any{"id": strings.Repeat("y", 100)})
	}
	for name, content := range map[string]map[string]any{
		"annotation":  {"metadata": map[string]any{"name": "n", "annotations": map[string]any{"a": large}}},
		"owners":      {"metadata": map[string]any{"name": "n", "ownerReferences": []any{map[string]any{"name": large}}, "finalizers": []any{large}}},
		"other field": {"data": map[string]any{"a": large}, "binaryData": map[string]any{"a": large}, "rules": many},
		"spec":        {"spec": map[string]any{"template": map[string]any{"a": large}, "text": large, "list": many}},
		"status":      {"status": map[string]any{"text": large, "list": many}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
			maps.Copy(obj.Object, content)
			g.Expect(reduce(obj)).Error().NotTo(HaveOccurred())
			g.Expect(len(fmt.Sprint(obj.Object))).To(BeNumerically("<", 1024))
		})
	}
}

func TestReduce_keepsWhatMachinesReadOfNodes(t *testing.T) {
	g := NewWithT(t)
	large := strings.Repeat("x", 1<<20)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", ResourceVersion: "1", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{infrav1.NodeSettingsAnnotation: "{}", "other": large}, Finalizers: []string{large},
		},
		Spec: corev1.NodeSpec{ProviderID: "aws:///1", Unschedulable: true, Taints: []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Message: large}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.33.0", OSImage: large}, Images: []corev1.ContainerImage{{Names: []string{large}}},
		},
	}
	want := node.DeepCopy()
	want.Annotations, want.Finalizers = map[string]string{infrav1.NodeSettingsAnnotation: "{}"}, nil
	want.Status = corev1.NodeStatus{Conditions: want.Status.Conditions[1:], NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.33.0"}}
	g.Expect(reduce(node)).Error().NotTo(HaveOccurred())
	g.Expect(node).To(Equal(want))
}

func TestReduce_keepsNoDataOfSecrets(t *testing.T) {
	g := NewWithT(t)
	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "c2VjcmV0"}}}
	digests := render.DataDigests(secret)
	g.Expect(reduce(secret)).Error().NotTo(HaveOccurred())
	g.Expect(render.DataDigests(secret)).To(Equal(digests), "a change is still recognised")
	g.Expect(fmt.Sprint(secret.Object)).NotTo(ContainSubstring("c2VjcmV0"))

	typed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"a": []byte("secret")}}
	g.Expect(reduce(typed)).Error().NotTo(HaveOccurred())
	g.Expect(typed.Data).To(BeEmpty())
}

func TestReduce_keepsWhatReadinessDependsOn(t *testing.T) {
	statefulSet := map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": "s", "generation": int64(2)},
		"spec": map[string]any{
			"replicas": int64(3), "updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0)}},
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": strings.Repeat("i", 300)}}}},
		},
		"status": map[string]any{"observedGeneration": int64(2), "replicas": int64(3), "readyReplicas": int64(2), "currentReplicas": int64(3)},
	}
	release := map[string]any{
		"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": map[string]any{"name": "r"},
		"spec":   map[string]any{"suspend": true, "values": map[string]any{"a": strings.Repeat("v", 300)}},
		"status": map[string]any{"inventory": map[string]any{"entries": []any{map[string]any{"id": "ns_d_apps_Deployment", "v": "v1"}}}},
	}
	for _, content := range []map[string]any{statefulSet, release} {
		g := NewWithT(t)
		obj := &unstructured.Unstructured{Object: content}
		before, inventory := render.Check(obj.DeepCopy(), ""), render.Inventory(obj)
		g.Expect(reduce(obj)).Error().NotTo(HaveOccurred())
		g.Expect(render.Check(obj, "")).To(Equal(before))
		g.Expect(render.Inventory(obj)).To(Equal(inventory))
		g.Expect(obj.Object["spec"]).NotTo(Or(HaveKey("template"), HaveKey("values")))
		g.Expect(obj.Object["spec"]).To(Or(HaveKey("replicas"), HaveKeyWithValue("suspend", true)))
	}
}
