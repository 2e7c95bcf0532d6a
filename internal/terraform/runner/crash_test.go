package runner

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

const threeResources = `{"version":4,"serial":9,"lineage":"l","resources":[{"mode":"managed","type":"t","name":"a","instances":[{},{},{}]}]}`

func TestSavedState_continuesAfterALostResponse(t *testing.T) {
	g := NewWithT(t)
	a, r, run := opened(t, oneResource)
	once := true
	a.intercept = func(method, path string, body []byte) *metav1.Status {
		if method == http.MethodPatch && strings.Contains(path, "tfstate") && once {
			once = false
			var sent map[string]any
			_ = json.Unmarshal(body, &sent)
			a.serve(method, path, sent)
			return status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
		}
		return nil
	}
	write(g, run, twoResources)
	_ = run.state.sync(t.Context())
	g.Expect(a.saved(g)).To(Equal(twoResources))
	write(g, run, threeResources)
	err := r.inSecret.closeState(t.Context(), run, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.saved(g)).To(Equal(threeResources))
}

func TestOpenState_savesARescuedState(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeState(g, oneResource)
	run := onFile(t, r)
	g.Expect(r.rescue.storeRescued(t.Context(), run, []byte(twoResources), "")).To(Succeed())
	next := onFile(t, r)
	next.request.Rescued = []string{run.result.Rescued}
	a.storeRun(g, r.RunID)
	g.Expect(r.inSecret.openState(t.Context(), next)).To(Succeed())
	g.Expect(a.saved(g)).To(Equal(twoResources))
	g.Expect(record.Saved(a.secret(g, record.SecretName(r.RunID)))).To(ConsistOf(run.result.Rescued), "also if the run is lost later")
}

// The run that saved it was killed before it could report that.
func TestOpenState_recordsARescuedStateThatIsSavedAlready(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeState(g, twoResources)
	a.storeRun(g, r.RunID)
	run := onFile(t, r)
	g.Expect(r.rescue.storeRescued(t.Context(), run, []byte(twoResources), "")).To(Succeed())
	g.Expect(r.rescue.storeRescued(t.Context(), run, []byte(oneResource), "")).To(Succeed())
	next := onFile(t, r)
	same, outdated := record.RescueName(r.RunID, []byte(twoResources)), record.RescueName(r.RunID, []byte(oneResource))
	next.request.Rescued = []string{same, outdated}
	g.Expect(r.inSecret.openState(t.Context(), next)).To(Succeed())
	g.Expect(record.Saved(a.secret(g, record.SecretName(r.RunID)))).To(ConsistOf(same), "nothing shows that the other one was saved")
}

func scripted(t *testing.T, r *Runner, script string) *execution {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "tofu")
	g.Expect(os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700)).To(Succeed())
	run := newExecution()
	run.request.Backend = terraform.Backend{Type: "http", HCL: "address = \"http://x\""}
	run.request.Module = terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: ""}
	run.request.Grace = time.Second
	*r.workdir = command.Workdir{Tool: &binary.Tool{Path: path}, Dir: filepath.Join(t.TempDir(), "work")}
	var err error
	run.session, err = command.Prepare(t.Context(), r.workdir, run.request)
	g.Expect(err).NotTo(HaveOccurred())
	return run
}

func TestRescueAfter_reportsOnlyPushedStatesAsSaved(t *testing.T) {
	for name, errored := range map[string]string{
		"encrypted":           encryptedState,
		"does not continue":   strings.Replace(threeResources, `"serial":9`, `"serial":7`, 1),
		"has another lineage": strings.Replace(threeResources, `"lineage":"l"`, `"lineage":"m"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, r := newAPI(t)
			run := scripted(t, r, `[ -e terraform.tfstate ] && exit 1; [ "$1 $2" = "state pull" ] && echo '`+twoResources+`'; exit 0`)
			run.request.State.Lineage = "l"
			g.Expect(os.WriteFile(filepath.Join(run.session.Root, "errored.tfstate"), []byte(errored), 0o600)).To(Succeed())
			_, _ = r.inTool.rescueAfter(t.Context(), run)
			g.Expect(run.result.Saved).To(BeEmpty(), "the controller deletes the Secrets of saved states")
		})
	}
}

// Two new workspaces use the same key of a backend without locks, and the other one writes last.
func TestPerformOnBackend_refusesTheStateThatReplacedItsOwn(t *testing.T) {
	foreign := string(statefile.New("m", "n/other"))
	for name, found := range map[string]string{"of another workspace": foreign, "with resources": twoResources, "none": ""} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, r := newAPI(t)
			pushed := filepath.Join(t.TempDir(), "pushed")
			run := scripted(t, r, `
case "$1 $2" in
"state pull") [ -e `+pushed+` ] && printf '%s' '`+found+`';;
"state push") cat > `+pushed+`;;
plan*) echo "a plan" >&2; exit 1;;
esac
exit 0`)
			run.request.Operation = terraform.OperationPlanAndApply

			err := r.performOnBackend(t.Context(), run)

			g.Expect(err).To(HaveOccurred())
			g.Expect(pushed).To(BeAnExistingFile())
			g.Expect(err.Error()).NotTo(ContainSubstring("a plan"), "nothing is planned")
			g.Expect(run.result.State).To(BeZero(), "later runs do not use it")
			if found != "" {
				g.Expect(run.result.StateProblem).To(Equal(terraform.StateForeign))
			}
		})
	}
}

// The same, but the other workspace writes while this one plans.
func TestSnapshot_refusesAnotherLineage(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := scripted(t, r, `[ "$1 $2" = "state pull" ] && echo '`+twoResources+`'; exit 0`)
	run.result.State = terraform.StateInfo{Lineage: "m", Serial: 1}

	g.Expect(r.storage.snapshot(t.Context(), run)).To(MatchError(ContainSubstring("is not the state of this workspace")))

	g.Expect(run.result.StateProblem).To(Equal(terraform.StateForeign))
	g.Expect(run.result.State.Lineage).To(Equal("m"))
}

// If the text of the configuration has changed, an empty backend may be another place than that
// of the state.
func TestPushRescued_startsNoSecondState(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	pushed := filepath.Join(t.TempDir(), "pushed")
	run := scripted(t, r, `[ "$1 $2" = "state push" ] && cat > `+pushed+`; exit 0`)
	run.request.State.Lineage, run.request.State.Moved = "l", true
	g.Expect(os.WriteFile(filepath.Join(run.session.Root, "errored.tfstate"), []byte(twoResources), 0o600)).To(Succeed())

	g.Expect(r.inTool.pushRescued(t.Context(), run)).To(Succeed())

	g.Expect(pushed).NotTo(BeAnExistingFile())
	g.Expect(run.result.Rescued).NotTo(BeEmpty(), "the state is kept")
}

func TestRescueAfter_pushesAnEncryptedState(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	pushed := filepath.Join(t.TempDir(), "pushed")
	run := scripted(t, r, `
