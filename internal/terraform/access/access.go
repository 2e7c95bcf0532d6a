// Package access gives a run the permissions that it needs, and nothing else: its own
// service account, which can access the Secret of the run, the state and its lock. Both
// executors use it.
package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Granter creates and deletes the permissions of runs.
type Granter struct {
	// Client writes objects.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// KeepsDirectories is set if the working directories are kept. A drift check may then
	// find a state that an earlier run could not save, and stores it.
	KeepsDirectories bool
}

// maxNameLength is the limit for the name of a Job, which is a label value of its
// pods. All objects of a run have the same name.
const maxNameLength = 63

// Name returns the name of the service account of a run, its Role, its RoleBinding and
// its Job.
func Name(runID string) string { return record.Shorten("capt-run-"+runID, maxNameLength) }

// Grant creates the service account of a run and its permissions. It first
// creates the state and its lock if they do not exist.
//
// The account belongs to one run. An account that several runs share would have the
// permissions of all of them.
//
// None of these objects has an owner. A foreground deletion of the workspace
// would delete owned objects at once, and a run in progress could not save its
// state. Revoke and RevokeAll delete them.
func (g Granter) Grant(ctx context.Context, run terraform.Run, request *terraform.Request) error {
	if owner := stateOwner(request); owner != nil {
		if owner.Backend.Namespace != run.Namespace {
			return fmt.Errorf("granting access to the state in namespace %s: a run can access only its own namespace, %s", owner.Backend.Namespace, run.Namespace)
		}
		if err := g.reserveState(ctx, owner, request.Workspace); err != nil {
			return err
		}
	}
	rules, err := g.rules(ctx, request)
	if err != nil {
		return err
	}
	objectMeta := runMeta(request.Workspace, record.ComponentRun, run.ID)
	objectMeta.Name = Name(run.ID)
	automount := false
	account := &corev1.ServiceAccount{ObjectMeta: *objectMeta.DeepCopy(), AutomountServiceAccountToken: &automount}
	role := &rbacv1.Role{ObjectMeta: *objectMeta.DeepCopy(), Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: *objectMeta.DeepCopy(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: objectMeta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: run.Namespace, Name: objectMeta.Name}},
	}
	create := func(object client.Object) error {
		err := g.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			err = g.replace(ctx, object, run)
		}
		if err != nil {
			return fmt.Errorf("creating %T %s: %w", object, objectMeta.Name, err)
		}
		return nil
	}
	if err := together([]client.Object{account, role}, create); err != nil {
		return err
	}
	// The API server refuses the binding of a Role that does not exist to a manager that does
	// not have its permissions.
	return create(binding)
}

