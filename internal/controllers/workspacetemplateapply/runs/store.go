package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// LiveRun reads the Secret of a run from the API server. It returns a conflict for that of
// the next workspace of the name, whose runs have the same IDs: this manager was suspended
// then.
func (r *Store) LiveRun(ctx context.Context, run *Run) (*corev1.Secret, error) {
	var live corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run.Secret), &live); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", run.ID, err)
	}
	if live.UID != run.Secret.UID {
		return nil, fmt.Errorf("reading run %s: %w", run.ID, apierrors.NewConflict(corev1.Resource("secrets"), live.Name, errors.New("it is the run of another workspace")))
	}
	return &live, nil
}

// EnsureExists returns a conflict if the workspace does not exist any more. This manager
// was then suspended, and what has the names of the workspace's objects now may belong to
// the next workspace of its name. Whatever was read before belongs to this one.
func (r *Store) EnsureExists(ctx context.Context, s *Workspace) error {
	live, err := r.live(ctx, s)
	if err != nil || live != nil {
		return err
	}
	return s.StaleCache()
}

// Unchanged lets the API server delete an object only as it was read. A state and its lock
// stay the same objects if a user removes the finalizer by force, and the next workspace of
// the name uses them.
func Unchanged(obj client.Object) client.Preconditions {
	return client.Preconditions{UID: new(obj.GetUID()), ResourceVersion: new(obj.GetResourceVersion())}
}

// IsTerminating reports whether the namespace of a workspace is being deleted.
func (r *Store) IsTerminating(ctx context.Context, s *Workspace) (bool, error) {
	var namespace corev1.Namespace
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: s.Apply.Namespace}, &namespace); err != nil {
		return false, client.IgnoreNotFound(err) //nolint:wrapcheck // The error has the name.
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

// LiveSecrets returns the Secrets of a component from the API server. The cache may not have
// those of the last run yet, and the garbage collector deletes what is not released.
func (r *Store) LiveSecrets(ctx context.Context, s *Workspace, component string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	labels := client.MatchingLabels{infrav1.WorkspaceLabel: record.LabelValue(s.Apply.Name), infrav1.ComponentLabel: component}
	if err := r.Reader.List(ctx, &list, client.InNamespace(s.Apply.Namespace), labels); err != nil {
		return nil, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return s.WithComponent(list.Items, component), nil
}

// DeleteAll deletes Secrets as they were read.
func (r *Store) DeleteAll(ctx context.Context, s *Workspace, secrets []corev1.Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	if err := r.EnsureExists(ctx, s); err != nil {
		return err
	}
	for i := range secrets {
		if err := r.DeleteUnchanged(ctx, &secrets[i]); err != nil {
			return fmt.Errorf("deleting Secret %s: %w", secrets[i].Name, err)
		}
	}
	return nil
}

// DeleteUnchanged deletes a Secret as it was read, with its finalizer.
func (r *Store) DeleteUnchanged(ctx context.Context, secret *corev1.Secret) error {
	released := secret.DeepCopy()
	if controllerutil.RemoveFinalizer(released, record.StateFinalizer) {
		err := r.Client.Patch(ctx, released, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}))
		if err != nil || !released.DeletionTimestamp.IsZero() {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, released, Unchanged(released)))
}

// ReleaseSecrets removes the owner references and the finalizer of Secrets: the garbage
// collector does not delete them, and the user can.
func (r *Store) ReleaseSecrets(ctx context.Context, s *Workspace, component string) error {
	secrets, err := r.LiveSecrets(ctx, s, component)
	if err != nil {
		return err
	}
	owned := slices.DeleteFunc(secrets, func(secret corev1.Secret) bool {
		return len(secret.OwnerReferences) == 0 && !controllerutil.ContainsFinalizer(&secret, record.StateFinalizer)
	})
	if len(owned) == 0 {
		return nil
	}
	if err := r.EnsureExists(ctx, s); err != nil {
		return err
	}
	for i := range owned {
		released := owned[i].DeepCopy()
		released.OwnerReferences = nil
		controllerutil.RemoveFinalizer(released, record.StateFinalizer)
		if err := client.IgnoreNotFound(r.Client.Patch(ctx, released, client.MergeFromWithOptions(&owned[i], client.MergeFromWithOptimisticLock{}))); err != nil {
			return fmt.Errorf("releasing Secret %s: %w", released.Name, err)
		}
	}
	return nil
}

// Annotate sets an annotation of a Secret, or removes it if the value is nil. It changes
// neither the given object nor another Secret of the name.
func (r *Store) Annotate(ctx context.Context, secret *corev1.Secret, name string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "annotations": map[string]*string{name: value}}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
}

