package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// destroyInputs stands for the inputs of a destruction, which are whatever they
// happen to be.
const destroyInputs = "destroy"

// destroy destroys what the workspace made, unless it is to be left in place. A
// run that goes on is stopped first.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	if err := r.held(ctx, s); err != nil {
		return err
	}
	if run := s.current(); run != nil {
		return r.attend(ctx, s, run)
	}
	if s.apply.Spec.RetainWorkspaceOnDelete {
		return nil
	}
	if gone, err := r.nothingLeft(ctx, s); err != nil || gone {
		return err
	}
	// The module is needed to destroy what it made.
	if err := r.dependencies(ctx, s); err != nil {
		return err
	}
	if err := r.inputs(ctx, s); err != nil {
		return err
	}
	situation := s.situation()
	next := decision{operation: terraform.OperationDestroy}
	if err := situation.stateElsewhere(); err != nil {
		return err
	}
	if !situation.requested() {
		var err error
		if next, err = situation.attempt(next, destroyInputs); err != nil {
			return err
		}
	}
	return r.start(ctx, s, next)
}

// ownerLook is how often a held workspace looks whether its owner is gone by
// force, which no watch of workspaces sees.
const ownerLook = time.Minute

// held waits until the object that controls the workspace lets go of it. The
// garbage collector knows nothing of the order in which a cluster is taken
// down, and a workspace of a cluster that lives is not to be destroyed.
func (r *Reconciler) held(ctx context.Context, s *scope) error {
	owner := metav1.GetControllerOf(s.apply)
	if !controllerutil.ContainsFinalizer(s.apply, infrav1.WorkspaceHeldFinalizer) {
		return nil
	}
	if owner != nil {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: owner.Name}, found)
		switch {
		case err == nil && found.UID == owner.UID && found.DeletionTimestamp.IsZero():
			return fault.WaitFor(ownerLook, infrav1.HeldByOwnerReason, "%s %s needs this workspace: it is destroyed when that is deleted", owner.Kind, owner.Name)
		case err == nil && found.UID == owner.UID:
			return fault.WaitFor(ownerLook, infrav1.HeldByOwnerReason, "%s %s is being deleted and will let go of this workspace in its turn", owner.Kind, owner.Name)
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading the owner: %w", err)
		}
	}
	controllerutil.RemoveFinalizer(s.apply, infrav1.WorkspaceHeldFinalizer)
	return nil
}

// nothingLeft tells whether there is nothing to destroy: nothing ever ran, the
// last run destroyed everything, or the state is empty.
func (r *Reconciler) nothingLeft(ctx context.Context, s *scope) (bool, error) {
	if len(s.runs) > 0 && s.runs[0].operation() == terraform.OperationDestroy {
		result, err := record.Result(s.runs[0].secret)
		if err != nil {
			return false, err
		}
		if result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges {
			return true, nil
		}
	}
	if unsettled, err := r.unsettled(ctx, s); err != nil || unsettled {
		return false, err
	}
	// The state is the truth about what exists, whoever left it there.
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: stateSecret(s)}, &secret)
	switch {
	case err == nil:
		return record.StateIsEmpty(&secret)
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading the state: %w", err)
	case s.apply.Status.State != nil && s.apply.Status.State.Resources > 0:
		// Something was applied: where is its state?
		return false, nil
	}
	// No state was ever begun, unless it is in another backend.
	elsewhere := slices.ContainsFunc(s.runs, func(run *runRecord) bool {
		return run.secret.Annotations[record.BackendAnnotation] != terraform.BackendKubernetes
	})
	return !elsewhere, nil
}

// unsettled tells whether the state may lack something that was made. Who holds
// the lock works, or was killed before its tool had saved what it did; what a
// lost run's tool could not save lies in the working directory until a run gets
// as far as to put it back.
func (r *Reconciler) unsettled(ctx context.Context, s *scope) (bool, error) {
	if locked, err := r.locked(ctx, s); err != nil || locked {
		return locked, err
	}
	for _, run := range s.runs {
		result, err := record.Result(run.secret)
		if err != nil {
			return false, err
		}
		switch {
		case result == nil || result.Outcome == outcomeLost && mayHaveChanged(result):
			return true, nil
		case slices.Contains(complete, result.Outcome):
			return false, nil
		}
	}
	return false, nil
}

// complete are the outcomes of runs that found the state in order.
var complete = []terraform.Outcome{terraform.OutcomeSucceeded, terraform.OutcomeNoChanges, terraform.OutcomePlanned, terraform.OutcomeBlocked}

