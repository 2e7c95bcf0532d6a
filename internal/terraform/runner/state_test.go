package runner

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
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

// reopened returns a session of a working directory.
func reopened(t *testing.T, workdir *command.Workdir) *command.Session {
	t.Helper()
	session, err := command.Reopen(workdir)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return session
}

// onFile prepares a run for the Kubernetes backend, in a new working directory.
func onFile(t *testing.T, r *Runner) *execution {
	t.Helper()
	run := newExecution()
	*r.workdir = command.Workdir{Dir: t.TempDir()}
	run.session = reopened(t, r.workdir)
	NewWithT(t).Expect(os.MkdirAll(run.session.Root, 0o700)).To(Succeed())
	return run
}

// opened returns a run that works on a state of the Kubernetes backend.
func opened(t *testing.T, state string) (*api, *Runner, *execution) {
	t.Helper()
	a, r := newAPI(t)
	a.storeState(NewWithT(t), state)
	run := onFile(t, r)
	NewWithT(t).Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
	return a, r, run
}

// write writes the state file as the tool does.
func write(g Gomega, run *execution, state string) {
	g.Expect(os.WriteFile(run.session.StateFile(), []byte(state), 0o600)).To(Succeed())
}

// saved returns the state in the Secret.
func (a *api) saved(g Gomega) string {
	state, err := record.Decompress(a.secret(g, request().Backend.StateSecretName()).Data[stateKey])
	g.Expect(err).NotTo(HaveOccurred())
	return string(state)
}

func TestOpenState(t *testing.T) {
	known := func(info terraform.StateInfo) func(*terraform.Request) {
		return func(r *terraform.Request) { r.State.StateInfo = info }
	}
	tests := []struct {
		name string
		// exists is whether there is a Secret, with the content state.
		exists  bool
		state   string
		change  func(*terraform.Request)
		problem terraform.StateProblem
		message string
	}{
		{name: "a new workspace"},
		{name: "a Secret without a state", exists: true},
		{name: "an existing state", exists: true, state: oneResource},
		{name: "the known state", exists: true, state: oneResource, change: known(terraform.StateInfo{Lineage: "l", Serial: 7, Resources: 1})},
		{name: "a known state is missing", change: known(terraform.StateInfo{Resources: 1}), problem: terraform.StateMissing, message: "Unexpected state: the state in Secret tfstate-default-hello-ws is missing or empty, but it had 1 resources"},
		{name: "a known state is empty", exists: true, change: known(terraform.StateInfo{Resources: 1}), problem: terraform.StateMissing, message: "captctl state restore"},
		{name: "the state of another workspace", exists: true, state: oneResource, change: known(terraform.StateInfo{Lineage: "x", Resources: 1}), problem: terraform.StateForeign, message: "captctl state adopt --version l/7"},
		{name: "an earlier version", exists: true, state: oneResource, change: known(terraform.StateInfo{Lineage: "l", Serial: 8, Resources: 1}), problem: terraform.StateOutdated, message: "has serial 7, but serial 8 was saved before"},
		{name: "a missing state is restored", change: func(r *terraform.Request) {
			r.State.Resources, r.Operation = 1, terraform.OperationRestoreState
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			run := onFile(t, r)
			if tt.change != nil {
				tt.change(run.request)
			}
			if tt.exists {
				a.storeState(g, tt.state)
			}

			err := r.inSecret.openState(t.Context(), run)

			g.Expect(run.result.StateProblem).To(Equal(tt.problem))
			g.Expect(a.count(http.MethodPatch)).To(BeZero())
			if tt.problem != "" {
				run.conclude(err)
				g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
				g.Expect(run.result.Diagnostics.Short()).To(ContainSubstring(tt.message))
				g.Expect(run.session.StateFile()).NotTo(BeAnExistingFile())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(a.count(http.MethodPost)).To(BeZero())
			if tt.state == "" {
				g.Expect(run.session.StateFile()).NotTo(BeAnExistingFile())
				return
			}
			g.Expect(os.ReadFile(run.session.StateFile())).To(BeEquivalentTo(tt.state))
			g.Expect(run.result.State).To(Equal(terraform.StateInfo{Lineage: "l", Serial: 7, Resources: 1}), "a run that fails reports it too")
		})
	}
}

func TestOpenState_doesNotReplaceAnUnreadableState(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.refuse("", "", unavailable)
	run := onFile(t, r)
	run.request.State.Resources = 1
	g.Expect(r.inSecret.openState(t.Context(), run)).To(MatchError(HavePrefix("reading the state: ")))
	g.Expect(run.result.StateProblem).To(BeEmpty(), "an error does not prove that the state is missing")
	g.Expect(a.count(http.MethodPost) + a.count(http.MethodPatch)).To(BeZero())
}

const twoResources = `{"version":4,"serial":8,"lineage":"l","resources":[{"mode":"managed","type":"t","name":"a","instances":[{},{}]}]}`

func TestCloseState_savesTheFile(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	write(g, run, twoResources)
	failures := 2
	a.intercept = func(method, _ string, _ []byte) *metav1.Status {
		if failures--; method == http.MethodPatch && failures >= 0 {
			return unavailable
		}
		return nil
	}

	g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(Succeed())

	g.Expect(a.saved(g)).To(Equal(twoResources))
	g.Expect(run.result.State).To(Equal(terraform.StateInfo{Lineage: "l", Serial: 8, Resources: 2}))
	g.Expect(run.session.StateFile()).NotTo(BeAnExistingFile(), "it contains secrets")
}

func TestCloseState_keepsTheSavedStateIfTheFileIsIncomplete(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	write(g, run, twoResources[:40])

	g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(Succeed())

	g.Expect(a.saved(g)).To(Equal(oneResource))
	g.Expect(run.session.StateFile()).NotTo(BeAnExistingFile())
}

func TestCloseState_keepsAStateThatIsTooLarge(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	write(g, run, twoResources)
	a.refuse(http.MethodPatch, "", entityTooLarge)

	run.conclude(r.inSecret.closeState(t.Context(), run, nil))

	g.Expect(run.result.StateTooLarge).To(BeTrue())
	g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
	content, _, err := r.storage.load(t.Context(), "n", run.result.Rescued)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(twoResources))
	g.Expect(run.session.StateFile()).To(BeAnExistingFile(), "the next run tries again")
}

