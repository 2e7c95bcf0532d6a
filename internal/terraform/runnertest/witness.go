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

// witness knows what was made in reality, whatever the state says. It has a gate
// at which resources wait until the test lets them go on.
type witness struct {
	address string
	gate    chan struct{}

	mu                sync.Mutex
	counts            map[string]int
	arrivals, waiters int
}

func newWitness(t testing.TB, listen string) *witness {
	t.Helper()
	w := &witness{counts: map[string]int{}, gate: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /made/{name}", func(_ http.ResponseWriter, r *http.Request) {
		w.change(func() { w.counts[r.PathValue("name")]++ })
	})
	mux.HandleFunc("POST /await/gate", func(_ http.ResponseWriter, r *http.Request) {
		w.change(func() { w.arrivals++; w.waiters++ })
		defer w.change(func() { w.waiters-- })
		select {
		case <-w.gate:
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

func (w *witness) change(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
}

// made tells how often a resource was made.
func (w *witness) made(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[name]
}

// arrived tells how many have come to the gate so far.
func (w *witness) arrived() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.arrivals
}

// waiting tells how many wait at the gate.
func (w *witness) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiters
}

// open lets everybody through the gate, now and later.
func (w *witness) open() { close(w.gate) }
