package workspacetemplateapply

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// hostileResult returns a result of a few KiB in a Secret which needs MiB in memory.
func hostileResult() terraform.Result {
	long := strings.Repeat("x", 256<<10)
	return terraform.Result{
		Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, InvalidInputs: long, Rescued: long, Snapshot: long, CommandOutput: long,
		StateProblem: terraform.StateProblem(long), State: terraform.StateInfo{Lineage: long}, Lock: &terraform.LockInfo{Info: long},
		Diagnostics: terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: strings.Repeat("x ", 128<<10)}},
		Drift:       make([]terraform.Change, 8_000), Violations: make([]terraform.PolicyViolation, 1_000),
		Outputs: map[string]terraform.Output{"a": {Value: json.RawMessage(`"` + long + `"`)}}, LockFile: []byte(long),
	}
}

// live returns how many bytes are in use.
func live() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A module chooses the results of its runs, of which a workspace keeps up to 100, and a
// failed run is retried. All of them are read before the next run.
func TestResults_ofAllRunsNeedLittleMemory(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	for range 10 {
		startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	}
	endRun(g, s, s.Runs[0], hostileResult())
	for _, run := range s.Runs[1:] {
		run.Secret.Data = s.Runs[0].Secret.Data
	}
	before := live()
	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	g.Expect(request.LockFile).To(HaveLen(256<<10), "the lock file of the newest run is used")
	g.Expect(s.Results()).To(HaveLen(10))
	g.Expect(s.LostRun()).To(BeNil())
	g.Expect(live()-before).To(BeNumerically("<", 1<<20), "10 digests and a lock file")
	runtime.KeepAlive(s)
	runtime.KeepAlive(request)
}

// A lock file that no runner writes would make the next request large.
func TestRequest_omitsAHugeLockFile(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeSucceeded, LockFile: []byte("small")})
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeSucceeded, LockFile: make([]byte, 1<<20)})
	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	g.Expect(string(request.LockFile)).To(Equal("small"))
}

func TestDigest_hasWhatDecisionsNeed(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	run := addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{
		Outcome: terraform.OutcomeFailed, Class: terraform.ClassLockHeld, State: terraform.StateInfo{Resources: 3}, Lock: &terraform.LockInfo{ID: "i"},
		LockLeft: true, StateProblem: terraform.StateOutdated, SnapshotMissing: true, Snapshot: "capt-s-0",
		Phases: []terraform.PhaseTime{{Name: terraform.PhasePlanning}, {Name: terraform.PhaseApplying}},
	})
	digest := run.Result()
	g.Expect(runs.MayHaveChanged(digest)).To(BeTrue())
	g.Expect(runs.LeftLock(s.Results())).To(BeTrue())
	g.Expect(s.LockingRun()).To(Equal(run))
	g.Expect(digest).To(HaveField("State.Resources", 3))
	g.Expect(digest).To(HaveField("Lock", Not(BeNil())))
	g.Expect(digest).To(HaveField("StateProblem", terraform.StateOutdated))
	g.Expect(digest).To(HaveField("Snapshot", "capt-s-0"))
	g.Expect(digest).To(HaveField("SnapshotMissing", true))
	g.Expect(digest).To(HaveField("FinishedAt", noon))
}

// largeRun returns the cached Secret of a run whose result is not in the cache, and the
// stored one.
func largeRun(g Gomega, name string, result terraform.Result) (cached, stored *corev1.Secret) {
	random := make([]byte, 100<<10)
	_, _ = rand.Read(random)
	result.Outputs = map[string]terraform.Output{"random": {Value: runs.MustJSON(random)}}
	stored = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{infrav1.ComponentLabel: record.ComponentRun}}}
	g.Expect(record.SetResult(stored, &result)).To(Succeed())
	cached = stored.DeepCopy()
	record.Trim(cached)
	g.Expect(record.HasTrimmedResult(cached)).To(BeTrue())
	return cached, stored
}

