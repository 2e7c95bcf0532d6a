package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	historyLimit  = 4
	snapshotLimit = 2
	// changesLimit is how many plans before the latest one may keep their changes.
	changesLimit = 3
	// approvalTimeout is how long the actor waits for a plan to approve.
	approvalTimeout = 8 * time.Second
)

// actor is the user of one workspace.
type actor struct {
	*trial
	scenario scenario
	// exists reports whether the workspace should exist, and items are the resources
	// it should have. retained reports whether a deleted workspace has left its
	// resources.
	exists, retained bool
	items            map[string]item
	// number is the last requested number. pending are the numbers that the spec no
	// longer requests and that no approved plan has removed yet.
	number  int
	pending []int
	// locks is the number of locks that were left, and requested the time of the last
	// requested run.
	locks     int
	requested time.Time
	// deleted reports whether the workspace was deleted with its resources, inherits
	// whether the previous one left its state, and stuck whether the workspace did not settle.
	deleted, inherits, stuck bool
	// left is the lineage of a state that an earlier workspace left and no later one has adopted.
	left string
	// idle is what was done before the workspace was paused, or nil if it is not idle.
	idle *work
	// retainedUntil is when the last workspace after a retained one was created. Locks
	// that are older may be those of the retained one, which has no record of its runs.
	retainedUntil time.Time
}

func (a *actor) key() client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: a.scenario.Name}
}

// workspace returns the namespace and name of the workspace.
func (a *actor) workspace() string { return a.namespace + "/" + a.scenario.Name }

// await reads the workspace and calls try with it until it succeeds, as the function await does.
func (a *actor) await(ctx context.Context, try func(context.Context, *infrav1.WorkspaceTemplateApply) error) error {
	return await(ctx, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return err
		}
		return try(ctx, observed)
	})
}

// run performs the steps of the scenario.
func (a *actor) run(ctx context.Context) error {
	for _, s := range a.scenario.Steps {
		if !sleep(ctx, s.After) {
			return ctx.Err()
		}
		if err := a.perform(ctx, s); err != nil {
			return fmt.Errorf("%s of %s: %w", s.Do, a.scenario.Name, err)
		}
		a.countOperation(s.Do)
	}
	return nil
}

func (a *actor) perform(ctx context.Context, s step) error {
	a.items = s.Items
	for _, it := range s.Items {
		a.number = max(a.number, it.Number)
	}
	switch s.Do {
	case opCreate:
		a.exists, a.retained = true, false
		return a.create(ctx)
	case opChange:
		return a.change(ctx, s.Unwanted)
	case opApprove:
		return a.approveSoon(ctx)
	case opPause:
		return a.pause(ctx)
	case opUnpause:
		return a.unpause(ctx)
	case opFault:
		return a.injectStep(ctx, s.Fault)
	case opCheckDrift:
		return a.request(ctx, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift})
	case opRetain:
		a.retained, a.inherits, a.left = true, true, ""
		if err := a.patch(ctx, `{"spec":{"retainWorkspaceOnDelete":true}}`); err != nil {
			return err
		}
		return a.deleteObject(ctx)
	default:
		return a.destroy(ctx)
	}
}