// locked tells whether somebody holds the lock of the state.
func (r *Reconciler) locked(ctx context.Context, s *scope) (bool, error) {
	var lease coordinationv1.Lease
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: leaseName(s)}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the lock: %w", err)
	}
	return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", nil
}

func leaseName(s *scope) string {
	return terraform.Backend{SecretSuffix: template.StateSuffix(s.apply.Name)}.LeaseName()
}

func stateSecret(s *scope) string {
	return terraform.Backend{SecretSuffix: template.StateSuffix(s.apply.Name)}.StateSecretName()
}

// cleanUp removes what is kept beside the workspace, or lets go of it.
func (r *Reconciler) cleanUp(ctx context.Context, s *scope) error {
	// First, while the records tell what is left.
	if err := r.forget(ctx, s); err != nil {
		return err
	}
	for _, component := range []string{record.ComponentRun, record.ComponentPlan, record.ComponentRescue} {
		if err := r.deleteSecrets(ctx, s, component); err != nil {
			return err
		}
	}
	for _, component := range []string{record.ComponentSnapshot, componentConnection, record.ComponentState} {
		var err error
		if s.apply.Spec.RetainWorkspaceOnDelete {
			err = r.releaseSecrets(ctx, s, component)
		} else {
			err = r.deleteSecrets(ctx, s, component)
		}
		if err != nil {
			return err
		}
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.apply.Namespace, Name: leaseName(s)}}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, lease)); err != nil {
		return fmt.Errorf("deleting the lock: %w", err)
	}
	r.tracker.set(s.key(), nil)
	r.queue.Release(s.slot())
	forgetMetrics(s)
	return nil
}

// forget removes what executors keep of the workspace. Where resources are left
// in place, so is a working directory that may have what the state lacks: the
// first run of the next workspace of that name puts it back.
func (r *Reconciler) forget(ctx context.Context, s *scope) error {
	for _, run := range s.runs {
		if runner, found := r.Runners[run.executor()]; found {
			if err := runner.Forget(ctx, run.ref()); err != nil {
				return fmt.Errorf("forgetting run %s: %w", run.id, err)
			}
		}
	}
	if s.apply.Spec.RetainWorkspaceOnDelete {
		if unsettled, err := r.unsettled(ctx, s); err != nil || unsettled {
			return err
		}
	}
	workspace := terraform.WorkspaceRef{Namespace: s.apply.Namespace, Name: s.apply.Name, UID: string(s.apply.UID)}
	for _, runner := range r.Runners {
		if err := runner.Remove(ctx, workspace); err != nil {
			return fmt.Errorf("forgetting the workspace: %w", err)
		}
	}
	return nil
}

func (r *Reconciler) deleteSecrets(ctx context.Context, s *scope, component string) error {
	secrets, err := r.secrets(ctx, s, component)
	if err != nil {
		return err
	}
	for i := range secrets {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &secrets[i])); err != nil {
			return fmt.Errorf("deleting Secret %s: %w", secrets[i].Name, err)
		}
	}
	return nil
}

// releaseSecrets lets go of Secrets, so that the garbage collector leaves them.
func (r *Reconciler) releaseSecrets(ctx context.Context, s *scope, component string) error {
	secrets, err := r.secrets(ctx, s, component)
	if err != nil {
		return err
	}
	for i := range secrets {
		if len(secrets[i].OwnerReferences) == 0 {
			continue
		}
		released := secrets[i].DeepCopy()
		released.OwnerReferences = nil
		// A patch: what is in the cache is not the whole Secret.
		if err := client.IgnoreNotFound(r.Client.Patch(ctx, released, client.MergeFrom(&secrets[i]))); err != nil {
			return fmt.Errorf("releasing Secret %s: %w", released.Name, err)
		}
	}
	return nil
}

func destroyedMessage(s *scope) string {
	if !s.apply.Spec.RetainWorkspaceOnDelete {
		return ""
	}
	var left []string
	switch state := s.apply.Status.State; {
	case state == nil:
	case state.SecretName != "":
		left = append(left, "state in Secret "+state.SecretName)
	case state.Backend != "":
		left = append(left, "state in the backend "+state.Backend)
	}
	if name := s.apply.Status.ConnectionSecretName; name != "" {
		left = append(left, "outputs in Secret "+name)
	}
	return strings.Join(append([]string{"Resources are left in place"}, left...), ", ")
}