func TestReadDigests_readsLargeResultsFromTheServer(t *testing.T) {
	g := NewWithT(t)
	result := terraform.Result{Outcome: terraform.OutcomeSucceeded}
	var large []*runs.Run
	builder := fake.NewClientBuilder().WithScheme(testScheme())
	for _, id := range []string{"a-r4", "a-r3", "a-r2"} {
		if id != "a-r4" {
			result.LockFile = []byte("of " + id)
		}
		cached, stored := largeRun(g, "capt-run-"+id, result)
		large = append(large, &runs.Run{ID: id, Secret: cached})
		builder = builder.WithObjects(stored)
	}
	r := &Reconciler{Reader: builder.Build()}
	g.Expect(r.build().store.ReadDigests(t.Context(), large)).To(Succeed())
	for _, run := range large {
		g.Expect(run.Result()).To(HaveField("Outcome", terraform.OutcomeSucceeded))
		g.Expect(run.Result().Outputs).To(BeEmpty())
		g.Expect(record.HasTrimmedResult(run.Secret)).To(BeTrue(), "neither the cache nor the record has the data")
	}
	g.Expect(r.build().store.ReadLockFile(t.Context(), large)).To(Succeed())
	g.Expect(large[0].ReadLockFile()).To(BeNil())
	g.Expect(string(large[1].ReadLockFile())).To(Equal("of a-r3"))
	g.Expect(large[2].LockFile).To(BeNil(), "one lock file is kept")
	whole, err := r.build().store.Whole(t.Context(), large[1])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(whole.Outputs).To(HaveKey("random"))

	cached, _ := largeRun(g, "capt-run-a-r1", result)
	err = r.build().store.ReadDigests(t.Context(), []*runs.Run{{ID: "a-r1", Secret: cached}})
	g.Expect(err).To(MatchError(ContainSubstring("reading the result of run a-r1")))
}

// Results that the cache does not have are read from the API server. Only a new run needs the
// lock file in them.
func TestReadDigests_readsAVersionOnce(t *testing.T) {
	g := NewWithT(t)
	cached, stored := largeRun(g, "capt-run-a-r1", terraform.Result{Outcome: terraform.OutcomeSucceeded, LockFile: []byte("locked")})
	cached.UID, cached.ResourceVersion = uuid.NewUUID(), "1"
	reads := 0
	r := &Reconciler{Reader: interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(stored).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return w.Get(ctx, key, obj, opts...)
		},
	})}
	s := newScope("a")
	for range 3 {
		s.Runs = []*runs.Run{{ID: "a-r1", Number: 1, Secret: cached}}
		g.Expect(r.build().store.ReadDigests(t.Context(), s.Runs)).To(Succeed())
		g.Expect(s.Runs[0].Result()).To(HaveField("Outcome", terraform.OutcomeSucceeded))
		s.Runs[0].Result().Outcome = terraform.OutcomeFailed // Each reconcile has its own.
	}
	g.Expect(reads).To(Equal(1))
	request, err := r.build().execution.Request(t.Context(), s, decision.Decision{Operation: terraform.OperationPlan})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(request.LockFile)).To(Equal("locked"))
	g.Expect(reads).To(Equal(2))

	small := addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomeFailed, LockFile: []byte("newer")})
	g.Expect(small.Result()).NotTo(BeNil())
	request, err = r.build().execution.Request(t.Context(), s, decision.Decision{Operation: terraform.OperationPlan})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(request.LockFile)).To(Equal("newer"))
	g.Expect(reads).To(Equal(2), "a newer run has a lock file")

	changed := cached.DeepCopy()
	changed.ResourceVersion = "2"
	g.Expect(r.build().store.ReadDigests(t.Context(), []*runs.Run{{ID: "a-r1", Number: 1, Secret: changed}})).To(Succeed())
	g.Expect(reads).To(Equal(3))
}

// A text of many words would need a list of them.
func TestDecode_shortensDiagnostics(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	run := addRun(g, s, terraform.OperationPlanAndApply, hostileResult())
	g.Expect(len(run.Decode(run.Secret).Diagnostics[0].Summary)).To(BeNumerically("<=", runs.MaxText))
	run.Secret.Data["result"] = bytes.Repeat([]byte("x"), 100)
	g.Expect(run.Decode(run.Secret)).To(HaveField("Outcome", runs.OutcomeLost))
}
