package sources

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// checkLending returns a fault unless a workspace that runs for one of another namespace
// may do so: it has the name that CAPT gives it, that workspace has it as its lender, and
// template and provider config are granted to that namespace.
func (r *Resolver) checkLending(ctx context.Context, s *Resolved) error {
	if namespace, _ := s.Apply.HostedFor(); namespace == "" {
		return nil
	}
	borrower, found := s.BorrowerKey()
	if !found {
		return fault.Stall(infrav1.NotAllowedReason, "The annotation %s was not set by CAPT: remove it", infrav1.HostedForAnnotation)
	}
	if err := r.checkBorrower(ctx, s, borrower); err != nil {
		return err
	}
	if err := r.Grants.Check(ctx, borrower.Namespace, infrav1.GrantedWorkspaceTemplate, client.ObjectKeyFromObject(s.Sources.Template)); err != nil {
		return err
	}
	if config := s.Sources.ProviderConfig; config != nil {
		return r.Grants.Check(ctx, borrower.Namespace, infrav1.GrantedWorkspaceProviderConfig, client.ObjectKeyFromObject(config))
	}
	return nil
}

// checkBorrower returns a fault unless the borrower of a workspace exists and runs here. A
// workspace that is being deleted needs no borrower to destroy its resources.
func (r *Resolver) checkBorrower(ctx context.Context, s *Resolved, key client.ObjectKey) error {
	if s.Borrower != nil || !s.Apply.DeletionTimestamp.IsZero() {
		return nil
	}
	borrower := &infrav1.WorkspaceTemplateApply{}
	err := r.Client.Get(ctx, key, borrower)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply "+key.String()+", for which this one runs,", "restore or move it, or delete this one"); err != nil {
		return err
	}
	if !s.IsLentTo(borrower) {
		return fault.Wait(infrav1.NotAllowedReason, "WorkspaceTemplateApply %s, for which this one runs, does not run in namespace %s", key, s.Apply.Namespace)
	}
	return nil
}
