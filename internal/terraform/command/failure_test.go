package command

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestNewFailure(t *testing.T) {
	diagnostics := func(summaries ...string) terraform.Diagnostics {
		var ds terraform.Diagnostics
		for _, summary := range summaries {
			ds = append(ds, terraform.Diagnostic{Severity: terraform.SeverityError, Summary: summary})
		}
		return ds
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, stop := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer stop()
	tests := []struct {
		name        string
		ctx         context.Context
		ended       exit
		diagnostics terraform.Diagnostics
		want        Failure
		outcome     terraform.Outcome
		message     string
	}{
		{
			name: "a diagnostic", ended: exit{code: 1}, diagnostics: diagnostics("AccessDenied"),
			want: Failure{ExitCode: 1, Class: terraform.ClassTerminal}, outcome: terraform.OutcomeFailed, message: "plan failed: AccessDenied",
		},
		{
			name: "no diagnostic", ended: exit{code: 7},
			want: Failure{ExitCode: 7, Class: terraform.ClassTransient}, outcome: terraform.OutcomeFailed, message: "plan failed: exit status 7",
		},
		{
			name: "interrupted", ctx: cancelled, ended: exit{code: 1, interrupted: true}, diagnostics: diagnostics("AccessDenied"),
			want: Failure{ExitCode: 1, Class: terraform.ClassTransient, Interrupted: true}, outcome: terraform.OutcomeInterrupted, message: "plan failed: AccessDenied",
		},
		{
			name: "interrupted without a diagnostic", ctx: cancelled, ended: exit{code: -1, interrupted: true},
			want: Failure{ExitCode: -1, Class: terraform.ClassTransient, Interrupted: true}, outcome: terraform.OutcomeInterrupted, message: "plan failed: interrupted",
		},
		{
			name: "killed", ctx: cancelled, ended: exit{code: -1, interrupted: true, killed: true}, diagnostics: diagnostics("x"),
			want: Failure{ExitCode: -1, Class: terraform.ClassTransient, Interrupted: true, Killed: true}, outcome: terraform.OutcomeInterrupted, message: "plan failed: killed after its grace period\nx",
		},
		{
			name: "timed out", ctx: expired, ended: exit{code: 1, interrupted: true},
			want: Failure{ExitCode: 1, Class: terraform.ClassTransient, Interrupted: true, TimedOut: true}, outcome: terraform.OutcomeTimedOut, message: "plan failed: interrupted",
		},
		{
			name: "failed at the deadline", ctx: expired, ended: exit{code: 1},
			want: Failure{ExitCode: 1, Class: terraform.ClassTransient}, outcome: terraform.OutcomeFailed, message: "plan failed: exit status 1",
		},
		{
			name: "a stale plan", ended: exit{code: 1}, diagnostics: diagnostics("Saved plan is stale"),
			want: Failure{ExitCode: 1, Class: terraform.ClassTerminal, StalePlan: true}, outcome: terraform.OutcomeFailed, message: "plan failed: Saved plan is stale",
		},
		{
			name: "a state that is too large", ended: exit{code: 1}, diagnostics: diagnostics("etcdserver: request is too large"),
			want: Failure{ExitCode: 1, Class: terraform.ClassTerminal, StateTooLarge: true}, outcome: terraform.OutcomeFailed, message: "plan failed: etcdserver: request is too large",
		},
		{
			name: "missing providers", ended: exit{code: 1}, diagnostics: diagnostics("Required plugins are not installed"),
			want: Failure{ExitCode: 1, Class: terraform.ClassTransient, needsInit: true}, outcome: terraform.OutcomeFailed, message: "plan failed: Required plugins are not installed",
		},
		{
			name: "another backend", ended: exit{code: 1}, diagnostics: diagnostics("Backend initialization required"),
			want: Failure{ExitCode: 1, Class: terraform.ClassTransient, needsInit: true, needsBackend: true}, outcome: terraform.OutcomeFailed, message: "plan failed: Backend initialization required",
		},
		{
			name: "a held lock", ended: exit{code: 1}, diagnostics: diagnostics("Error acquiring the state lock\nLock Info:\n  ID: l\n  Who: w"),
			want: Failure{ExitCode: 1, Class: terraform.ClassLockHeld, Lock: &terraform.LockInfo{ID: "l", Who: "w"}}, outcome: terraform.OutcomeFailed, message: "plan failed: Error acquiring the state lock Lock Info: ID: l Who: w",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			ctx := tt.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			failure := newFailure(ctx, "plan", tt.ended, tt.diagnostics)
			g.Expect(failure.Outcome()).To(Equal(tt.outcome))
			g.Expect(failure).To(MatchError(tt.message))
			tt.want.Command, tt.want.Diagnostics = "plan", tt.diagnostics
			g.Expect(*failure).To(Equal(tt.want))
		})
	}
}

