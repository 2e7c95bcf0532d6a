package connection

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// maxAllocated is what the manager may allocate for a hostile answer, which its limit of
// memory allows some hundred times.
const maxAllocated = 24 << 20

// An API server answers the first request after the probe, which is for the pod of the manager.
func TestRunsIn_readsLittleOfThePod(t *testing.T) {
	f := newFixture(t)
	f.cache.options.Pod = Pod{Namespace: "capt-system", Name: "manager", UID: "u"}
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	for count, fails := range map[int]bool{12_000: false, 1 << 20: true} {
		f.server.set(func() {
			f.server.pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"other"},"spec":{"containers":[` + strings.Repeat("{},", count) + `{}]}}`
		})
		var err error
		f.Expect(memorytest.Allocated(func() { _, err = f.cache.connectFirst(t.Context(), key) })).To(BeNumerically("<", maxAllocated))
		if fails {
			f.Expect(err).To(MatchError(workload.ErrTooLarge))
		} else {
			f.Expect(err).NotTo(HaveOccurred())
		}
	}
}

// hostile answers every list and watch with empty objects, and knows very many kinds.
func hostile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	entries := strings.Repeat("{},", 1<<20) + "{}"
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") == "true":
		fmt.Fprintf(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"conditions":[%s]}}}`, entries)
	case strings.HasSuffix(r.URL.Path, "nodes"):
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[%s]}`, entries)
	default:
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"APIResourceList","groupVersion":"example.com/v1","resources":[%s]}`, entries)
	}
}

func TestHostileServer_needsLittleMemory(t *testing.T) {
	g := NewWithT(t)
	s, o := newLists(t, false, 0)
	s.Config.Handler = http.HandlerFunc(hostile)
	i := newInformer(kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node")}, nil, true, o.memory)
	var err error
	g.Expect(memorytest.Allocated(func() { _, err = o.listAll(t.Context(), i) })).To(BeNumerically("<", 8*maxAllocated), "8 sizes of pages are tried")
	g.Expect(err).To(MatchError(workload.ErrTooLarge))

	initial := metav1.ListOptions{SendInitialEvents: new(true)}
	g.Expect(memorytest.Allocated(func() {
		w, err := o.listWatch(i).WatchWithContext(t.Context(), initial)
		g.Expect(err).NotTo(HaveOccurred())
		for range w.ResultChan() {
			t.Log("The watch ends with an error.")
		}
	})).To(BeNumerically("<", maxAllocated))

	g.Expect(memorytest.Allocated(func() {
		_, err = o.client.RESTMapper().RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Example"}, "v1")
	})).To(BeNumerically("<", 2*maxAllocated))
	g.Expect(err).To(HaveOccurred())
}