// create creates the workspace once a previous one of the same name is deleted.
func (a *actor) create(ctx context.Context) error {
	if a.deleted {
		if err := a.awaitDeletion(ctx); err != nil {
			return err
		}
	}
	if a.inherits {
		a.retainedUntil = time.Now()
	}
	items, err := infrav1.NewValue(a.items)
	if err != nil {
		return fmt.Errorf("encoding the items: %w", err)
	}
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.scenario.Name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef:                infrav1.TemplateReference{Name: templateName},
			Variables:                  map[string]infrav1.Value{"journal": infrav1.StringValue(a.journal.address(a.workspace())), "recorder": infrav1.StringValue(a.recorder()), "items": items},
			WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: a.scenario.Name + "-connection"},
			// Failed runs are retried soon.
			Retry:        &infrav1.RetryPolicy{MinBackoff: &metav1.Duration{Duration: time.Second}, MaxBackoff: &metav1.Duration{Duration: 2 * time.Second}},
			HistoryLimit: new(int32(historyLimit)), SnapshotLimit: new(int32(snapshotLimit)),
		},
	}
	if a.form.hasProvider() {
		apply.Spec.Variables["file"] = infrav1.StringValue(a.file())
	}
	if a.scenario.Manual {
		apply.Spec.Approval = infrav1.ApprovalManual
		if err := a.journal.write(a.workspace(), approvedLine(0)); err != nil {
			return err
		}
	}
	err = await(ctx, func(ctx context.Context) error {
		err := a.client.Create(ctx, apply.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// The existing object is either the previous one, which is retained and being
		// deleted, or this one: the response of a killed API server is lost.
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return err
		}
		if !observed.DeletionTimestamp.IsZero() {
			return errors.Join(a.assist(ctx, observed), errors.New("the previous workspace still exists: "+conditions(observed)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.awaitAdoption(ctx)
}

// awaitDeletion waits until a deleted workspace does not exist, and checks that its
// resources do not either: a new workspace of the same name may adopt what is left.
func (a *actor) awaitDeletion(ctx context.Context) error {
	err := await(ctx, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		err := a.client.Get(ctx, a.key(), observed)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, a.assist(ctx, observed), errors.New("the workspace is not deleted: "+conditions(observed)))
	})
	if err != nil {
		return err
	}
	a.deleted = false
	entries, err := a.journal.read(a.workspace())
	if err != nil {
		return err
	}
	found, _ := examine(entries, nil, nil)
	a.addViolation(a.scenario.Name, found...)
	return nil
}

// awaitAdoption waits until the workspace uses the state that an earlier one of its
// name retained. With the default backend it does so at once. With another one, a
// workspace that is deleted before that leaves the resources alone.
func (a *actor) awaitAdoption(ctx context.Context) error {
	if !a.inherits {
		return nil
	}
	a.inherits = false
	var retained map[string]resource
	err := await(ctx, func(ctx context.Context) error {
		text, err := a.store.read(ctx, a.namespace, a.scenario.Name)
		if err != nil {
			return err
		}
		if retained, err = parseResources(text); err != nil {
			return err
		}
		a.left, err = parseLineage(text)
		return err
	})
	if err != nil || len(retained) == 0 || a.store.config() == nil {
		return err
	}
	return a.await(ctx, func(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
		if state := observed.Status.State; state != nil && state.Lineage != "" {
			return nil
		}
		return errors.Join(errors.New("the retained state is not adopted: "+conditions(observed)), a.assist(ctx, observed))
	})
}

// change updates the items of the workspace. An automatic workspace may destroy
// unwanted resources at once, and a manual one after the approval.
func (a *actor) change(ctx context.Context, unwanted []int) error {
	a.pending = append(a.pending, unwanted...)
	if !a.scenario.Manual {
		if err := a.recordUnwanted(); err != nil {
			return err
		}
	}
	items, err := infrav1.NewValue(a.items)
	if err != nil {
		return fmt.Errorf("encoding the items: %w", err)
	}
	// A merge patch would merge the items as well.
	return a.await(ctx, func(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
		observed.Spec.Variables["items"] = items
		return a.client.Update(ctx, observed)
	})
}

// recordUnwanted records in the journal that the pending resources may be
// destroyed.
func (a *actor) recordUnwanted() error {
	var lines strings.Builder
	for _, number := range a.pending {
		lines.WriteString(unwantedLine(number))
	}
	a.pending = nil
	return a.journal.write(a.workspace(), lines.String())
}

// approveSoon approves the next waiting plan if there is one within
// approvalTimeout.
func (a *actor) approveSoon(ctx context.Context) error {
	_ = poll(ctx, approvalTimeout, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return err
		}
		if !isWaiting(observed) {
			return errNoTarget
		}
		return a.approve(ctx, observed)
	})
	// Without a plan nothing is approved here; settle approves it later.
	return ctx.Err()
}

// isWaiting reports whether a plan waits for approval.
func isWaiting(apply *infrav1.WorkspaceTemplateApply) bool {
	plan := apply.Status.Plan
	return plan != nil && plan.Waiting != nil && *plan.Waiting && apply.Spec.ApprovedPlan != plan.ID
}

func (a *actor) approve(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
	if err := errors.Join(a.recordUnwanted(), a.journal.write(a.workspace(), approvedLine(a.number))); err != nil {
		return err
	}
	return a.patch(ctx, fmt.Sprintf(`{"spec":{"approvedPlan":%q}}`, observed.Status.Plan.ID))
}

func (a *actor) patch(ctx context.Context, text string) error {
	return await(ctx, func(ctx context.Context) error {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.scenario.Name}}
		return a.client.Patch(ctx, apply, client.RawPatch("application/merge-patch+json", []byte(text)))
	})
}

