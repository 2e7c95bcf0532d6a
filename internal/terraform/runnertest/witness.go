package runnertest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/appthrust/capt/internal/testenv"
)

// BuildWitness compiles the program that the suite's modules run.
func BuildWitness(t testing.TB) string {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "witness")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./internal/terraform/runnertest/witness")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the witness: %v\n%s", err, said)
	}
	return out
}

// witness knows what was made in reality, whatever the state says.
type witness struct {
	address string

	mu       sync.Mutex
	counts   map[string]int
	arrivals map[string]int
	waiters  map[string]int
	gates    map[string]chan struct{}
}

func newWitness(t testing.TB, listen string) *witness {
	t.Helper()
	w := &witness{counts: map[string]int{}, arrivals: map[string]int{}, waiters: map[string]int{}, gates: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /made/{name}", func(_ http.ResponseWriter, r *http.Request) { w.count(w.counts, r.PathValue("name"), 1) })
	mux.HandleFunc("POST /await/{name}", func(_ http.ResponseWriter, r *http.Request) {
		w.count(w.waiters, r.PathValue("name"), 1)
		w.count(w.arrivals, r.PathValue("name"), 1)
		defer w.count(w.waiters, r.PathValue("name"), -1)
		select {
		case <-w.gate(r.PathValue("name")):
		case <-r.Context().Done():
		}
	})
	listener, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
	if err != nil {
		t.Fatalf("listening for witnesses: %v", err)
	}
	server := httptest.NewUnstartedServer(mux)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	w.address = server.URL
	return w
}

func (w *witness) count(in map[string]int, name string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in[name] += by
}

// made tells how often a resource was made.
func (w *witness) made(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[name]
}

// arrived tells how many have come to a gate so far.
func (w *witness) arrived(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.arrivals[name]
}

// waiting tells how many wait at a gate.
func (w *witness) waiting(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiters[name]
}

func (w *witness) gate(name string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gates[name] == nil {
		w.gates[name] = make(chan struct{})
	}
	return w.gates[name]
}

// open lets everybody through a gate, now and later.
func (w *witness) open(name string) { close(w.gate(name)) }
