package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	// consideration is how long the actor waits for a plan to approve.
	consideration = 8 * time.Second
)

// actor is the user of one workspace.
type actor struct {
	*trial
	story story
	// exists is whether the workspace should, items what it should have;
	// retained is whether one that is gone has left its resources.
	exists, retained bool
	items            map[string]item
	// number is the last that was asked for; pending are those that the spec
	// gave up, and no approved plan yet.
	number  int
	pending []int
}

func (a *actor) key() client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: a.story.Name}
}

func (a *actor) journal() string {
	return filepath.Join(a.journals(), a.namespace+"-"+a.story.Name)
}

// write adds to the journal, in one piece.
func (a *actor) write(lines string) error {
	file, err := os.OpenFile(a.journal(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	if _, err := file.WriteString(lines); err != nil {
		return fmt.Errorf("writing the journal: %w", errors.Join(err, file.Close()))
	}
	return file.Close()
}

// live goes through the story.
func (a *actor) live(ctx context.Context) error {
	for _, s := range a.story.Steps {
		if !sleep(ctx, s.After) {
			return ctx.Err()
		}
		if err := a.take(ctx, s); err != nil {
			return fmt.Errorf("%s of %s: %w", s.Do, a.story.Name, err)
		}
		a.noteOperation(s.Do)
	}
	return nil
}

func (a *actor) take(ctx context.Context, s step) error {
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
		return a.consider(ctx)
	case opPause:
		return a.patch(ctx, fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, clusterv1.PausedAnnotation))
	case opUnpause:
		return a.patch(ctx, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.PausedAnnotation))
	case opRetain:
		a.retained = true
		if err := a.patch(ctx, `{"spec":{"retainWorkspaceOnDelete":true}}`); err != nil {
			return err
		}
		return a.remove(ctx)
	default:
		return a.discard(ctx)
	}
}

// create makes the workspace, as soon as one of its name is gone.
func (a *actor) create(ctx context.Context) error {
	items, err := infrav1.NewValue(a.items)
	if err != nil {
		return fmt.Errorf("encoding the items: %w", err)
	}
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.story.Name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef:                infrav1.TemplateReference{Name: templateName},
			Variables:                  map[string]infrav1.Value{"journal": infrav1.StringValue(a.journal()), "items": items},
			WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: a.story.Name + "-connection"},
			// What fails is tried again soon.
			Retry:        &infrav1.RetryPolicy{MinBackoff: &metav1.Duration{Duration: time.Second}, MaxBackoff: &metav1.Duration{Duration: 2 * time.Second}},
			HistoryLimit: new(int32(historyLimit)), SnapshotLimit: new(int32(snapshotLimit)),
		},
	}
	if a.story.Manual {
		apply.Spec.Approval = infrav1.ApprovalManual
	}
	return persist(ctx, func() error {
		err := a.client.Create(ctx, apply.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// It may be the one before, which is going, or this one: the answer of
		// an API server that dies is lost.
		now := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), now); err != nil {
			return err
		}
		if !now.DeletionTimestamp.IsZero() {
			return errors.Join(a.help(ctx, now), errors.New("the one before is still there: "+condition(now, infrav1.DestroyedCondition)))
		}
		return nil
	})
}

// change gives the workspace other items. What an automatic workspace does not
// want any more may go at once, what another does not, when that is approved.
func (a *actor) change(ctx context.Context, unwanted []int) error {
	a.pending = append(a.pending, unwanted...)
	if !a.story.Manual {
		if err := a.giveUp(); err != nil {
			return err
		}
	}
	items, err := infrav1.NewValue(a.items)
	if err != nil {
		return fmt.Errorf("encoding the items: %w", err)
	}
	// A merge patch would merge the items, too.
	return persist(ctx, func() error {
		now := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), now); err != nil {
			return err
		}
		now.Spec.Variables["items"] = items
		return a.client.Update(ctx, now)
	})
}

// giveUp writes down that what is pending may be destroyed.
func (a *actor) giveUp() error {
	var lines strings.Builder
	for _, number := range a.pending {
		lines.WriteString(unwantedLine(number))
	}
	a.pending = nil
	return a.write(lines.String())
}

// consider approves the plan that waits, if one comes soon.
func (a *actor) consider(ctx context.Context) error {
	_ = await(ctx, consideration, func() error {
		now := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), now); err != nil {
			return err
		}
		if !waits(now) {
			return errMissed
		}
		return a.approve(ctx, now)
	})
	// No approval is needed now; it is given in the end.
	return ctx.Err()
}

// waits reports whether a plan waits for approval.
func waits(apply *infrav1.WorkspaceTemplateApply) bool {
	plan := apply.Status.Plan
	return plan != nil && plan.Waiting != nil && *plan.Waiting && apply.Spec.ApprovedPlan != plan.ID
}

func (a *actor) approve(ctx context.Context, now *infrav1.WorkspaceTemplateApply) error {
	if err := a.giveUp(); err != nil {
		return err
	}
	return a.patch(ctx, fmt.Sprintf(`{"spec":{"approvedPlan":%q}}`, now.Status.Plan.ID))
}

func (a *actor) patch(ctx context.Context, text string) error {
	return persist(ctx, func() error {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.story.Name}}
		return a.client.Patch(ctx, apply, client.RawPatch("application/merge-patch+json", []byte(text)))
	})
}

// taken waits until the workspace is CAPT's: one that is deleted before anybody
// observed it destroys nothing of what it found.
func (a *actor) taken(ctx context.Context) error {
	return persist(ctx, func() error {
		now := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), now); err != nil {
			return err
		}
		if !controllerutil.ContainsFinalizer(now, infrav1.WorkspaceTemplateApplyFinalizer) {
			return errors.New("it has no finalizer yet")
		}
		return nil
	})
}

// discard deletes the workspace with all that it has. The numbers of what comes
// after it are larger.
func (a *actor) discard(ctx context.Context) error {
	if err := a.taken(ctx); err != nil {
		return err
	}
	if err := a.write(deletedLine(a.number)); err != nil {
		return err
	}
	return a.remove(ctx)
}

func (a *actor) remove(ctx context.Context) error {
	a.exists = false
	return persist(ctx, func() error {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.story.Name}}
		return client.IgnoreNotFound(a.client.Delete(ctx, apply))
	})
}