case "$1 $2" in
"state pull") if [ -e terraform.tfstate ]; then echo '`+threeResources+`'; else echo '`+twoResources+`'; fi;;
"state push") cat > `+pushed+`;;
esac`)
	run.request.State.Lineage = "l"
	encrypted := strings.Replace(encryptedState, `"serial":7`, `"serial":9`, 1)
	g.Expect(os.WriteFile(filepath.Join(run.session.Root, "errored.tfstate"), []byte(encrypted), 0o600)).To(Succeed())

	saved, err := r.inTool.rescueAfter(t.Context(), run)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(saved).To(BeTrue())
	g.Expect(os.ReadFile(pushed)).To(MatchJSON(threeResources), "the tool pushes only decrypted states")
	g.Expect(run.result.Saved).To(ConsistOf(run.result.Rescued))
	left, err := filepath.Glob(filepath.Join(run.session.RunDir, "encryption-*"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty(), "no copy of the state is left")
}

func TestCloseState_failsWithoutAState(t *testing.T) {
	for name, change := range map[string]func(string) error{
		"missing": os.Remove,
		"empty":   func(p string) error { return os.Truncate(p, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, r, run := opened(t, oneResource)
			g.Expect(change(run.session.StateFile())).To(Succeed())
			run.phase(terraform.PhaseApplying, time.Now())
			run.result.Outcome = terraform.OutcomeSucceeded
			err := r.readOutputs(t.Context(), run)
			closeErr := r.inSecret.closeState(t.Context(), run, nil)
			g.Expect(err != nil || closeErr != nil).To(BeTrue(), "the applied changes are in no state")
		})
	}
}

func TestRestore_acceptsOnlyStates(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.storeState(g, oneResource)
	run := onFile(t, r)
	run.result.Plan = &terraform.PlanSummary{}
	g.Expect(r.storage.store(t.Context(), run, "plan-0123", record.ComponentPlan, []byte("PK\x03\x04 not a state"), nil)).To(Succeed())
	run.request.Operation, run.request.Snapshot = terraform.OperationRestoreState, "plan-0123"
	g.Expect(r.performOnSecret(t.Context(), run)).To(MatchError(ContainSubstring("is not a snapshot of this workspace")))
	g.Expect(a.saved(g)).To(Equal(oneResource))
}

func TestSaveAfterCrash_withoutALock(t *testing.T) {
	g := NewWithT(t)
	_, r, run := opened(t, oneResource)
	write(g, run, twoResources)
	run.state = nil
	g.Expect(r.saveAfterCrash(t.Context(), run)).To(Succeed())
	g.Expect(run.result.Rescued).NotTo(BeEmpty())
}

func TestObserveBackend_isUncertainIfAStateIsNotSaved(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := scripted(t, r, `[ "$1 $2" = "state pull" ] && echo '`+emptyState+`'; exit 0`)
	g.Expect(os.WriteFile(filepath.Join(run.session.Root, "errored.tfstate"), []byte(threeResources), 0o600)).To(Succeed())
	run.phase(terraform.PhaseApplying, time.Now())
	r.inTool.observeBackend(t.Context(), run)
	g.Expect(run.result.StateUncertain).To(BeTrue())
}

func TestSavedState_isSavedOnAFullDisk(t *testing.T) {
	g := NewWithT(t)
	a, _, run := opened(t, oneResource)
	write(g, run, twoResources)
	g.Expect(os.Remove(run.session.StateFile() + ".base")).To(Succeed())
	g.Expect(os.Mkdir(run.session.StateFile()+".base", 0o700)).To(Succeed())
	g.Expect(run.state.sync(t.Context())).To(Succeed())
	g.Expect(a.saved(g)).To(Equal(twoResources))
}

func TestSave_needsNoAccessIfNothingIsLeft(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.MkdirAll(filepath.Join(dir, "workspaces", "n", "hello", "module"), 0o700)).To(Succeed())
	// The API server does not exist, so that any request would be repeated for hours.
	config := Config{Namespace: "n", RunID: "hello-r1", WorkDir: dir, API: &rest.Config{Host: "https://127.0.0.1:1"}}
	g.Expect(Save(t.Context(), config)).To(Succeed())
}