func TestSavedState_doesNotOverwriteAnotherWriter(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	a.storeState(g, emptyState)
	write(g, run, twoResources)

	g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(MatchError(ContainSubstring("Secret tfstate-default-hello-ws was changed during the run")))

	g.Expect(a.saved(g)).To(Equal(emptyState))
	content, _, err := r.storage.load(t.Context(), "n", run.result.Rescued)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(twoResources))
}

func TestSavedState_continuesAfterAChangeOfLabels(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	a.storeState(g, oneResource)
	write(g, run, twoResources)
	g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(Succeed())
	g.Expect(a.saved(g)).To(Equal(twoResources))
}

func TestSavedState_savesEachChangeWhileTheToolRuns(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	run := onFile(t, r)
	g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
	stop := run.state.start(t.Context())
	for _, state := range []string{oneResource, twoResources} {
		write(g, run, state)
		g.Eventually(func(g Gomega) { g.Expect(a.saved(g)).To(Equal(state)) }).Should(Succeed())
	}
	stop()
	write(g, run, oneResource[:20])
	g.Expect(run.state.sync(t.Context())).To(MatchError(errIncomplete))
	g.Expect(a.saved(g)).To(Equal(twoResources))
}

func TestOpenState_savesWhatAKilledRunnerLeft(t *testing.T) {
	branch := strings.Replace(twoResources, `"serial":8`, `"serial":9`, 1)
	for name, tt := range map[string]struct {
		// base is the state that the killed runner started from, left what its tool
		// wrote, and stored what the Secret has now.
		base, left, stored string
		want               string
		rescued            bool
	}{
		"nothing was saved":            {oneResource, twoResources, oneResource, twoResources, false},
		"everything was saved":         {oneResource, twoResources, twoResources, twoResources, false},
		"the first state of a new one": {"", oneResource, "", oneResource, false},
		"another run saved":            {oneResource, branch, twoResources, twoResources, true},
		"another run went further":     {oneResource, oneResource, twoResources, twoResources, true},
		"an incomplete file":           {oneResource, twoResources[:50], oneResource, oneResource, false},
		"an older state without any":   {oneResource, emptyState, twoResources, twoResources, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			a.storeState(g, tt.stored)
			run := onFile(t, r)
			g.Expect(run.session.WriteState([]byte(tt.base))).To(Succeed())
			write(g, run, tt.left)
			run.request.State.Unconfirmed = tt.base == ""

			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())

			g.Expect(a.saved(g)).To(Equal(tt.want))
			g.Expect(os.ReadFile(run.session.StateFile())).To(BeEquivalentTo(tt.want))
			g.Expect(run.result.Rescued != "").To(Equal(tt.rescued))
			if tt.rescued {
				content, _, err := r.storage.load(t.Context(), "n", run.result.Rescued)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(content)).To(Equal(tt.left), "nothing is lost")

				next := onFile(t, r)
				next.request.Rescued = []string{run.result.Rescued}
				g.Expect(r.inSecret.openState(t.Context(), next)).To(Succeed())
				g.Expect(a.saved(g)).To(Equal(tt.want), "the next run does not take it for a later version")
				g.Expect(next.result.Saved).To(BeEmpty())
				missing := map[string]int{run.result.Rescued: statefile.Missing([]byte(tt.left), []byte(tt.want))}
				g.Expect(run.result.NotMerged).To(Equal(missing), "it is reported at once")
				g.Expect(next.result.NotMerged).To(Equal(missing))
				return
			}
			g.Expect(run.result.NotMerged).To(BeEmpty())
		})
	}
}

