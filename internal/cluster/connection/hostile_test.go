package connection

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// hostile answers every request with an endless object.
func hostile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/version" {
		return
	}
	fmt.Fprint(w, `{"kind":"`)
	for line := strings.Repeat("x", 1<<20); r.Context().Err() == nil; {
		fmt.Fprint(w, line)
	}
}

func TestHostileServer_needsLittleMemory(t *testing.T) {
	const maxAllocated = 96 << 20
	f := newFixture(t)
	f.server.Config.Handler = http.HandlerFunc(hostile)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	opened, err := f.cache.connectFirst(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(opened.stop)
	for name, read := range map[string]func() error{
		"kinds": func() error {
			_, err := opened.live.RESTMapper().RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Example"}, "v1")
			return err
		},
		"an object": func() error {
			return opened.probes.Get().AbsPath("/api/v1/nodes/n").Do(t.Context()).Into(&corev1.Node{})
		},
	} {
		allocated := memorytest.Allocated(func() { err = read() })
		t.Logf("%s: %d MiB", name, allocated>>20)
		f.Expect(err).To(MatchError(ContainSubstring(workload.ErrTooLarge.Error())), name)
		f.Expect(allocated).To(BeNumerically("<", maxAllocated), name)
	}
}

// A pod with the name of the manager's pod may be another one.
func TestRunsIn_comparesTheUID(t *testing.T) {
	f := newFixture(t)
	f.cache.options.Pod = Pod{Namespace: "capt-system", Name: "manager", UID: "u"}
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.server.set(func() {
		f.server.pod = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"uid":"other"}}`
	})
	_, err := f.cache.connectFirst(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred(), "it runs elsewhere: there is no configuration of its own API server")
}
