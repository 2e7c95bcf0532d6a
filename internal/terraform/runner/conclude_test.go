package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

var (
	secrets        = schema.GroupResource{Resource: "secrets"}
	forbidden      = apierrors.NewForbidden(secrets, "x", errors.New("no permission"))
	invalid        = apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x", nil)
	notFound       = apierrors.NewNotFound(secrets, "x")
	conflict       = apierrors.NewConflict(secrets, "x", errors.New("changed"))
	errUnreachable = errors.New("connection refused")
)

func request() *terraform.Request {
	return &terraform.Request{
		RunID: "hello-r2", Operation: terraform.OperationPlanAndApply,
		Workspace: terraform.WorkspaceRef{Namespace: "n", Name: "hello", UID: "u"},
		Backend:   terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "n", SecretSuffix: "hello-ws"},
		Env:       map[string]string{"TOKEN": "s3cr3t-token"}, SecretEnv: []string{"TOKEN"},
	}
}

func newExecution() *execution {
	return &execution{request: request(), result: &terraform.Result{RunID: "hello-r2"}, report: newReport()}
}

// A run that waits observes no events, so nothing else would show what it waits for.
func TestPrintf_isReportedWithoutProgress(t *testing.T) {
	g := NewWithT(t)
	run := newExecution()
	run.printf("The state could not be saved")
	_, changed := run.report.take()
	g.Expect(changed).To(BeTrue())
	_, changed = run.report.take()
	g.Expect(changed).To(BeFalse())
}