func TestNewFailure_dropsAPreamble(t *testing.T) {
	g := NewWithT(t)
	preamble := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: "OpenTofu encountered problems during initialisation"}
	cause := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: "AccessDenied"}
	g.Expect(newFailure(t.Context(), "init", exit{code: 1}, terraform.Diagnostics{preamble, cause}).Diagnostics).To(Equal(terraform.Diagnostics{cause}))
	g.Expect(newFailure(t.Context(), "init", exit{code: 1}, terraform.Diagnostics{preamble}).Diagnostics).To(Equal(terraform.Diagnostics{preamble}))
}

func TestReady_initialisesOnce(t *testing.T) {
	outdated := &Failure{needsInit: true}
	interrupted := &Failure{needsInit: true, Interrupted: true}
	for name, tc := range map[string]struct {
		results  []error
		reinit   error
		attempts int
		initRan  bool
		err      error
	}{
		"success":                {results: []error{nil}, attempts: 1},
		"outdated":               {results: []error{outdated, nil}, attempts: 2, initRan: true},
		"outdated after an init": {results: []error{outdated, outdated}, attempts: 2, initRan: true, err: outdated},
		"interrupted":            {results: []error{interrupted}, attempts: 1, err: interrupted},
		"another failure":        {results: []error{&Failure{}}, attempts: 1, err: &Failure{}},
		"another error":          {results: []error{context.Canceled}, attempts: 1, err: context.Canceled},
		"the init fails":         {results: []error{outdated}, reinit: errors.New("no"), attempts: 1, err: errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &Session{executor: executor{log: newRunLog(nil, (&terraform.Request{}).Redactor())}}
			s.reinit = func(context.Context, bool) error { return tc.reinit }
			attempts := 0
			err := s.ready(t.Context(), func() error { attempts++; return tc.results[attempts-1] })
			g.Expect(attempts).To(Equal(tc.attempts))
			g.Expect(s.initRan).To(Equal(tc.initRan))
			if tc.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(Equal(tc.err))
			}
		})
	}
}

func TestLockArgs(t *testing.T) {
	for name, tc := range map[string]struct{ backend, want string }{
		"the engine locks a Kubernetes state": {terraform.BackendKubernetes, "-lock=false"},
		"another backend":                     {"s3", "-lock-timeout=0s"},
		"a local state":                       {"", "-lock-timeout=0s"},
	} {
		s := &Session{backend: terraform.Backend{Type: tc.backend}}
		NewWithT(t).Expect(s.lockArgs()).To(Equal([]string{tc.want}), name)
	}
}

func TestRelevantLines(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"\n\n":                                 "",
		"one\ntwo":                             "one\ntwo",
		"1\n2\n\n3\n4\n":                       "2\n3\n4",
		"1\npanic: boom\n\ngoroutine 1\n2\n3":  "panic: boom",
		"fatal error: out of memory\n1\n2\n3":  "fatal error: out of memory",
		"1\n2\n3\nnot a panic: or fatal error": "2\n3\nnot a panic: or fatal error",
	} {
		NewWithT(t).Expect(relevantLines(text)).To(Equal(want), text)
	}
}

func TestFailure_LockLeft(t *testing.T) {
	diagnostics := func(summary string) terraform.Diagnostics {
		return terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: summary}}
	}
	for name, tt := range map[string]struct {
		failure Failure
		want    bool
	}{
		"an ordinary failure":         {Failure{ExitCode: 1, Diagnostics: diagnostics("Invalid value")}, false},
		"it was killed in time":       {Failure{Killed: true, ExitCode: -1}, true},
		"the memory was used up":      {Failure{ExitCode: -1}, true},
		"the backend was unavailable": {Failure{ExitCode: 1, Diagnostics: diagnostics("Error releasing the state lock")}, true},
	} {
		NewWithT(t).Expect(tt.failure.LockLeft()).To(Equal(tt.want), name)
	}
}
