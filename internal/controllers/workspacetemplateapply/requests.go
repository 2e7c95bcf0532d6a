package workspacetemplateapply

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceapprovals,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceoperations,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceoperations/status,verbs=patch

// requests writes how far the operations of the workspace are, and deletes those that ended long
// ago. No run starts before it is written that the last one has ended an operation.
func (r *Reconciler) requests(ctx context.Context, s *execution.Scope) error {
	for _, o := range s.Requests.Operations {
		if o.Ended() {
			continue
		}
		if err := runs.SetOperation(ctx, r.Client, o, history.OperationStatus(s.Workspace, o)); err != nil {
			return err
		}
	}
	next, err := r.store.CleanRequests(ctx, s.Workspace)
	s.OperationsExpire = next
	return err
}

// untilExpired returns the time until the next operation is deleted, or 0.
func untilExpired(s *execution.Scope) time.Duration { return s.OperationsExpire }

// requestedOf maps an operation or an approval to its workspace, and to the one that runs for it.
func (r *Reconciler) requestedOf(ctx context.Context, obj client.Object) []ctrl.Request {
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: runs.RequestedOf(obj)[0]}
	requests := []ctrl.Request{{NamespacedName: key}}
	borrower := &infrav1.WorkspaceTemplateApply{}
	if err := r.Client.Get(ctx, key, borrower); err == nil && borrower.Status.Host != nil {
		host := borrower.Status.Host
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Name}})
	}
	return requests
}