// ComponentConnection is the component of the Secret that contains the outputs.
const ComponentConnection = "connection"

// MustJSON returns a value of the API as JSON.
func MustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // API types always marshal.
		panic(fmt.Sprintf("marshalling %T: %v", v, err))
	}
	return text
}

// RecordAtOnce writes fields of the status before the end of the reconcile. It returns a
// conflict if the cached workspace is not the current one.
func (r *Store) RecordAtOnce(ctx context.Context, s *Workspace, fields string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":%s}`, s.Apply.ResourceVersion, fields)
	written := s.Apply.DeepCopy()
	err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return s.StaleCache()
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	s.Apply.ResourceVersion = written.ResourceVersion
	return nil
}

// ensureCurrent returns a conflict if the cached workspace is not the current one.
func (r *Store) ensureCurrent(ctx context.Context, s *Workspace) error {
	live, err := r.live(ctx, s)
	if err == nil && (live == nil || live.ResourceVersion != s.Apply.ResourceVersion) {
		return s.StaleCache()
	}
	return err
}

// live reads the workspace from the API server. It returns nil if it does not exist any
// more, or if another one has its name.
func (r *Store) live(ctx context.Context, s *Workspace) (*infrav1.WorkspaceTemplateApply, error) {
	var live infrav1.WorkspaceTemplateApply
	err := r.Reader.Get(ctx, s.Name(), &live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the workspace: %w", err)
	case err != nil || live.UID != s.Apply.UID:
		return nil, nil
	}
	return &live, nil
}

// liveNumber reads the Secret with the name of a run from the API server. It returns nil if
// there is none.
func (r *Store) liveNumber(ctx context.Context, s *Workspace, number int64) (*corev1.Secret, error) {
	id := record.NewRunID(s.Apply.Name, number)
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Apply.Namespace, Name: record.SecretName(id)}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	return &secret, nil
}

// ReadRuns reads the runs of the workspace that are in the cache.
func (r *Store) ReadRuns(ctx context.Context, s *Workspace) error {
	secrets, err := r.Secrets(ctx, s, record.ComponentRun)
	if err != nil {
		return err
	}
	if s.Key, err = r.SealKey(ctx); err != nil {
		return err
	}
	s.Runs = Records(s.Key, s.Apply, secrets)
	return r.ReadDigests(ctx, s.Runs)
}

// Secrets returns the Secrets of the workspace with the given component.
func (r *Store) Secrets(ctx context.Context, s *Workspace, component string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(s.Apply.Namespace), client.MatchingFields{WorkspaceIndex: record.LabelValue(s.Apply.Name)})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return s.WithComponent(list.Items, component), nil
}

// Store reads and writes workspaces and their Secrets.
type Store struct {
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// SealKey returns the key that authenticates the Secrets of runs.
	SealKey func(ctx context.Context) (*seal.Key, error)
}

// WorkspaceIndex is the index of Secrets by their workspace.
const WorkspaceIndex = "capt.workspace"

// WorkspaceOf returns the label of the workspace that an object belongs to.
func WorkspaceOf(obj client.Object) []string {
	if workspace, found := obj.GetLabels()[infrav1.WorkspaceLabel]; found {
		return []string{workspace}
	}
	return nil
}

// Retain leaves what the executors keep to the next workspace of the same name.
func (e executors) Retain(ctx context.Context, workspace terraform.WorkspaceRef) error {
	for _, runner := range e {
		if retainer, ok := runner.(terraform.Retainer); ok {
			if err := retainer.Retain(ctx, workspace); err != nil {
				return fmt.Errorf("retaining the working directory: %w", err)
			}
		}
	}
	return nil
}

// Forget removes what the executor of a run keeps for it.
func (e executors) Forget(ctx context.Context, run *Run) error {
	runner, found := e[run.Executor()]
	if !found {
		return nil
	}
	if err := runner.Forget(ctx, run.Ref()); err != nil {
		return fmt.Errorf("forgetting run %s: %w", run.ID, err)
	}
	return nil
}

// Explain returns what prevents a run from starting or ending, as far as its
// executor knows. It returns an empty string if nothing is unusual.
func (e executors) Explain(ctx context.Context, run *Run) (string, error) {
	explainer, ok := e[run.Executor()].(terraform.Explainer)
	if !ok {
		return "", nil
	}
	explanation, err := explainer.Explain(ctx, run.Ref())
	if err != nil {
		return "", fmt.Errorf("explaining run %s: %w", run.ID, err)
	}
	return explanation, nil
}

// executors execute the runs of each executor.
type executors map[infrav1.Executor]terraform.Runner
