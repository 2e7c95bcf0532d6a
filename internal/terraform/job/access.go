package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// grant creates the service account of a run and its permissions. It first
// creates the state and its lock if they do not exist.
//
// None of these objects has an owner. A foreground deletion of the workspace
// would delete owned objects at once, and a run in progress could not save its
// state. Forget and Remove delete them.
func (e *Executor) grant(ctx context.Context, run terraform.Run, request *terraform.Request) error {
	if owner := stateOwner(request); owner != nil {
		if owner.Backend.Namespace != run.Namespace {
			return fmt.Errorf("granting access to the state in namespace %s: a Job can access only its own namespace, %s", owner.Backend.Namespace, run.Namespace)
		}
		if err := e.reserveState(ctx, owner, request.Workspace); err != nil {
			return err
		}
	}
	rules, err := e.rules(ctx, request)
	if err != nil {
		return err
	}
	meta := record.LocalMeta(request.Workspace, record.ComponentRun, run.ID)
	meta.Name, meta.OwnerReferences = name(run.ID), nil
	account := request.Pod.ServiceAccountName
	if account == "" {
		account = meta.Name
		automount := false
		created := &corev1.ServiceAccount{ObjectMeta: *meta.DeepCopy(), AutomountServiceAccountToken: &automount}
		if err := e.Client.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ServiceAccount %s: %w", created.Name, err)
		}
	}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: *meta.DeepCopy(), Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: *meta.DeepCopy(),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: run.Namespace, Name: account}},
		},
	} {
		err := e.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			// An earlier run of the same name may have left it, with other rules.
			err = e.Client.Update(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("creating %T %s: %w", object, meta.Name, err)
		}
	}
	return nil
}

// revoke deletes a service account and its permissions.
func (e *Executor) revoke(ctx context.Context, namespace, name string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	var errs []error
	for _, object := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta},
	} {
		if err := e.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %T %s: %w", object, name, err))
		}
	}
	return errors.Join(errs...)
}

// Remove deletes the service accounts of all runs of a workspace. The garbage
// collector deletes the Jobs.
func (e *Executor) Remove(ctx context.Context, workspace terraform.WorkspaceRef) error {
	var roles rbacv1.RoleList
	labels := client.MatchingLabels(record.LocalMeta(workspace, record.ComponentRun, "").Labels)
	if err := e.Reader.List(ctx, &roles, client.InNamespace(workspace.Namespace), labels); err != nil {
		return fmt.Errorf("listing Roles of the workspace: %w", err)
	}
	var errs []error
	for i := range roles.Items {
		errs = append(errs, e.revoke(ctx, workspace.Namespace, roles.Items[i].Name))
	}
	return errors.Join(errs...)
}

// reserveState creates the Secret of the state and the Lease that locks it. It returns an
// error if the state is not that of the workspace. A run must not create a Secret that it
// can read: it could choose the type of a service account token and so read the token of
// any account in the namespace.
func (e *Executor) reserveState(ctx context.Context, request *terraform.Request, workspace terraform.WorkspaceRef) error {
	meta := record.StateMeta(request)
	meta.Name = request.Backend.StateSecretName()
	secret := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeOpaque}
	meta.Name = request.Backend.LeaseName()
	for _, object := range []client.Object{secret, &coordinationv1.Lease{ObjectMeta: meta}} {
		if err := e.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	existing := &corev1.Secret{}
	if err := e.Reader.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	if existing.Type != corev1.SecretTypeOpaque {
		// A Secret with a token, for example, that another run created under this name.
		return fmt.Errorf("the Secret %s has type %s and is not a state: %w", existing.Name, existing.Type, record.ErrForged)
	}
	if record.BelongsToAnother(existing, workspace) {
		return fmt.Errorf("state %s belongs to another workspace: %w", existing.Name, record.ErrForged)
	}
	return nil
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

// rules returns the permissions of a run.
func (e *Executor) rules(ctx context.Context, request *terraform.Request) ([]rbacv1.PolicyRule, error) {
	rules := []rbacv1.PolicyRule{
		secrets([]string{"get", "patch"}, record.SecretName(request.RunID)),
	}
	// Secrets that are reserved to CAPT: those with the label of the run, and these.
	reserved := []string{request.RunID, record.SecretName(request.RunID)}
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
	stored, err := e.storedSecrets(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(stored) > 0 {
		rules = append(rules, secrets([]string{"get"}, stored...))
	}
	if request.Operation != terraform.OperationCheckDrift {
		// The names of the Secrets of plans and snapshots are not known yet, and
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
func (e *Executor) storedSecrets(ctx context.Context, request *terraform.Request) ([]string, error) {
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
	switch {
	case request.Operation == terraform.OperationApply && request.Plan != nil:
		stored = append(stored, content{request.Plan.ID, []string{record.ComponentPlan}})
	case request.Operation == terraform.OperationRestoreState:
		stored = append(stored, content{request.Snapshot, []string{record.ComponentSnapshot, record.ComponentRescue}})
	case request.Operation == terraform.OperationStateCommand && request.StateCommand.Input != "":
		stored = append(stored, content{request.StateCommand.Input, []string{record.ComponentTransfer}})
	}
	var names []string
	for _, content := range stored {
		chunks, err := e.chunkNames(ctx, request.Workspace, content.name, content.components)
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
func (e *Executor) chunkNames(ctx context.Context, workspace terraform.WorkspaceRef, stored string, components []string) ([]string, error) {
	var names []string
	for i, count := 0, 1; i < count; i++ {
		secret := &corev1.Secret{}
		err := e.Reader.Get(ctx, client.ObjectKey{Namespace: workspace.Namespace, Name: record.ChunkName(stored, i)}, secret)
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
