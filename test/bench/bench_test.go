package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

func TestMeasure_keepsWhatWasMeasuredIfAPartFails(t *testing.T) {
	g := NewWithT(t)
	out := filepath.Join(t.TempDir(), "out", "bench.json")
	written := func() map[string]any {
		text, err := os.ReadFile(out)
		g.Expect(err).NotTo(HaveOccurred())
		var content map[string]any
		g.Expect(json.Unmarshal(text, &content)).To(Succeed())
		return content
	}
	parts := []measurement{
		{"job", func(_ context.Context, r *report) error { r.Job = &jobReport{Ratio: 1.2}; return nil }},
		{"engine", func(context.Context, *report) error {
			g.Expect(written()).To(HaveKeyWithValue("job", HaveKeyWithValue("ratio", 1.2)), "written before the next part")
			return errors.New("no API server")
		}},
		{"engineAWS", func(_ context.Context, r *report) error {
			r.EngineAWS = &engineReport{Skipped: "no Python"}
			return nil
		}},
	}
	g.Expect(measure(t.Context(), out, "all", &report{}, parts)).To(MatchError("measuring engine: no API server"))
	g.Expect(written()).To(And(
		HaveKeyWithValue("job", HaveKeyWithValue("ratio", 1.2)),
		HaveKeyWithValue("failed", Equal(map[string]any{"engine": "measuring engine: no API server"})),
		HaveKeyWithValue("engineAWS", Equal(map[string]any{"skipped": "no Python"})),
		Not(HaveKey("engine")),
	))
	g.Expect(measure(t.Context(), out, "engineAWS", &report{}, parts)).To(Succeed())
	g.Expect(written()).To(And(HaveKey("engineAWS"), Not(HaveKey("job"))))
	g.Expect(measure(t.Context(), out, "jobs", &report{}, parts)).To(MatchError(`unknown part "jobs": use all, job, engine, engineAWS`))
}

func TestWaitReady_endsWithAFailedRun(t *testing.T) {
	g := NewWithT(t)
	events := watch.NewFake()
	h := &harness{client: interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.New()).Build(), interceptor.Funcs{
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			return events, nil
		},
	})}
	failed := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "w0"}}
	failed.Status.Failure = &infrav1.FailureStatus{Reason: "ApplyFailed", Message: "no image", Attempts: 1}
	go events.Add(failed)
	g.Expect(h.waitReady(t.Context(), "bench", 1)).To(MatchError("a run of w0 failed: ApplyFailed: no image"))
}

func TestToolsByRun_separatesConcurrentRuns(t *testing.T) {
	g := NewWithT(t)
	processes := map[int]process{
		1: {0, "init"},
		// A manager with two runs.
		10: {1, "bench"}, 11: {10, "manager"},
		20: {11, "runner"}, 21: {20, "tofu"}, 22: {21, "terraform-provi"},
		30: {11, "runner"}, 31: {30, "sh"}, 32: {31, "tofu"},
		// The plain tool.
		40: {10, "tofu"}, 41: {40, "terraform-provi"},
		// A container, and one of another environment.
		50: {1, "containerd-shim"}, 51: {50, "runner"}, 52: {51, "tofu"},
		60: {1, "containerd-shim"}, 61: {60, "runner"},
		// Tools that others have started, or whose parent has ended.
		70: {1, "tofu"}, 80: {79, "tofu"},
	}
	runs := toolsByRun(processes, func(pid int) bool { return pid == 10 || pid == 50 })
	for _, run := range runs {
		slices.Sort(run)
	}
	g.Expect(runs).To(ConsistOf([]int{20, 21, 22}, []int{30, 32}, []int{40, 41}, []int{51, 52}))
}