func (a *actor) setPaused(ctx context.Context, paused bool) error {
	value := "null"
	if paused {
		value = `""`
	}
	return a.patch(ctx, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, clusterv1.PausedAnnotation, value))
}

// work is what was done for a workspace.
type work struct {
	runs    int64
	changes int
}

// pause pauses the workspace, and records what was done when it is idle.
func (a *actor) pause(ctx context.Context) error {
	if err := a.setPaused(ctx, true); err != nil {
		return err
	}
	err := poll(ctx, backendTimeout, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(observed.Status.Conditions, clusterv1.PausedCondition) || observed.Status.Run != nil || !a.runProcesses().none() {
			return errors.New("the workspace is not idle")
		}
		changes, err := a.changes()
		a.idle = &work{runs: observed.Status.Runs, changes: changes}
		return err
	})
	if err != nil {
		a.idle = nil
		a.excuse(excuseBusy)
	}
	return ctx.Err()
}

// unpause checks that a paused workspace has done nothing, and unpauses it.
func (a *actor) unpause(ctx context.Context) error {
	if before := a.idle; before != nil {
		a.idle = nil
		err := a.await(ctx, func(_ context.Context, observed *infrav1.WorkspaceTemplateApply) error {
			changes, err := a.changes()
			if after := (work{runs: observed.Status.Runs, changes: changes}); err == nil && after != *before {
				a.addViolation(a.scenario.Name, fmt.Sprintf("the paused workspace was changed: %+v, then %+v", *before, after))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return a.setPaused(ctx, false)
}

// requestRun requests a run of the workspace.
func (a *actor) requestRun(ctx context.Context) error {
	a.requested = time.Now()
	return a.request(ctx, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun})
}

// breakLock forces an unlock, which requests a run that does it.
func (a *actor) breakLock(ctx context.Context, id string) error {
	return a.request(ctx, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationUnlock, Unlock: &infrav1.UnlockOptions{Lock: id}})
}

// request requests an operation of the workspace.
func (a *actor) request(ctx context.Context, spec infrav1.WorkspaceOperationSpec) error {
	spec.Workspace = a.scenario.Name
	if a.form.executor == executorJob {
		// With processes, a webhook sets the user, and refuses another one.
		spec.RequestedBy = testenv.AdminUser
	}
	return await(ctx, func(ctx context.Context) error {
		apply := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: a.scenario.Name}, apply); err != nil {
			return err
		}
		spec.WorkspaceUID = apply.UID
		return a.client.Create(ctx, &infrav1.WorkspaceOperation{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, GenerateName: a.scenario.Name + "-"}, Spec: spec,
		})
	})
}

// isRequested reports whether an operation of the workspace that matches has not ended.
func (a *actor) isRequested(ctx context.Context, matches func(*infrav1.WorkspaceOperationSpec) bool) (bool, error) {
	var list infrav1.WorkspaceOperationList
	if err := a.client.List(ctx, &list, client.InNamespace(a.namespace)); err != nil {
		return false, fmt.Errorf("listing operations: %w", err)
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.Spec.Workspace == a.scenario.Name && !o.Ended() && matches(&o.Spec) {
			return true, nil
		}
	}
	return false, nil
}

// waitForFinalizer waits until CAPT has added its finalizer: a workspace that is
// deleted before CAPT observes it does not destroy the resources of its state.
func (a *actor) waitForFinalizer(ctx context.Context) error {
	return a.await(ctx, func(_ context.Context, observed *infrav1.WorkspaceTemplateApply) error {
		if !controllerutil.ContainsFinalizer(observed, infrav1.WorkspaceTemplateApplyFinalizer) {
			return errors.New("it has no finalizer yet")
		}
		return nil
	})
}

// destroy deletes the workspace with its resources. The numbers of later resources
// are larger.
func (a *actor) destroy(ctx context.Context) error {
	if err := a.waitForFinalizer(ctx); err != nil {
		return err
	}
	if err := a.journal.write(a.workspace(), deletedLine(a.number)); err != nil {
		return err
	}
	a.deleted = true
	return a.deleteObject(ctx)
}

func (a *actor) deleteObject(ctx context.Context) error {
	a.exists = false
	return await(ctx, func(ctx context.Context) error {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.scenario.Name}}
		return client.IgnoreNotFound(a.client.Delete(ctx, apply))
	})
}
