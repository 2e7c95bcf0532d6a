package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// backendTimeout is how long a fault of the backend waits until the workspace is in
// the state that the fault needs.
const backendTimeout = 15 * time.Second

// injectStep injects a fault of the backend, or of the namespace. It returns an error only if
// the workspace does not recover.
func (a *actor) injectStep(ctx context.Context, f fault) error {
	var err error
	switch f {
	case deleteState:
		err = a.deleteState(ctx)
	case deleteNamespace:
		err = a.deleteNamespace(ctx)
	case deleteFile:
		err = a.deleteFile(ctx)
	default:
		err = a.leaveLock(ctx)
	}
	a.countFault(f, err)
	if errors.Is(err, errNoTarget) {
		return nil
	}
	return err
}

// deleteState deletes the state of a workspace at rest, checks that the workspace
// reports it and creates nothing, and restores it.
func (a *actor) deleteState(ctx context.Context) error {
	if err := a.rest(ctx); err != nil {
		// The error is not that of a wait for the state.
		return errors.Join(errNoTarget, a.setPaused(ctx, false))
	}
	before, err := a.created()
	if err != nil {
		return err
	}
	restore, err := a.store.remove(ctx, a.namespace, a.scenario.Name)
	if err != nil {
		return errors.Join(errNoTarget, a.setPaused(ctx, false))
	}
	reported := errors.Join(a.setPaused(ctx, false), a.requestRun(ctx))
	if reported == nil {
		reported = a.awaitReason(ctx, infrav1.StateMissingReason, "")
	}
	after, err := a.created()
	if err != nil {
		return err
	}
	if after != before {
		a.addViolation(a.scenario.Name, fmt.Sprintf("%d resources were created while the state was deleted", after-before))
	}
	restored := await(ctx, func(ctx context.Context) error {
		err := restore(ctx)
		if errors.Is(err, errWritten) {
			a.addViolation(a.scenario.Name, err.Error())
			return nil
		}
		return err
	})
	if reported != nil {
		return fmt.Errorf("waiting until the deleted state is reported: %w", errors.Join(reported, restored))
	}
	return errors.Join(restored, a.requestRun(ctx))
}

// rest pauses the workspace when it is ready, has resources and no run. It returns an
// error if that is not so soon.
func (a *actor) rest(ctx context.Context) error {
	if err := poll(ctx, backendTimeout, a.isReady); err != nil {
		return err
	}
	if err := a.setPaused(ctx, true); err != nil {
		return err
	}
	err := poll(ctx, backendTimeout, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(observed.Status.Conditions, clusterv1.PausedCondition) {
			return errors.New("the workspace is not paused")
		}
		return nil
	})
	if err != nil {
		return err
	}
	// A run may have started before.
	if err := a.isReady(ctx); err != nil {
		return err
	}
	if !a.runProcesses().none() {
		return errors.New("a run has not ended")
	}
	state, err := a.state(ctx)
	if err != nil || len(state) == 0 {
		return errors.Join(err, errors.New("the state has no resources"))
	}
	return nil
}

// isReady returns an error unless the workspace is ready and has no run.
func (a *actor) isReady(ctx context.Context) error {
	observed := &infrav1.WorkspaceTemplateApply{}
	if err := a.client.Get(ctx, a.key(), observed); err != nil {
		return err
	}
	return ready(observed)
}

// leaveLock locks the state in the name of a holder that does not exist, checks that
// the workspace reports the lock and changes nothing, and forces an unlock.
func (a *actor) leaveLock(ctx context.Context) error {
	a.locks++
	id := fmt.Sprintf("lost-%d-%s-%d", a.schedule.Seed, a.scenario.Name, a.locks)
	err := poll(ctx, backendTimeout, func(ctx context.Context) error {
		return a.store.setLock(ctx, a.namespace, a.scenario.Name, id)
	})
	if err != nil {
		return errNoTarget
	}
	before, err := a.created()
	if err != nil {
		return err
	}
	reported := a.requestRun(ctx)
	if reported == nil {
		reported = a.awaitReason(ctx, infrav1.LockHeldReason, id)
	}
	after, err := a.created()
	if err != nil {
		return err
	}
	if after != before {
		a.addViolation(a.scenario.Name, fmt.Sprintf("%d resources were created while the state was locked", after-before))
	}
	a.count(&a.unlocks)
	if err := a.breakLock(ctx, id); err != nil {
		return err
	}
	if reported != nil {
		return fmt.Errorf("waiting until the lock is reported: %w", reported)
	}
	return await(ctx, func(ctx context.Context) error {
		held, err := a.store.lock(ctx, a.namespace, a.scenario.Name)
		if err == nil && held.ID == id {
			return errors.New("the lock is not broken")
		}
		return err
	})
}

// created returns the number of resources that were created so far by tools that were
// not killed: a child process of a killed tool may still create one.
func (a *actor) created() (int, error) { return a.countEntries(wordCreated) }

// changes returns the number of resources that were created or destroyed so far by tools that
// were not killed.
func (a *actor) changes() (int, error) { return a.countEntries(wordCreated, wordDestroyed) }

func (a *actor) countEntries(words ...string) (int, error) {
	entries, err := a.journal.read(a.workspace())
	killed, count := killedTools(entries), 0
	for _, e := range entries {
		if slices.Contains(words, e.word) && !killed[e.tool] {
			count++
		}
	}
	return count, err
}

// awaitReason waits until the workspace is not applied for a reason, and the message
// contains a text.
func (a *actor) awaitReason(ctx context.Context, reason, text string) error {
	return a.await(ctx, func(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
		c := meta.FindStatusCondition(observed.Status.Conditions, infrav1.AppliedCondition)
		if c != nil && c.Reason == reason && strings.Contains(c.Message, text) {
			return nil
		}
		return a.stillWaiting(ctx, observed, reason)
	})
}

// stillWaiting does what the workspace requests from a user, and returns an error that says what
// it waits for.
func (a *actor) stillWaiting(ctx context.Context, observed *infrav1.WorkspaceTemplateApply, cause string) error {
	err := errors.Join(errors.New("waiting for "+cause+": "+conditions(observed)), a.assist(ctx, observed))
	if a.scenario.Manual && isWaiting(observed) {
		// A requested run does not replace a plan that waits.
		err = errors.Join(err, a.approve(ctx, observed))
	}
	return err
}