// together calls a function for all objects at the same time, because each call waits for the
// storage of the API server. It returns all errors.
func together(objects []client.Object, call func(client.Object) error) error {
	errs := make([]error, len(objects))
	var calls sync.WaitGroup
	for i, object := range objects {
		calls.Go(func() { errs[i] = call(object) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

// replace replaces an object that an earlier Grant of the same run created, or that an
// earlier workspace of the name left: its tokens must not be valid for this run. The request
// of the run must still be stored after the object was read, because otherwise this manager
// was suspended, and the object may be that of the next workspace of the name.
func (g Granter) replace(ctx context.Context, desired client.Object, run terraform.Run) error {
	existing := desired.DeepCopyObject().(client.Object)
	if err := g.Reader.Get(ctx, client.ObjectKeyFromObject(desired), existing); err != nil {
		return err //nolint:wrapcheck // The caller names the object.
	}
	secret, err := ReadRun(ctx, g.Reader, run)
	if err != nil {
		return err
	}
	if record.RequestDigest(secret) != run.Digest {
		return fmt.Errorf("run %s: %w", run.ID, record.ErrForged)
	}
	if existing.GetAnnotations()[workspaceAnnotation] == run.WorkspaceUID {
		if _, isAccount := desired.(*corev1.ServiceAccount); isAccount {
			return nil
		}
		desired.SetResourceVersion(existing.GetResourceVersion())
		return g.Client.Update(ctx, desired) //nolint:wrapcheck // The caller names the object.
	}
	if err := g.Client.Delete(ctx, existing, unchanged(existing)); client.IgnoreNotFound(err) != nil {
		return err //nolint:wrapcheck // The caller names the object.
	}
	return g.Client.Create(ctx, desired) //nolint:wrapcheck // The caller names the object.
}

// Revoke deletes the service account of a run, its permissions and its stored token.
func (g Granter) Revoke(ctx context.Context, run terraform.Run) error {
	return g.revoke(ctx, run.Namespace, run.ID, run.WorkspaceUID)
}

// RevokeAll deletes the service accounts of all runs of a workspace, and their stored tokens.
// A token is found by its label too: its Role may be deleted already.
func (g Granter) RevokeAll(ctx context.Context, workspace terraform.WorkspaceRef) error {
	ids := map[string]bool{}
	for component, list := range map[string]client.ObjectList{record.ComponentRun: &rbacv1.RoleList{}, record.ComponentToken: &corev1.SecretList{}} {
		labels := client.MatchingLabels(record.LocalMeta(workspace, component, "").Labels)
		if err := g.Reader.List(ctx, list, client.InNamespace(workspace.Namespace), labels); err != nil {
			return fmt.Errorf("listing the service accounts of the workspace: %w", err)
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			ids[record.RunID(obj.(client.Object))] = true
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing the service accounts of the workspace: %w", err)
		}
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		errs = append(errs, g.revoke(ctx, workspace.Namespace, id, workspace.UID))
	}
	return errors.Join(errs...)
}

func (g Granter) revoke(ctx context.Context, namespace, runID, workspaceUID string) error {
	if runID == "" {
		return nil
	}
	objects := metav1.ObjectMeta{Namespace: namespace, Name: Name(runID)}
	token := metav1.ObjectMeta{Namespace: namespace, Name: TokenSecretName(runID)}
	return together([]client.Object{
		&rbacv1.RoleBinding{ObjectMeta: objects}, &rbacv1.Role{ObjectMeta: objects}, &corev1.ServiceAccount{ObjectMeta: objects},
		&corev1.Secret{ObjectMeta: token},
	}, func(object client.Object) error { return g.delete(ctx, object, workspaceUID) })
}

// delete deletes an object unless it belongs to the next workspace of the name. The caller
// may have been suspended since it read the workspace, and be so again after any read here:
// the API server compares what is deleted with what was read.
func (g Granter) delete(ctx context.Context, object client.Object, workspaceUID string) error {
	key := client.ObjectKeyFromObject(object)
	err := g.Reader.Get(ctx, key, object)
	if err == nil && object.GetAnnotations()[workspaceAnnotation] != workspaceUID {
		return nil
	}
	if err == nil {
		err = g.Client.Delete(ctx, object, unchanged(object))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %T %s: %w", object, key.Name, err)
	}
	return nil
}

// unchanged lets the API server delete an object only as it was read.
func unchanged(object client.Object) client.Preconditions {
	return client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())}
}

// workspaceAnnotation has the UID of the workspace of an object. It does not own the object: see Grant.
const workspaceAnnotation = "capt.appthrust.io/workspace-uid"

// runMeta returns the metadata of an object of a run, without a name.
func runMeta(workspace terraform.WorkspaceRef, component, runID string) metav1.ObjectMeta {
	meta := record.LocalMeta(workspace, component, runID)
	meta.OwnerReferences = nil
	meta.Annotations = map[string]string{workspaceAnnotation: workspace.UID}
	return meta
}

// stateOwner returns the request with the Kubernetes backend of a run, or nil. A run
// that moves the state has two backends, of which at most one is Kubernetes.
func stateOwner(request *terraform.Request) *terraform.Request {
	for _, r := range []*terraform.Request{request, request.From} {
		if r != nil && r.Backend.Type == terraform.BackendKubernetes {
			return r
		}
	}
	return nil
}

// workspacePermission begins the name of the permission to store content of a workspace.
const workspacePermission = "workspace:"

// rules returns the permissions of a run.
func (g Granter) rules(ctx context.Context, request *terraform.Request) ([]rbacv1.PolicyRule, error) {
	rules := []rbacv1.PolicyRule{
		secrets([]string{"get", "patch"}, record.SecretName(request.RunID)),
	}
	// Secrets that are reserved to CAPT: those with the labels of the run and its workspace,
	// and these. The policy for Secrets asks for the name with a colon, which no object has.
	reserved := []string{
		request.RunID, workspacePermission + record.LabelValue(request.Workspace.Name), record.SecretName(request.RunID),
	}
	if owner := stateOwner(request); owner != nil {
		reserved = append(reserved, owner.Backend.StateSecretName())
		rules = append(rules,
			secrets([]string{"get", "update", "patch"}, owner.Backend.StateSecretName()),
			rbacv1.PolicyRule{
				APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
				Verbs: []string{"get", "update"}, ResourceNames: []string{owner.Backend.LeaseName()},
			},
		)
	}
	stored, err := g.storedSecrets(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(stored) > 0 {
		rules = append(rules, secrets([]string{"get"}, stored...))
	}
	if request.Operation != terraform.OperationCheckDrift || g.KeepsDirectories || len(request.Rescued) > 0 {
		// A check of drift also saves what an earlier run could not save. The names of
		// the Secrets of plans and snapshots are not known yet, and
		// RBAC cannot limit create to names. The run cannot read the Secrets that
		// it creates.
		rules = append(rules, secrets([]string{"create"}))
	}
	return append(rules, rbacv1.PolicyRule{
		APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets/capt"}, Verbs: []string{"store"}, ResourceNames: reserved,
	}), nil
}

func secrets(verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: verbs, ResourceNames: names}
}

// storedSecrets returns the names of the Secrets of the module, the plan, the
// snapshot, the input and the rescued states that the run reads.
func (g Granter) storedSecrets(ctx context.Context, request *terraform.Request) ([]string, error) {
	type content struct {
		name       string
		components []string
	}
	var stored []content
	rescued := request.Rescued
	if request.From != nil {
		rescued = slices.Concat(rescued, request.From.Rescued)
	}
	for _, name := range rescued {
		stored = append(stored, content{name, []string{record.ComponentRescue}})
	}
	if pin := request.Module.Pin; pin != nil && pin.Archive != "" {
		stored = append(stored, content{pin.Archive, []string{record.ComponentModule}})
	}
	if artifact := request.Module.Artifact; artifact != nil && artifact.Archive != "" {
		stored = append(stored, content{artifact.Archive, []string{record.ComponentModule}})
	}
	switch {
	case request.Operation.AppliesPlan() && request.Plan != nil:
		stored = append(stored, content{request.Plan.ID, []string{record.ComponentPlan}})
	case request.Operation == terraform.OperationRestoreState:
		stored = append(stored, content{request.Snapshot, []string{record.ComponentSnapshot, record.ComponentRescue}})
	case request.Operation == terraform.OperationStateCommand && request.StateCommand.Input != "":
		stored = append(stored, content{request.StateCommand.Input, []string{record.ComponentTransfer}})
	}
	var names []string
	for _, content := range stored {
		chunks, err := g.chunkNames(ctx, request.Workspace, content.name, content.components)
		if err != nil {
			return nil, err
		}
		names = append(names, chunks...)
	}
	return names, nil
}

// chunkNames returns the names of the Secrets with a stored plan or state. A run can
// create Secrets, so it must not choose which ones a later run reads: each must exist,
// be a part of the expected content of the workspace, and hold plain data.
func (g Granter) chunkNames(ctx context.Context, workspace terraform.WorkspaceRef, stored string, components []string) ([]string, error) {
	var names []string
	for i, count := 0, 1; i < count; i++ {
		secret := &corev1.Secret{}
		err := g.Reader.Get(ctx, client.ObjectKey{Namespace: workspace.Namespace, Name: record.ChunkName(stored, i)}, secret)
		if apierrors.IsNotFound(err) {
			// The run reports what is missing.
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", stored, err)
		}
		if secret.Type != corev1.SecretTypeOpaque || !slices.ContainsFunc(components, func(component string) bool { return record.BelongsTo(secret, workspace, component) }) {
			return nil, nil
		}
		if i == 0 {
			if count, err = record.ChunkCount(secret); err != nil {
				return nil, err
			}
		}
		names = append(names, secret.Name)
	}
	return names, nil
}
