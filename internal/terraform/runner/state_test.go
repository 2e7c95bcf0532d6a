package runner

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// storeState stores the state's Secret. Without a state, the Secret is empty.
func (a *api) storeState(g Gomega, state string) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: request().Backend.StateSecretName()}}
	if state != "" {
		data, err := record.Compress([]byte(state))
		g.Expect(err).NotTo(HaveOccurred())
		secret.Data = map[string][]byte{stateKey: data}
	}
	a.store(g, secretsPath, secret)
}

const (
	emptyState     = `{"version":4,"serial":1,"lineage":"l","resources":[]}`
	oneResource    = `{"version":4,"serial":7,"lineage":"l","resources":[{"mode":"managed","type":"t","name":"a","instances":[{}]}]}`
	encryptedState = `{"serial":7,"lineage":"l","meta":{},"encrypted_data":"x"}`
)

func TestEnsureState(t *testing.T) {
	tests := []struct {
		name string
		// exists is whether there is a Secret, with the content state.
		exists    bool
		state     string
		change    func(*terraform.Request)
		unchanged bool
		missing   bool
	}{
		{name: "a new workspace"},
		{name: "a Secret without a state", exists: true},
		{name: "an existing state", exists: true, state: oneResource, unchanged: true},
		{name: "an existing state that is expected", exists: true, state: oneResource, unchanged: true, change: func(r *terraform.Request) { r.ExpectState = true }},
		{name: "an expected state is missing", unchanged: true, missing: true, change: func(r *terraform.Request) { r.ExpectState = true }},
		{name: "an expected state is empty", exists: true, unchanged: true, missing: true, change: func(r *terraform.Request) { r.ExpectState = true }},
		{name: "an expected state is restored", change: func(r *terraform.Request) {
			r.ExpectState, r.Operation = true, terraform.OperationRestoreState
		}},
		{name: "another backend", unchanged: true, change: func(r *terraform.Request) { r.Backend = terraform.Backend{Type: "s3"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			run := newExecution()
			run.session = &command.Session{Root: t.TempDir()}
			if tt.change != nil {
				tt.change(run.request)
			}
			if tt.exists {
				a.storeState(g, tt.state)
			}

			err := r.ensureState(t.Context(), run)

			g.Expect(run.result.StateMissing).To(Equal(tt.missing))
			if tt.missing {
				run.conclude(err)
				g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
				g.Expect(run.result.Diagnostics.Short()).To(And(HavePrefix("State missing: the Secret tfstate-default-hello-ws"), ContainSubstring("restore-snapshot")))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			if tt.unchanged {
				g.Expect(a.count(http.MethodPost) + a.count(http.MethodPatch)).To(BeZero())
				return
			}
			text, err := r.rawState(t.Context(), run)
			g.Expect(err).NotTo(HaveOccurred())
			state, err := command.ParseState(text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(state.Lineage).NotTo(BeEmpty())
			g.Expect(state.Resources).To(BeZero())
		})
	}
}

func TestEnsureState_doesNotReplaceAnUnreadableState(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.intercept = func(string, string, []byte) *metav1.Status {
		return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	}
	run := newExecution()
	run.request.ExpectState = true
	g.Expect(r.ensureState(t.Context(), run)).To(MatchError(HavePrefix("reading the state: ")))
	g.Expect(run.result.StateMissing).To(BeFalse(), "an error does not prove that the state is missing")
	g.Expect(a.count(http.MethodPost) + a.count(http.MethodPatch)).To(BeZero())
}

func TestSnapshot(t *testing.T) {
	tests := []struct {
		name       string
		state      string
		encryption string
		stored     bool
		log        string
		err        string
	}{
		{name: "a state with resources", state: oneResource, stored: true},
		{name: "a state without resources", state: emptyState},
		{name: "no state"},
		{name: "an encrypted state", state: encryptedState, encryption: "x", stored: true},
		{name: "a decrypted state", state: oneResource, encryption: "x", log: "No snapshot is taken"},
		{name: "an invalid state", state: "{", err: "taking a snapshot of the state: parsing state: invalid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			a.storeState(g, tt.state)
			run := newExecution()
			run.request.Encryption = tt.encryption

			err := r.snapshot(t.Context(), run)

			if tt.err != "" {
				g.Expect(err).To(MatchError(tt.err))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(string(run.report.log.Bytes())).To(ContainSubstring(tt.log))
			if !tt.stored {
				g.Expect(run.result.Snapshot).To(BeEmpty())
				g.Expect(a.count(http.MethodPost)).To(BeZero())
				return
			}
			name := record.SnapshotName("hello-r2")
			g.Expect(run.result.Snapshot).To(Equal(record.ChunkName(name, 0)))
			content, _, err := r.load(t.Context(), "n", name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content)).To(Equal(tt.state))
		})
	}
}

func TestRescueAfter_storesAStateThatTheToolOnlyPrinted(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	r.workdir = &command.Workdir{Dir: t.TempDir()}
	run := newExecution()
	failure := &command.Failure{State: []byte(oneResource)}
	saved, err := r.rescueAfter(t.Context(), run, failure)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(saved).To(BeFalse(), "the backend does not have the state")
	content, _, err := r.load(t.Context(), "n", "rescue-hello-r2")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(oneResource))
	g.Expect(string(run.report.log.Bytes())).To(ContainSubstring("It is stored in Secret"))
}

func TestRescueAfter_doesNothingIfTheStateIsSaved(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	r.workdir = &command.Workdir{Dir: t.TempDir()}
	g.Expect(os.MkdirAll(filepath.Join(r.workdir.Dir, "module"), 0o700)).To(Succeed())
	saved, err := r.rescueAfter(t.Context(), newExecution(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(saved).To(BeFalse())
	g.Expect(a.requests).To(BeEmpty())
}
