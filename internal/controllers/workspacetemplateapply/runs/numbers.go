package runs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// StartInterval is how often a run is observed that has not started. There is
// no watch for what prevents a pod from starting.
const StartInterval = 10 * time.Second

// maxSkipped is how many numbers are skipped at most if a Secret has the name of a run.
const maxSkipped = 1 << 20

// SkipNumbers handles a Secret with the name of the next run. If the manager did not
// create it, others may have the names of later runs: a number that cannot be guessed is
// next.
func (r *Numbers) SkipNumbers(ctx context.Context, s *Workspace, number int64) error {
	r.Unused.Delete(s.Apply.UID)
	existing, err := r.liveNumber(ctx, s, number)
	if err != nil {
		return err
	}
	if existing == nil || RunOf(s.Key, s.Apply, existing) != nil {
		return s.StaleCache()
	}
	if err := r.TakeNumber(ctx, s, number+1+rand.Int64N(maxSkipped)); err != nil {
		return err
	}
	return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Secret %s is not a run of CAPT, so its number is skipped: delete the Secret", existing.Name)
}

// TakeNumber records the number of the next run before the run exists. A number is never
// used again: a runner may still execute a run whose record was deleted, and would report
// its result as that of the next one. The write fails if the cached workspace is not the
// current one. A run cannot be undone, so it must not start for a workspace that was
// changed or deleted.
func (r *Numbers) TakeNumber(ctx context.Context, s *Workspace, number int64) error {
	if number == s.Apply.Status.Runs {
		return r.ensureCurrent(ctx, s)
	}
	if err := r.RecordAtOnce(ctx, s, fmt.Sprintf(`{"runs":%d}`, number)); err != nil {
		return fmt.Errorf("recording the number of the run: %w", err)
	}
	s.Apply.Status.Runs = number
	return nil
}

// RememberUnused remembers the number of a run that the API server refused to create. Each
// new number is a write of the status, which would start the next attempt at once.
func (r *Numbers) RememberUnused(s *Workspace, number int64, err error) {
	refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || errors.Is(err, record.ErrRequestTooLarge)
	if refused && number == s.Apply.Status.Runs {
		r.Unused.Store(s.Apply.UID, number)
	}
}

// UnusedNumber returns the last number of the workspace if no run has it, or 0.
func (r *Numbers) UnusedNumber(s *Workspace) int64 {
	number, found := r.Unused.Load(s.Apply.UID)
	if !found || number.(int64) != s.Apply.Status.Runs || len(s.Runs) > 0 && s.Runs[0].Number >= number.(int64) {
		r.Unused.Delete(s.Apply.UID)
		return 0
	}
	return number.(int64)
}

// EnsureAlone returns a conflict if a manager that does not lead any more has created the
// run before this one in the meantime. That manager starts it only if no later number is
// taken after it was created (ensureLast), so that at most one of the two runs starts.
func (r *Numbers) EnsureAlone(ctx context.Context, s *Workspace, number int64) error {
	if number == 1 || len(s.Runs) > 0 && s.Runs[0].Number == number-1 {
		return nil
	}
	previous, err := r.liveNumber(ctx, s, number-1)
	if err == nil && previous != nil && RunOf(s.Key, s.Apply, previous) != nil {
		return s.StaleCache()
	}
	return err
}

// EnsureLast deletes a new run and returns a conflict if another manager has taken a
// later number. This manager was then suspended before it created the run, and what it
// knows is outdated.
func (r *Numbers) EnsureLast(ctx context.Context, s *Workspace, number int64, secret *corev1.Secret) error {
	live, err := r.live(ctx, s)
	if err != nil || live != nil && live.Status.Runs == number {
		return err
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})); err != nil {
		return fmt.Errorf("deleting an outdated run: %w", err)
	}
	return s.StaleCache()
}

// EnsureRunsCurrent returns a conflict if the last run, or the next one, exists and is
// not in the cache. The status may be older than a run that has just started.
func (r *Numbers) EnsureRunsCurrent(ctx context.Context, s *Workspace) error {
	if err := r.EnsureRunCurrent(ctx, s, s.NextNumber()-1); err != nil {
		return err
	}
	return r.EnsureRunCurrent(ctx, s, s.NextNumber())
}