func TestSnapshot(t *testing.T) {
	tests := []struct {
		name       string
		state      string
		encryption string
		stored     bool
		err        string
	}{
		{name: "a state with resources", state: oneResource, stored: true},
		{name: "a state without resources", state: emptyState},
		{name: "no state"},
		{name: "an encrypted state", state: encryptedState, encryption: "x", stored: true},
		{name: "an invalid state", state: "{", err: "taking a snapshot of the state: parsing state: invalid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			run := onFile(t, r)
			run.state = &savedState{}
			if tt.state != "" {
				write(g, run, tt.state)
			}
			run.request.Encryption = tt.encryption

			err := r.storage.snapshot(t.Context(), run)

			if tt.err != "" {
				g.Expect(err).To(MatchError(tt.err))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			if !tt.stored {
				g.Expect(run.result.Snapshot).To(BeEmpty())
				g.Expect(a.count(http.MethodPost)).To(BeZero())
				return
			}
			name := record.SnapshotName("hello-r2", []byte(tt.state))
			g.Expect(run.result.Snapshot).To(Equal(record.ChunkName(name, 0)))
			content, _, err := r.storage.load(t.Context(), "n", name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content)).To(Equal(tt.state))
		})
	}
}

func TestRescueAfter_storesAStateThatTheToolOnlyPrinted(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := scripted(t, r, `
[ "$1" = state ] || exit 0
echo "Error: AccessDenied" >&2
exit 1`)
	printState(g, run, oneResource)
	saved, err := r.inTool.rescueAfter(t.Context(), run)
	g.Expect(err).To(HaveOccurred(), "the backend does not have the state")
	g.Expect(saved).To(BeFalse())
	content, _, err := r.storage.load(t.Context(), "n", run.result.Rescued)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content).To(MatchJSON(oneResource))
	g.Expect(string(run.report.log.Bytes())).To(ContainSubstring("It is stored in Secret"))
}

// printState writes the stream of a tool that could write its state nowhere.
func printState(g Gomega, run *execution, state string) {
	g.Expect(os.MkdirAll(run.session.RunDir, 0o700)).To(Succeed())
	event := `{"@level":"info","@message":"Emergency state dump","type":"log","state":` + state + "}\n"
	g.Expect(os.WriteFile(filepath.Join(run.session.RunDir, "apply.jsonl"), []byte(event), 0o600)).To(Succeed())
}

func TestCloseState_savesAStateThatTheToolOnlyPrinted(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	write(g, run, "")
	printState(g, run, twoResources)
	failures := 2
	a.intercept = func(method, _ string, _ []byte) *metav1.Status {
		if failures--; method == http.MethodPatch && failures >= 0 {
			return unavailable
		}
		return nil
	}

	g.Expect(r.inSecret.closeState(t.Context(), run, unsavedFailure())).To(Succeed())

	g.Expect(a.saved(g)).To(MatchJSON(twoResources))
	g.Expect(run.incomplete).To(BeFalse())
	g.Expect(command.UnsavedStates(r.workdir.Dir)).To(BeEmpty())
}

func unsavedFailure() *command.Failure {
	return &command.Failure{Command: "apply", ExitCode: 1, Diagnostics: diagnostic("Failed to save state", "Error saving state: no space left on device")}
}

func TestCloseState_isUncertainIfTheStateIsNowhere(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	write(g, run, "")
	g.Expect(r.inSecret.closeState(t.Context(), run, unsavedFailure())).To(Succeed())
	g.Expect(run.incomplete).To(BeTrue())
	g.Expect(a.saved(g)).To(Equal(oneResource))
}