func TestConclude(t *testing.T) {
	failure := func(change func(*command.Failure)) error {
		f := &command.Failure{Command: "apply", ExitCode: 1, Class: terraform.ClassTransient, Diagnostics: diagnostic("Throttled", "slow down")}
		change(f)
		return f
	}
	lock := terraform.LockInfo{ID: "l", Who: "ada@laptop", Created: "2026-01-01T00:00:00Z"}
	tests := []struct {
		name    string
		err     error
		outcome terraform.Outcome
		class   terraform.Class
		message string
		check   func(g Gomega, result *terraform.Result)
	}{
		{name: "a lock with another holder", err: fmt.Errorf("locking: %w", &heldError{info: lock}), outcome: terraform.OutcomeFailed, class: terraform.ClassLockHeld, message: "State locked: the state is locked by ada@laptop since 2026-01-01T00:00:00Z (lock l)", check: func(g Gomega, result *terraform.Result) {
			g.Expect(*result.Lock).To(Equal(lock))
		}},
		{name: "a failed command", err: failure(func(*command.Failure) {}), outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, message: "Throttled: slow down"},
		{name: "a terminal failure", err: failure(func(f *command.Failure) { f.Class = terraform.ClassTerminal }), outcome: terraform.OutcomeFailed, class: terraform.ClassTerminal, message: "Throttled"},
		{name: "a failure because of a lock", err: failure(func(f *command.Failure) { f.Class, f.Lock = terraform.ClassLockHeld, &lock }), outcome: terraform.OutcomeFailed, class: terraform.ClassLockHeld, check: func(g Gomega, result *terraform.Result) {
			g.Expect(*result.Lock).To(Equal(lock))
		}},
		{name: "a failure because of a stale plan", err: failure(func(f *command.Failure) { f.StalePlan = true }), outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, check: func(g Gomega, result *terraform.Result) {
			g.Expect(result.StalePlan).To(BeTrue())
		}},
		{name: "a failure because of a too large state", err: failure(func(f *command.Failure) { f.StateTooLarge = true }), outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, check: func(g Gomega, result *terraform.Result) {
			g.Expect(result.StateTooLarge).To(BeTrue())
		}},
		{name: "a failure because of an interruption", err: failure(func(f *command.Failure) { f.Interrupted = true }), outcome: terraform.OutcomeInterrupted, class: terraform.ClassTransient},
		{name: "a failure because of a timeout", err: failure(func(f *command.Failure) { f.Interrupted, f.TimedOut = true, true }), outcome: terraform.OutcomeTimedOut, class: terraform.ClassTransient},
		{name: "a failure whose state could not be stored", err: errors.Join(failure(func(f *command.Failure) { f.Class = terraform.ClassTerminal }), errUnreachable), outcome: terraform.OutcomeFailed, class: terraform.ClassTerminal, message: "Throttled"},
		{name: "a permanent error", err: wrap("saving the state", &permanentError{failure(func(f *command.Failure) { f.StateTooLarge = true })}), outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, check: func(g Gomega, result *terraform.Result) {
			g.Expect(result.StateTooLarge).To(BeTrue())
		}},
		{name: "a terminal error", err: terminal("Invalid request", errors.New("runID is empty")), outcome: terraform.OutcomeFailed, class: terraform.ClassTerminal, message: "Invalid request: runID is empty"},
		{name: "a wrapped terminal error", err: fmt.Errorf("doing: %w", terminal("Wrong plan", errors.New("another"))), outcome: terraform.OutcomeFailed, class: terraform.ClassTerminal, message: "Wrong plan: another"},
		{name: "a state that was saved late", err: errSavedLate, outcome: terraform.OutcomeInterrupted, class: terraform.ClassTransient, message: "State saved late"},
		{name: "a timeout", err: wrap("reading the lock", context.DeadlineExceeded), outcome: terraform.OutcomeTimedOut, class: terraform.ClassTransient},
		{name: "a timeout of the API server", err: apierrors.NewTimeoutError("slow", 1), outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, message: "slow"},
		{name: "an interruption", err: wrap("reading the lock", context.Canceled), outcome: terraform.OutcomeInterrupted, class: terraform.ClassTransient},
		{name: "missing permissions", err: wrap("reading the state", forbidden), outcome: terraform.OutcomeFailed, class: terraform.ClassTerminal, message: "Not allowed: reading the state"},
		{name: "anything else", err: errUnreachable, outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, message: "The run failed: connection refused"},
		{name: "an error with a secret", err: errors.New("cannot use s3cr3t-token"), outcome: terraform.OutcomeFailed, class: terraform.ClassTransient, message: "cannot use (sensitive value)"},
		{name: "a terminal error with a secret", err: terminal("s3cr3t-token", errors.New("is s3cr3t-token")), outcome: terraform.OutcomeFailed, class: terraform.ClassTerminal, message: "(sensitive value): is (sensitive value)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			run := newExecution()
			run.result.Outcome = terraform.OutcomeSucceeded
			run.conclude(tt.err)
			g.Expect(run.result.Outcome).To(Equal(tt.outcome))
			g.Expect(run.result.Class).To(Equal(tt.class))
			if tt.message != "" {
				g.Expect(run.result.Diagnostics.Short()).To(ContainSubstring(tt.message))
			}
			g.Expect(run.result.Diagnostics.Short()).NotTo(ContainSubstring("s3cr3t"))
			if tt.check != nil {
				tt.check(g, run.result)
			}
		})
	}
}

func TestConclude_keepsASuccess(t *testing.T) {
	g := NewWithT(t)
	run := newExecution()
	run.result.Outcome, run.result.Diagnostics = terraform.OutcomeSucceeded, terraform.Diagnostics{{Severity: terraform.SeverityWarning, Summary: "Deprecated"}}
	run.conclude(nil)
	g.Expect(run.result.Outcome).To(Equal(terraform.OutcomeSucceeded))
	g.Expect(run.result.Class).To(BeEmpty())
	g.Expect(run.result.Diagnostics).To(HaveLen(1))
}

func TestConclude_keepsPreviousFindings(t *testing.T) {
	g := NewWithT(t)
	run := newExecution()
	run.result.StateTooLarge = true
	run.result.Diagnostics = terraform.Diagnostics{{Severity: terraform.SeverityWarning, Summary: "Deprecated"}}
	run.conclude(&command.Failure{Class: terraform.ClassTransient, Diagnostics: diagnostic("no", "")})
	g.Expect(run.result.StateTooLarge).To(BeTrue())
	g.Expect(run.result.Diagnostics).To(HaveLen(2), "the plan's warnings are kept")
	g.Expect(run.result.Diagnostics[0].Summary).To(Equal("no"))
}