// EnsureRunCurrent returns a conflict if the run of a number exists and is not in the cache.
func (r *Numbers) EnsureRunCurrent(ctx context.Context, s *Workspace, number int64) error {
	if number == 0 || len(s.Runs) > 0 && s.Runs[0].Number == number {
		return nil
	}
	run, err := r.liveNumber(ctx, s, number)
	switch {
	case err != nil:
		return err
	case run == nil && number == s.Apply.Status.Runs:
		// A user has deleted it, or it was never created.
		return r.endDeleted(ctx, s, record.NewRunID(s.Apply.Name, number))
	case run == nil:
		return nil
	case RunOf(s.Key, s.Apply, run) != nil:
		return s.StaleCache()
	case number == s.Apply.Status.Runs && !record.Finished(run):
		return r.stopChanged(ctx, s, record.NewRunID(s.Apply.Name, number))
	}
	return nil
}

// endDeleted stops the last run, whose Secret was deleted. No other run starts while it is
// running: a backend whose state the tool locks is free between two commands.
func (r *Numbers) endDeleted(ctx context.Context, s *Workspace, id string) error {
	if s.IsUnlocked(id) {
		return nil
	}
	for _, runner := range r.Runners {
		ender, ok := runner.(terraform.Ender)
		if !ok {
			continue
		}
		ended, err := ender.End(ctx, s.runRef(id))
		if err != nil {
			return fmt.Errorf("stopping run %s: %w", id, err)
		}
		if !ended {
			return fault.WaitFor(StartInterval, infrav1.RunInProgressReason, "The Secret of run %s was deleted. The run is stopping. If its node is gone for good, continue with captctl unlock", id)
		}
	}
	return nil
}

// stopChanged stops the last run, whose Secret does not count any more: the run itself or
// a user has changed it. No other run starts while it is running.
func (r *Numbers) stopChanged(ctx context.Context, s *Workspace, id string) error {
	ref := s.runRef(id)
	for _, runner := range r.Runners {
		liveness, err := runner.Observe(ctx, ref)
		if err != nil {
			return fmt.Errorf("observing run %s: %w", id, err)
		}
		if liveness != terraform.LivenessRunning {
			continue
		}
		// No user has asked to interrupt it.
		if err := runner.Stop(ctx, ref, false); err != nil {
			return fmt.Errorf("stopping run %s: %w", id, err)
		}
		return fault.WaitFor(StartInterval, infrav1.RunInProgressReason, "The Secret of run %s was changed, so its result does not count. The run is stopping", id)
	}
	return nil
}

// Numbers takes the Numbers of runs. No two runs of a workspace have the same number, and no
// run starts beside another one.
type Numbers struct {
	*Store
	Runners executors
	// Unused has the numbers of runs that could not be created, and Active the ActiveRun of
	// each workspace, by its UID.
	Unused, Active *sync.Map
}

// ActiveRun is the latest run of a workspace that this process has started or attended.
type ActiveRun struct {
	Number int64
	// Seen is when the run was last known not to have ended.
	Seen time.Time
}

// SetActive remembers that a run has not ended yet.
func (r *Numbers) SetActive(s *Workspace, number int64) {
	r.Active.Store(s.Apply.UID, ActiveRun{Number: number, Seen: s.Now})
}

// LastActive returns the latest run that this process has started or attended. Its number is 0
// if there is none.
func (r *Numbers) LastActive(s *Workspace) ActiveRun {
	if run, found := r.Active.Load(s.Apply.UID); found {
		return run.(ActiveRun)
	}
	return ActiveRun{}
}

// LacksActive reports whether the cache does not have the latest run that this process has
// started, and which has not ended. The status may be as old as the cache.
func (r *Numbers) LacksActive(ctx context.Context, s *Workspace) bool {
	active := r.LastActive(s)
	if active.Number == 0 || len(s.Runs) > 0 && s.Runs[0].Number >= active.Number {
		return false
	}
	live, err := r.liveNumber(ctx, s, active.Number)
	if err != nil || live != nil && !record.Finished(live) {
		return true
	}
	// A user has deleted it, or it was not created.
	r.Active.Delete(s.Apply.UID)
	return false
}
