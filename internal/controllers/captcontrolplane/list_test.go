package captcontrolplane

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

func TestEachOf_readsPages(t *testing.T) {
	g := NewWithT(t)
	c := manyReleases(g, 3, func(page int) *unstructured.Unstructured {
		return inCluster("helm.toolkit.fluxcd.io/v2", helmRelease, fmt.Sprintf("r%d", page))
	})
	var names []string
	g.Expect(eachOf(t.Context(), c, []schema.GroupKind{{Group: "helm.toolkit.fluxcd.io", Kind: helmRelease}}, func(obj workloadObject) error {
		names = append(names, obj.GetName())
		return nil
	})).To(Succeed())
	g.Expect(names).To(HaveExactElements("r0", "r1", "r2"))
}

// The users of a workload cluster decide how many objects there are, and how long the names
// and finalizers of an object are.
func TestDescriptions_areLimited(t *testing.T) {
	g := NewWithT(t)
	var d descriptions
	for range maxObjects {
		g.Expect(d.add(strings.Repeat("x", 1<<20))).To(Succeed())
	}
	g.Expect(d[0]).To(HaveLen(maxDescription))
	g.Expect(d.add("x")).To(MatchError(ContainSubstring("delete some of them")))
}
