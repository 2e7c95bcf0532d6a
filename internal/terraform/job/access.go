package job

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// grant makes the account of a run and lets it do what the run needs. The state
// and its lock are made first where they do not exist.
//
// None of it has an owner: a workspace that is deleted in the foreground would
// take it away at once, and a run could not save the state it is about to end
// with. Forget and Remove delete it.
func (e *Executor) grant(ctx context.Context, run terraform.Run, request *terraform.Request) error {
	if request.Backend.Type == terraform.BackendKubernetes {
		if request.Backend.Namespace != run.Namespace {
			return fmt.Errorf("the state is in namespace %s; a Job reaches only its own, %s", request.Backend.Namespace, run.Namespace)
		}
		if err := e.reserveState(ctx, request); err != nil {
			return err
		}
	}
	rules, err := e.rules(ctx, request)
	if err != nil {
		return err
	}
	meta := record.LocalMeta(request.Workspace, record.ComponentRun, run.ID)
	meta.Name, meta.OwnerReferences = name(run.ID), nil
	account := run.Pod.ServiceAccountName
	if account == "" {
		account = meta.Name
		automount := false
		made := &corev1.ServiceAccount{ObjectMeta: *meta.DeepCopy(), AutomountServiceAccountToken: &automount}
		if err := e.Client.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ServiceAccount %s: %w", made.Name, err)
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
			// It may be of an earlier run of that name, with other rights.
			err = e.Client.Update(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("granting %T %s: %w", object, meta.Name, err)
		}
	}
	return nil
}

// revoke deletes an account and what it may do.
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

// Remove deletes the accounts of runs that nobody remembers. Jobs go with the
// workspace.
func (e *Executor) Remove(ctx context.Context, workspace terraform.WorkspaceRef) error {
	var roles rbacv1.RoleList
	labels := client.MatchingLabels(record.LocalMeta(workspace, record.ComponentRun, "").Labels)
	if err := e.Reader.List(ctx, &roles, client.InNamespace(workspace.Namespace), labels); err != nil {
		return fmt.Errorf("listing the accounts of a workspace: %w", err)
	}
	var errs []error
	for i := range roles.Items {
		errs = append(errs, e.revoke(ctx, workspace.Namespace, roles.Items[i].Name))
	}
	return errors.Join(errs...)
}

// reserveState makes the Secret of the state and the Lease that locks it. A run
// that could create a Secret of a name it may read could have the token of any
// account of the namespace put into it: the type of a Secret is chosen when it
// is created.
func (e *Executor) reserveState(ctx context.Context, request *terraform.Request) error {
	meta := record.StateMeta(request)
	meta.Name = request.Backend.StateSecretName()
	secret := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeOpaque}
	meta.Name = request.Backend.LeaseName()
	for _, object := range []client.Object{secret, &coordinationv1.Lease{ObjectMeta: meta}} {
		if err := e.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// rules is all that a run may do.
func (e *Executor) rules(ctx context.Context, request *terraform.Request) ([]rbacv1.PolicyRule, error) {
	rules := []rbacv1.PolicyRule{
		secrets([]string{"get", "patch"}, record.SecretName(request.RunID)),
	}
	if request.Backend.Type == terraform.BackendKubernetes {
		rules = append(rules,
			secrets([]string{"get", "update", "patch"}, request.Backend.StateSecretName()),
			rbacv1.PolicyRule{
				APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
				Verbs: []string{"get", "update"}, ResourceNames: []string{request.Backend.LeaseName()},
			},
		)
	}
	kept, err := e.kept(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(kept) > 0 {
		rules = append(rules, secrets([]string{"get"}, kept...))
	}
	if request.Operation != terraform.OperationCheckDrift {
		// Plans and snapshots are kept in Secrets whose names are known only
		// when they are made, and creation cannot be limited to names. The run
		// can read none of what it creates.
		rules = append(rules, secrets([]string{"create"}))
	}
	return rules, nil
}

func secrets(verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: verbs, ResourceNames: names}
}

// kept lists the Secrets of the plan or the snapshot that the run reads.
func (e *Executor) kept(ctx context.Context, request *terraform.Request) ([]string, error) {
	whole := ""
	switch {
	case request.Operation == terraform.OperationApply && request.Plan != nil:
		whole = request.Plan.ID
	case request.Operation == terraform.OperationRestoreState:
		whole = request.Snapshot
	}
	if whole == "" {
		return nil, nil
	}
	first := &corev1.Secret{}
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: request.Workspace.Namespace, Name: record.ChunkName(whole, 0)}, first)
	if apierrors.IsNotFound(err) {
		// The run says so in its own words.
		return []string{record.ChunkName(whole, 0)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", whole, err)
	}
	count, err := record.ChunkCount(first)
	if err != nil {
		return nil, err
	}
	names := make([]string, count)
	for i := range names {
		names[i] = record.ChunkName(whole, i)
	}
	return names, nil
}
