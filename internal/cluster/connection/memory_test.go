package connection

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serverVariable makes the test program an API server. It is another process, so that its
// memory is not counted.
const serverVariable = "CAPT_TEST_API_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// serve runs an API server with forty kinds more until its input ends.
func serve() {
	s := startServer()
	s.versions["v1"] = append(s.versions["v1"], metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	for i := range 40 {
		s.versions["v1"] = append(s.versions["v1"], metav1.APIResource{Name: fmt.Sprintf("others%d", i), Kind: fmt.Sprintf("Other%d", i)})
	}
	fmt.Println(strings.ReplaceAll(string(s.kubeconfig("first").Data["value"]), "\n", "|"))
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	s.CloseClientConnections()
}

// serveSecrets serves a list of Secrets, and a watch without events.
func serveSecrets(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") == "true":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case query.Get("watch") == "true":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"1"},"items":[]}`)
	}
}

func TestCache_needsLittleMemoryForACluster(t *testing.T) {
	const clusters, limit = 50, 160 << 10
	f := newFixture(t)
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"=1")
	input, err := server.StdinPipe()
	f.Expect(err).NotTo(HaveOccurred())
	output, err := server.StdoutPipe()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(server.Start()).To(Succeed())
	t.Cleanup(func() {
		f.cache.stop()
		_ = input.Close()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	f.Expect(err).NotTo(HaveOccurred())
	kubeconfig := []byte(strings.ReplaceAll(strings.TrimSpace(line), "|", "\n"))

	open := func(name string) *connection {
		cluster := client.ObjectKey{Namespace: key.Namespace, Name: name}
		f.Expect(f.client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": kubeconfig},
		})).To(Succeed())
		opened, err := f.cache.connectFirst(t.Context(), cluster)
		f.Expect(err).NotTo(HaveOccurred())
		secrets := &unstructured.UnstructuredList{}
		secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		f.Expect(opened.cached.List(t.Context(), secrets)).To(Succeed())
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		informer, err := opened.objects.GetInformer(t.Context(), kind)
		f.Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
		f.Expect(err).NotTo(HaveOccurred())
		return opened
	}
	opened := []*connection{open("first")} // What all clusters share is allocated now.
	before := used()
	for i := range clusters {
		opened = append(opened, open(fmt.Sprintf("cluster-%d", i)))
	}
	grown := (used() - before) / clusters
	t.Logf("%d KiB for each cluster", grown>>10)
	f.Expect(grown).To(BeNumerically("<", limit))
	runtime.KeepAlive(opened)
}

// used returns the bytes of heap and stacks in use.
func used() int {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse)
}
