package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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
	// whether an earlier one left its state and no later one has adopted it, and stuck
	// whether the workspace did not settle.
	deleted, inherits, stuck bool
	// adopted is the lineage of the last state that a workspace was told to adopt.
	adopted string
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
		return a.setPaused(ctx, true)
	case opUnpause:
		return a.setPaused(ctx, false)
	case opFault:
		return a.injectBackend(ctx, s.Fault)
	case opRetain:
		a.retained, a.inherits = true, true
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
	if a.scenario.Manual {
		apply.Spec.Approval = infrav1.ApprovalManual
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
	if a.store.config() == nil {
		return nil
	}
	var retained map[string]resource
	err := await(ctx, func(ctx context.Context) (err error) {
		retained, err = a.state(ctx)
		return err
	})
	if err != nil || len(retained) == 0 {
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
	if err := a.recordUnwanted(); err != nil {
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
