package captcontrolplane

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// manyReleases is a workload cluster that has pages of the same HelmRelease.
func manyReleases(g Gomega, pages int, create func(page int) *unstructured.Unstructured) client.Client {
	page := 0
	return interceptor.NewClient(workloadCluster(g), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var options client.ListOptions
			options.ApplyOptions(opts)
			g.Expect(options.Limit).To(BeNumerically("<=", 100))
			found, ok := list.(*unstructured.UnstructuredList)
			g.Expect(ok).To(BeTrue())
			found.Items = []unstructured.Unstructured{*create(page)}
			if page++; page < pages {
				list.SetContinue(fmt.Sprint(page))
			}
			return nil
		},
	})
}

// The users of a workload cluster create releases whose values need much more memory than
// their text.
func TestListKinds_keepsLittleOfLargeObjects(t *testing.T) {
	g := NewWithT(t)
	kinds := []schema.GroupKind{{Group: "helm.toolkit.fluxcd.io", Kind: helmRelease}}
	c := manyReleases(g, 20, func(page int) *unstructured.Unstructured {
		obj := inCluster("helm.toolkit.fluxcd.io/v2", helmRelease, fmt.Sprintf("r%d", page))
		values := make([]any, 20_000)
		for i := range values {
			values[i] = []any{}
		}
		obj.Object["spec"] = map[string]any{"values": map[string]any{"a": values}, "suspend": true}
		obj.SetAnnotations(map[string]string{"a": strings.Repeat("x", 200<<10)})
		return obj
	})
	before := live()
	objects, err := listKinds(t.Context(), c, kinds)
	grown := live() - before
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(20))
	g.Expect(grown).To(BeNumerically("<", 256<<10))
	runtime.KeepAlive(objects)

	finalizers := make([]string, 20)
	for i := range finalizers {
		finalizers[i] = strings.Repeat("f", 4096)
	}
	many := manyReleases(g, 3_000, func(int) *unstructured.Unstructured {
		return inCluster("helm.toolkit.fluxcd.io/v2", helmRelease, "r", finalizers...)
	})
	g.Expect(listKinds(t.Context(), many, kinds)).Error().To(MatchError(ContainSubstring("need more than 16 MiB of memory")))
}

// live returns how many bytes are in use.
func live() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func TestReduced_hasWhatTheDeletionReads(t *testing.T) {
	g := NewWithT(t)
	early, late := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	obj := inCluster("karpenter.sh/v1", nodeClaim, "n", "karpenter.sh/termination")
	obj.SetDeletionTimestamp(&late)
	obj.SetCreationTimestamp(early)
	obj.SetLabels(map[string]string{addonsv1.AddonLabel: "flux", "other": "x"})
	obj.SetAnnotations(map[string]string{terminationAnnotation: "2026-01-01T00:00:00Z"})
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "second", Time: &late}, {Manager: "first", Time: &early}})
	for path, value := range map[string]any{
		"spec.suspend": true, "spec.nodeClassRef.group": "eks.amazonaws.com", "spec.template.spec.nodeClassRef.group": "g", "status.providerID": "aws:///i-1",
		"status.loadBalancer.ingress": []any{map[string]any{"hostname": "h", "ports": "p"}}, "status.addresses": []any{map[string]any{"value": "v"}},
	} {
		g.Expect(unstructured.SetNestedField(obj.Object, value, strings.Split(path, ".")...)).To(Succeed())
	}
	whole, kept := workloadObject{obj, nodeClaim}, workloadObject{reduced(obj), nodeClaim}
	g.Expect(kept.String()).To(Equal(whole.String()))
	g.Expect(kept.creator()).To(Equal("first"))
	g.Expect(kept.isAutoMode()).To(BeTrue())
	g.Expect(kept.GetCreationTimestamp().Time).To(BeTemporally("==", early.Time))
	g.Expect(kept.GetLabels()).To(Equal(map[string]string{addonsv1.AddonLabel: "flux"}))
	g.Expect(kept.GetAnnotations()).To(Equal(obj.GetAnnotations()))
	suspended, _, _ := unstructured.NestedBool(kept.Object.(*unstructured.Unstructured).Object, "spec", "suspend")
	g.Expect(suspended).To(BeTrue())
	g.Expect(kept.GetObjectKind().GroupVersionKind()).To(Equal(obj.GroupVersionKind()))

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "h"}}
	g.Expect(workloadObject{reducedService(service), "Service"}.String()).To(Equal(workloadObject{service, "Service"}.String()))
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	volume.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "n", Name: "c"}
	small := reducedVolume(volume)
	g.Expect(workloadObject{&small, "PersistentVolume"}.String()).To(Equal(workloadObject{volume, "PersistentVolume"}.String()))
	g.Expect(isReclaimed(&small)).To(BeTrue())
	g.Expect(small.Spec.ClaimRef.Name).To(Equal("c"))
}
