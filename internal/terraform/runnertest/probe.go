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

// BuildProbe builds the program that the modules of the suite execute, and
// returns its path.
func BuildProbe(t testing.TB) string {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "probe")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./internal/terraform/runnertest/probe")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building probe: %v\n%s", err, output)
	}
	return out
}

// probe is a server that counts the resources that were really created, whatever
// the state contains. Resources can wait at its gate until the test opens it.
type probe struct {
	address string
	gate    chan struct{}

	mu                sync.Mutex
	counts            map[string]int
	arrivals, waiters int
}

func newProbe(t testing.TB, listen string) *probe {
	t.Helper()
	p := &probe{counts: map[string]int{}, gate: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /created/{name}", func(_ http.ResponseWriter, r *http.Request) {
		p.update(func() { p.counts[r.PathValue("name")]++ })
	})
	mux.HandleFunc("POST /wait/gate", func(_ http.ResponseWriter, r *http.Request) {
		p.update(func() { p.arrivals++; p.waiters++ })
		defer p.update(func() { p.waiters-- })
		select {
		case <-p.gate:
		case <-r.Context().Done():
		}
	})
	listener, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
	if err != nil {
		t.Fatalf("listening for probes: %v", err)
	}
	server := httptest.NewUnstartedServer(mux)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.address = server.URL
	return p
}

// update calls change with the lock held.
func (p *probe) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// created returns how often a resource was created.
func (p *probe) created(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[name]
}

// arrived returns how many resources have arrived at the gate so far.
func (p *probe) arrived() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arrivals
}

// waiting returns how many resources are waiting at the gate.
func (p *probe) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiters
}

// open opens the gate for good.
func (p *probe) open() { close(p.gate) }