func TestPersist_retriesUntilItSucceeds(t *testing.T) {
	for _, err := range []error{errUnreachable, conflict, apierrors.NewInternalError(errUnreachable), apierrors.NewTooManyRequests("slow", 1), apierrors.NewUnauthorized("later"), context.DeadlineExceeded} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				started, attempts := time.Now(), 0
				g.Expect(persist(t.Context(), "writing", func(context.Context) error {
					if attempts++; attempts < 12 {
						return err
					}
					return nil
				})).To(Succeed())
				g.Expect(attempts).To(Equal(12))
				g.Expect(time.Since(started)).To(And(BeNumerically(">", 20*time.Second), BeNumerically("<", 2*time.Minute)), "retries back off, but not too long")
			})
		})
	}
}

func TestPersist_doesNotRetryPermanentErrors(t *testing.T) {
	for _, err := range []error{forbidden, invalid, notFound, apierrors.NewRequestEntityTooLargeError("1 MiB"), &permanentError{errUnreachable}, fmt.Errorf("wrapped: %w", forbidden)} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			started, attempts := time.Now(), 0
			got := persist(t.Context(), "writing", func(context.Context) error { attempts++; return err })
			g.Expect(got).To(MatchError(err))
			g.Expect(got.Error()).To(HavePrefix("writing: "))
			g.Expect(attempts).To(Equal(1))
			g.Expect(time.Since(started)).To(BeZero())
		})
	}
}

func TestPersist_continuesAfterCancellationUntilItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		started, attempts := time.Now(), 0
		err := persist(ctx, "saving the state", func(ctx context.Context) error {
			attempts++
			deadline, bounded := ctx.Deadline()
			g.Expect(ctx.Err()).NotTo(HaveOccurred(), "the cancellation of the run has no effect")
			g.Expect(bounded).To(BeTrue())
			g.Expect(time.Until(deadline)).To(BeNumerically("<=", 30*time.Second), "the time of one attempt is limited")
			return errUnreachable
		})
		g.Expect(err).To(MatchError(errUnreachable))
		g.Expect(err).NotTo(MatchError(context.DeadlineExceeded), "it is not the timeout of the run")
		g.Expect(time.Since(started)).To(BeNumerically("~", persistTimeout, 10*time.Second))
		g.Expect(attempts).To(BeNumerically(">", 100))
	})
}

func TestKube_returnsTypedErrors(t *testing.T) {
	tests := []struct {
		reason metav1.StatusReason
		code   int32
		is     func(error) bool
	}{
		{metav1.StatusReasonForbidden, http.StatusForbidden, apierrors.IsForbidden},
		{metav1.StatusReasonInvalid, http.StatusUnprocessableEntity, apierrors.IsInvalid},
		{metav1.StatusReasonRequestEntityTooLarge, http.StatusRequestEntityTooLarge, apierrors.IsRequestEntityTooLargeError},
		{metav1.StatusReasonConflict, http.StatusConflict, apierrors.IsConflict},
		{metav1.StatusReasonNotFound, http.StatusNotFound, apierrors.IsNotFound},
	}
	for _, tt := range tests {
		t.Run(string(tt.reason), func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			a.refuse("", "", status(tt.code, tt.reason))
			_, err := r.kube.secret(t.Context(), "n", "x")
			g.Expect(tt.is(err)).To(BeTrue(), "%v", err)
		})
	}
	t.Run("an error of a proxy", func(t *testing.T) {
		g := NewWithT(t)
		a, r := newAPI(t)
		a.intercept = func(string, string, []byte) *metav1.Status {
			return &metav1.Status{Code: http.StatusBadGateway, Message: "s3cr3t"}
		}
		_, err := r.kube.secret(t.Context(), "n", "x")
		g.Expect(err).To(MatchError("the API server returned 502 Bad Gateway"))
	})
}
