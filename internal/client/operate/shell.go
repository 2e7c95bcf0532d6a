package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// CheckShell returns an error if the user cannot open a shell: another one is open, a run
// holds the lock, or a permission is missing.
func CheckShell(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	if err := errors.Join(checkHosted(apply), checkUsesState(apply)); err != nil {
		return err
	}
	if err := checkNoShell(ctx, c, apply); err != nil {
		return err
	}
	// Otherwise a changed state could not be saved.
	allowed, err := Allowed(ctx, c, authorizationv1.ResourceAttributes{Namespace: apply.Namespace, Resource: "secrets", Subresource: "capt", Verb: "manage"})
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("a shell needs the permission to manage secrets/capt in namespace %s, because it writes the state: use captctl run and captctl state instead, or ask an administrator", apply.Namespace)
	}
	_, err = ShellLock(ctx, c, apply)
	return err
}

// Allowed reports whether the user may do something.
func Allowed(ctx context.Context, c client.Client, attributes authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("reviewing the user's access: %w", err)
	}
	return review.Status.Allowed, nil
}

// checkNoShell returns an error if a user has a shell with the state.
func checkNoShell(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	open, err := OpenShells(ctx, c, apply)
	if err != nil || len(open) == 0 {
		return err
	}
	other := open[0].Spec
	return fmt.Errorf("%s has a shell already (%s of %s on %s): wait until it is closed, or end it with captctl unlock %s",
		apply.Name, other.Shell.ID, cmp.Or(other.RequestedBy, "a user"), other.Shell.Host, apply.Name)
}

// ShellLock returns the lock of a run that is gone, which a shell may take over, or nil if
// the state is not locked. Any other lock, and a state that is not saved, are errors.
func ShellLock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	if err := checkRescued(ctx, c, apply); err != nil {
		return nil, err
	}
	lock, err := FindLock(ctx, c, apply)
	if err != nil || lock == nil {
		return nil, err
	}
	switch lock.Holder {
	case terraform.LivenessRunning, terraform.LivenessPending:
		return nil, fmt.Errorf("run %s holds the lock and is active (%s): wait for it, or cancel it with captctl cancel %s", lock.ID, lock.Where, apply.Name)
	case terraform.LivenessGone:
		return lock, nil
	default:
		return nil, fmt.Errorf("%s holds lock %s of the state since %s: break it with captctl unlock %s if it does not exist any more", lock.Who, lock.ID, lock.Created, apply.Name)
	}
}

// checkRescued returns an error if a run could not save its state. A change of the older
// state that is saved would make it unusable.
func checkRescued(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) error {
	snapshots, err := Snapshots(ctx, c, apply)
	if err != nil {
		return err
	}
	for _, snapshot := range snapshots {
		if snapshot.Kind == record.ComponentRescue && !snapshot.Superseded {
			return fmt.Errorf("a run could not save its state, which is in %s: start a run with captctl reconcile %s, which saves it, and open the shell then. If the run cannot, the condition %s has the commands", snapshot.Name, apply.Name, infrav1.StateSavedCondition)
		}
	}
	return nil
}

// OpenShell says that the user works with the state by hand, so that no run starts. The shell
// is open until the operation is deleted.
func OpenShell(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, host, reason string) (*infrav1.WorkspaceOperation, error) {
	id := "shell-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	return request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationShell, Shell: &infrav1.ShellOptions{ID: id, Host: host, Reason: message.OneLine(reason)}})
}

// OpenShells returns the open shells of a workspace.
func OpenShells(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) ([]*infrav1.WorkspaceOperation, error) {
	return operations(ctx, c, apply, openOf(infrav1.OperationShell))
}

// CloseShells says that the shells of a workspace have ended.
func CloseShells(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	open, err := OpenShells(ctx, c, apply)
	for _, operation := range open {
		if deleteErr := c.Delete(ctx, operation); client.IgnoreNotFound(deleteErr) != nil {
			err = errors.Join(err, fmt.Errorf("closing shell %s: %w", operation.Spec.Shell.ID, deleteErr))
		}
	}
	return err
}

// ShellRequest returns the request for a shell with the module and the inputs of a
// workspace. The module has the content of the latest run. Gone is the lock that the shell
// takes over, or nil.
func ShellRequest(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, gone *Lock) (*terraform.Request, error) {
	request, _, err := requestOf(ctx, c, apply, func(*infrav1.ModuleParameters) {})
	if err != nil {
		return nil, err
	}
	if request.Backend.Type != terraform.BackendKubernetes {
		return nil, fmt.Errorf("the state of %s is in backend %s, whose lock no shell can hold: use captctl state pull, push, mv or rm, captctl run, or move the state with captctl state migrate-backend", apply.Name, request.Backend.Type)
	}
	if gone != nil {
		request.GoneRuns = []string{gone.ID}
	}
	request.Timeout = 0
	if resolved := apply.Status.Module; resolved != nil && request.Module.Source != terraform.SourceInline {
		request.Module.Pin = &terraform.ModuleContent{Digest: resolved.Digest, Revision: resolved.Revision, Archive: resolved.Archive}
		if artifact := request.Module.Artifact; artifact != nil {
			artifact.Digest, artifact.Revision = resolved.Artifact, resolved.Revision
		}
	}
	if state := apply.Status.State; state != nil {
		request.State.StateInfo = terraform.StateInfo{Lineage: state.Lineage, Serial: uint64(max(state.Serial, 0)), Resources: int(state.Resources)}
	}
	return request, nil
}
