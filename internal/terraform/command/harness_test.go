package command

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
	"github.com/appthrust/capt/internal/terraform/statefile"
	"github.com/appthrust/capt/internal/testenv/waits"
)

func tofu(t testing.TB) *binary.Tool {
	t.Helper()
	tool, err := binary.Find(commandtest.Tofu(t))
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// eachTool runs a test with OpenTofu, and with Terraform if it is installed.
func eachTool(t *testing.T, test func(t *testing.T, tool *binary.Tool)) {
	t.Run("OpenTofu", func(t *testing.T) { test(t, tofu(t)) })
	t.Run("Terraform", func(t *testing.T) {
		path := commandtest.Terraform()
		if path == "" {
			t.Skip("Terraform is not installed")
		}
		test(t, &binary.Tool{Path: path})
	})
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func workdir(t testing.TB, tool *binary.Tool) (*Workdir, *syncBuffer) {
	t.Helper()
	log := &syncBuffer{}
	return &Workdir{Tool: tool, Dir: filepath.Join(t.TempDir(), "work"), Log: log}, log
}

func inline(hcl string) *terraform.Request {
	return &terraform.Request{
		RunID:     "run-1",
		Operation: terraform.OperationPlanAndApply,
		Module:    terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: hcl},
		Grace:     waits.Timeout,
	}
}

// values returns the values of variables that are strings.
func values(of map[string]string) map[string]json.RawMessage {
	encoded := map[string]json.RawMessage{}
	for name, value := range of {
		encoded[name], _ = json.Marshal(value)
	}
	return encoded
}

// planned prepares and plans.
func planned(ctx context.Context, t testing.TB, w *Workdir, request *terraform.Request) *Session {
	t.Helper()
	g := NewWithT(t)
	session, err := Prepare(ctx, w, request)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
	g.Expect(err).NotTo(HaveOccurred())
	return session
}

// apply prepares, plans and applies. It returns the state.
func apply(t testing.TB, w *Workdir, request *terraform.Request) (*Session, *statefile.State) {
	t.Helper()
	session := planned(context.Background(), t, w, request)
	_, err := session.Apply(context.Background(), w.PlanFile(), nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return session, localStateOf(t, w, session)
}

func localStateOf(t testing.TB, w *Workdir, session *Session) *statefile.State {
	t.Helper()
	g := NewWithT(t)
	data, err := session.StatePull(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	state, err := statefile.Parse(data)
	g.Expect(err).NotTo(HaveOccurred())
	return state
}