func TestOpenState_savesWhatTheToolOfAKilledRunnerPrinted(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeState(g, oneResource)
	run := onFile(t, r)
	g.Expect(run.session.WriteState([]byte(oneResource))).To(Succeed())
	write(g, run, oneResource[:20])
	printState(g, run, twoResources)
	g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
	g.Expect(a.saved(g)).To(MatchJSON(twoResources))
}

func TestRescueAnnotations_keepTheBasesThatMayHaveBeenSaved(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := onFile(t, r)
	var bases strings.Builder
	for i := range 2 * maxBases {
		line := command.BaseOf([]byte(strconv.Itoa(i)))
		bases.WriteString(line + line)
	}
	annotations := r.rescue.rescueAnnotations(run, bases.String())
	state := command.UnsavedState{Bases: annotations[record.BasesAnnotation]}
	g.Expect(state.Continues([]byte("0"))).To(BeTrue())
	g.Expect(state.Continues([]byte(strconv.Itoa(2*maxBases - 1)))).To(BeTrue())
	g.Expect(state.Continues([]byte(strconv.Itoa(maxBases / 2)))).To(BeFalse())
	g.Expect(strings.Fields(state.Bases)).To(HaveLen(maxBases))
	g.Expect(r.rescue.rescueAnnotations(run, "")).NotTo(HaveKey(record.BasesAnnotation))
}

func TestRescueAfter_pushesAStateThatSecretsDoNotTake(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("POD_NAME", "capt-run")
	a, r := newAPI(t)
	pushed := filepath.Join(t.TempDir(), "pushed")
	run := scripted(t, r, `
case "$1 $2" in
"state pull") cat `+pushed+` 2>/dev/null || echo '`+emptyState+`' ;;
"state push") cat > `+pushed+` ;;
esac`)
	// A quota.
	a.refuse(http.MethodPost, "", denied)
	run.result.Phases = []terraform.PhaseTime{{Name: terraform.PhaseApplying}}
	printState(g, run, oneResource)
	saved, err := r.inTool.rescueAfter(t.Context(), run)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(saved).To(BeTrue())
	g.Expect(os.ReadFile(pushed)).To(MatchJSON(oneResource))
}

func TestStore_writesTheFirstSecretLast(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	run := onFile(t, r)
	content := make([]byte, 2<<20)
	_, err := rand.Read(content)
	g.Expect(err).NotTo(HaveOccurred())
	full := false
	a.intercept = func(method, _ string, body []byte) *metav1.Status {
		if method == http.MethodPost && full {
			return denied
		}
		full = method == http.MethodPost
		return nil
	}
	g.Expect(r.rescue.storeRescued(t.Context(), run, content, "")).NotTo(Succeed())
	name := record.RescueName(r.RunID, content)
	_, _, err = r.storage.load(t.Context(), "n", name)
	g.Expect(err).To(MatchError(ContainSubstring(string(metav1.StatusReasonNotFound))), "no run takes it for a state")

	a.intercept = nil
	g.Expect(r.rescue.storeRescued(t.Context(), run, content, "")).To(Succeed())
	stored, _, err := r.storage.load(t.Context(), "n", name)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stored).To(Equal(content))
}

func TestRescueAfter_doesNothingIfTheStateIsSaved(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	*r.workdir = command.Workdir{Dir: t.TempDir()}
	g.Expect(os.MkdirAll(filepath.Join(r.workdir.Dir, "module"), 0o700)).To(Succeed())
	saved, err := r.inTool.rescueAfter(t.Context(), newExecution())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(saved).To(BeFalse())
	g.Expect(a.requests).To(BeEmpty())
}

func TestSavedState_createsTheSecret(t *testing.T) {
	for name, delete := range map[string]bool{"of a new workspace": false, "that a user deleted during the run": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			run := onFile(t, r)
			if delete {
				a.storeState(g, oneResource)
			}
			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
			if delete {
				a.mu.Lock()
				clear(a.objects)
				a.mu.Unlock()
			}
			write(g, run, twoResources)
			g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(Succeed())
			g.Expect(a.saved(g)).To(Equal(twoResources))
		})
	}
}

func TestSnapshot_isNotThatOfAnEarlierWorkspace(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	old := onFile(t, r)
	a.storeState(g, oneResource)
	g.Expect(r.inSecret.openState(t.Context(), old)).To(Succeed())
	g.Expect(r.storage.snapshot(t.Context(), old)).To(Succeed())
	a.storeState(g, twoResources)
	run := onFile(t, r)
	g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
	g.Expect(r.storage.snapshot(t.Context(), run)).To(Succeed())
	content, _, err := r.storage.load(t.Context(), "n", record.ChunkedName(run.result.Snapshot))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(twoResources))
}

// TestOpenState_leftOfADeletedWorkspace starts the first run of a workspace in a
// directory that a deleted workspace of the same name left on this machine.
func TestOpenState_leftOfADeletedWorkspace(t *testing.T) {
	for name, tc := range map[string]struct {
		uid      string
		known    terraform.KnownState
		retained bool
		want     string
	}{
		"a new workspace":                        {uid: "another"},
		"a new workspace that lost a run":        {uid: "another", known: terraform.KnownState{Unconfirmed: true}},
		"the first run of the workspace lost it": {uid: "u", known: terraform.KnownState{Unconfirmed: true}, want: twoResources},
		"the record of the first run is lost":    {uid: "u", want: twoResources},
		"its resources were retained":            {uid: "another", retained: true, want: twoResources},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			old := onFile(t, r)
			g.Expect(r.inSecret.openState(t.Context(), old)).To(Succeed())
			write(g, old, twoResources)
			if tc.retained {
				g.Expect(r.workdir.Release("u")).To(Succeed())
			}

			run := newExecution()
			run.request.State = tc.known
			run.request.Workspace.UID = tc.uid
			run.session = reopened(t, r.workdir)
			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
			if tc.want != "" {
				g.Expect(a.saved(g)).To(Equal(tc.want))
				return
			}
			g.Expect(a.objects).NotTo(HaveKey(secretsPath + "/" + request().Backend.StateSecretName()))
			content, first, err := r.storage.load(t.Context(), "n", run.result.Rescued)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content)).To(Equal(twoResources), "it is kept for the user")
			g.Expect(first.Annotations).To(HaveKeyWithValue(record.WorkspaceUIDAnnotation, "u"), "of the workspace that left it")
		})
	}
}

// TestOpenState_carriesAStateThatIsTooLarge destroys resources whose state exceeds the
// limit of a Secret.
func TestOpenState_carriesAStateThatIsTooLarge(t *testing.T) {
	for _, where := range []string{"file", "Secret"} {
		t.Run(where, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			a.storeState(g, oneResource)
			run := onFile(t, r)
			run.request.State.StateInfo = terraform.StateInfo{Lineage: "l", Serial: 7, Resources: 1}
			if where == "file" {
				g.Expect(run.session.WriteState([]byte(oneResource))).To(Succeed())
				write(g, run, twoResources)
			} else {
				name := record.RescueName("hello-r1", []byte(twoResources))
				g.Expect(r.storage.store(t.Context(), run, name, record.ComponentRescue, []byte(twoResources), nil)).To(Succeed())
				a.storeRun(g, r.RunID)
				run.request.Rescued = []string{name}
			}
			a.refuse(http.MethodPatch, request().Backend.StateSecretName(), entityTooLarge)

			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())

			g.Expect(os.ReadFile(run.session.StateFile())).To(BeEquivalentTo(twoResources))
			g.Expect(run.result.State.Serial).To(BeEquivalentTo(8))
			g.Expect(run.result.Saved).To(BeEmpty())
			a.intercept = nil
			const destroyed = `{"version":4,"serial":9,"lineage":"l","resources":[]}`
			write(g, run, destroyed)
			g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(Succeed())
			g.Expect(a.saved(g)).To(Equal(destroyed))
			g.Expect(run.result.Saved).To(HaveLen(1), "the copy is not needed any more")
		})
	}
}

func TestOpenState_restoresOverAnUnreadableState(t *testing.T) {
	for name, data := range map[string][]byte{"not compressed": []byte("x"), "not a state": nil} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			if data == nil {
				var err error
				data, err = record.Compress([]byte("PK not a state"))
				g.Expect(err).NotTo(HaveOccurred())
			}
			a.store(g, secretsPath, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: request().Backend.StateSecretName()}, Data: map[string][]byte{stateKey: data},
			})
			run := onFile(t, r)
			g.Expect(r.inSecret.openState(t.Context(), run)).To(MatchError(ContainSubstring("captctl state restore")), "only a restore or a push replaces it")
			run.request.Operation, run.request.StateCommand = terraform.OperationStateCommand, &terraform.StateCommand{Command: terraform.StatePush}
			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
			run.request.Operation, run.request.StateCommand = terraform.OperationRestoreState, nil
			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
			g.Expect(run.result.Rescued).NotTo(BeEmpty())
			g.Expect(run.replaceState(t.Context(), []byte(oneResource))).To(Succeed())
			g.Expect(a.saved(g)).To(Equal(oneResource))
		})
	}
}

func TestCloseState_savesTheLatestCompleteState(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	write(g, run, twoResources)
	a.refuse(http.MethodPatch, "", unavailable)
	g.Expect(run.state.sync(t.Context())).NotTo(Succeed())
	// The tool is killed while it writes the next state.
	write(g, run, twoResources[:20])
	a.intercept = nil
	g.Expect(r.inSecret.closeState(t.Context(), run, nil)).To(Succeed())
	g.Expect(a.saved(g)).To(Equal(twoResources))
}

func TestSave_restoresTheLabels(t *testing.T) {
	g := NewWithT(t)
	a, _, run := opened(t, oneResource)
	g.Expect(run.state.save(t.Context(), []byte(twoResources))).To(Succeed())
	g.Expect(a.secret(g, request().Backend.StateSecretName()).Labels).To(HaveKey("clusterctl.cluster.x-k8s.io/move"))
}

// TestSavedState_remembersOneCopy fails to save one state many times. The memory of a
// pod is limited.
func TestSavedState_remembersOneCopy(t *testing.T) {
	g := NewWithT(t)
	a, _, run := opened(t, oneResource)
	a.refuse(http.MethodPatch, "", unavailable)
	write(g, run, twoResources)
	for range 100 {
		g.Expect(run.state.sync(t.Context())).NotTo(Succeed())
	}
	g.Expect(run.state.sent).To(HaveLen(1))
}

// TestOpenState_rescuedOfADeletedWorkspace finds the rescued state of a deleted
// workspace of the same name.
func TestOpenState_rescuedOfADeletedWorkspace(t *testing.T) {
	for name, tc := range map[string]struct {
		known   terraform.KnownState
		uid     string
		adopted bool
	}{
		"a new workspace":                         {},
		"another lineage":                         {known: terraform.KnownState{StateInfo: terraform.StateInfo{Lineage: "x"}}},
		"the lineage of the workspace":            {known: terraform.KnownState{StateInfo: terraform.StateInfo{Lineage: "l"}}, uid: "moved", adopted: true},
		"a first run that was lost":               {known: terraform.KnownState{Unconfirmed: true}, uid: request().Workspace.UID, adopted: true},
		"a first run that was lost, of a new one": {known: terraform.KnownState{Unconfirmed: true}, uid: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			run := onFile(t, r)
			rescued := record.RescueName("hello-r1", []byte(twoResources))
			annotations := map[string]string{record.WorkspaceUIDAnnotation: tc.uid}
			g.Expect(r.storage.store(t.Context(), run, rescued, record.ComponentRescue, []byte(twoResources), annotations)).To(Succeed())
			run.request.Rescued, run.request.State = []string{rescued}, tc.known
			a.storeRun(g, r.RunID)
			g.Expect(r.inSecret.openState(t.Context(), run)).To(Succeed())
			if tc.adopted {
				g.Expect(a.saved(g)).To(Equal(twoResources))
				g.Expect(run.result.Saved).To(ConsistOf(rescued))
				return
			}
			g.Expect(run.result.Saved).To(BeEmpty(), "it stays for the user")
			g.Expect(run.result.NotMerged).To(Equal(map[string]int{rescued: 2}))
			g.Expect(run.session.StateFile()).NotTo(BeAnExistingFile())
		})
	}
}

// TestCloseState_isNotDoneWithACarriedState applies a change that leaves the state too
// large.
func TestCloseState_isNotDoneWithACarriedState(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	a.refuse(http.MethodPatch, request().Backend.StateSecretName(), entityTooLarge)
	g.Expect(os.WriteFile(filepath.Join(run.session.Root, "errored.tfstate"), []byte(twoResources), 0o600)).To(Succeed())
	err := r.inSecret.closeState(t.Context(), run, nil)
	g.Expect(err).To(MatchError(ContainSubstring("State too large")))
	g.Expect(run.result.StateTooLarge).To(BeTrue())
	g.Expect(run.result.Rescued).NotTo(BeEmpty())
}
