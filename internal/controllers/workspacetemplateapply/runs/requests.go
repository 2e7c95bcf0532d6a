package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/operation"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Requests are what users have requested of a workspace, and decided about its plans.
type Requests struct {
	// Operations are the operations of the workspace, the oldest first.
	Operations []*infrav1.WorkspaceOperation
	// Foreign are operations that were requested of an earlier workspace of the name, or of the
	// one of which this is a copy.
	Foreign []*infrav1.WorkspaceOperation
	// Approvals are the decisions about plans of the workspace, the latest first.
	Approvals []*infrav1.WorkspaceApproval
	// of are the workspace and the one for which it runs.
	of []identity
}

// identity is a workspace, and no later one of its name.
type identity struct {
	key client.ObjectKey
	uid types.UID
}

// RequestIndex is the index of operations and approvals by their workspace.
const RequestIndex = "capt.request"

// RequestedOf returns the name of the workspace that an operation or an approval is for.
func RequestedOf(obj client.Object) []string {
	switch o := obj.(type) {
	case *infrav1.WorkspaceOperation:
		return []string{o.Spec.Workspace}
	case *infrav1.WorkspaceApproval:
		return []string{o.Spec.Workspace}
	default:
		return nil
	}
}

// ReadRequests reads the requests for the workspace, the borrower for which it runs, and the
// requests of that one.
func (r *Store) ReadRequests(ctx context.Context, s *Workspace) error {
	s.Requests = Requests{}
	if err := r.addRequests(ctx, s, identity{s.Name(), s.Apply.UID}, func(*infrav1.WorkspaceOperation) bool { return true }); err != nil {
		return err
	}
	s.Borrower = nil
	key, found := s.BorrowerKey()
	if !found {
		return nil
	}
	borrower := &infrav1.WorkspaceTemplateApply{}
	if err := r.Client.Get(ctx, key, borrower); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading workspace %s: %w", key, err)
	}
	if !s.IsLentTo(borrower) {
		return nil
	}
	s.Borrower = borrower
	return r.addRequests(ctx, s, identity{key, borrower.UID}, MayBorrow)
}

// MayBorrow reports whether a workspace whose provider config was lent passes an operation on.
// Those that read or change the state are for the users of the lender.
func MayBorrow(o *infrav1.WorkspaceOperation) bool {
	switch o.Spec.Type {
	case infrav1.OperationCheckDrift, infrav1.OperationCancel, infrav1.OperationUnlock:
		return true
	default:
		return o.Spec.Type == infrav1.OperationRun && !o.Spec.HasOptions()
	}
}

func (r *Store) addRequests(ctx context.Context, s *Workspace, of identity, passed func(*infrav1.WorkspaceOperation) bool) error {
	options := []client.ListOption{client.InNamespace(of.key.Namespace), client.MatchingFields{RequestIndex: of.key.Name}}
	var operations infrav1.WorkspaceOperationList
	if err := r.Client.List(ctx, &operations, options...); err != nil {
		return fmt.Errorf("listing the operations of the workspace: %w", err)
	}
	var approvals infrav1.WorkspaceApprovalList
	if err := r.Client.List(ctx, &approvals, options...); err != nil {
		return fmt.Errorf("listing the approvals of the workspace: %w", err)
	}
	q := &s.Requests
	for i := range operations.Items {
		switch o := &operations.Items[i]; {
		case !o.DeletionTimestamp.IsZero() || !passed(o):
		case o.Spec.WorkspaceUID == of.uid:
			q.Operations = append(q.Operations, o)
		default:
			q.Foreign = append(q.Foreign, o)
		}
	}
	slices.SortFunc(q.Operations, func(a, b *infrav1.WorkspaceOperation) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	q.of = append(q.of, of)
	q.addApprovals(approvals.Items, of)
	return nil
}

// addApprovals adds the decisions about plans of a workspace.
func (q *Requests) addApprovals(approvals []infrav1.WorkspaceApproval, of identity) {
	for i := range approvals {
		if a := &approvals[i]; a.Spec.Workspace == of.key.Name && a.Spec.WorkspaceUID == of.uid {
			q.Approvals = append(q.Approvals, a)
		}
	}
	slices.SortFunc(q.Approvals, func(a, b *infrav1.WorkspaceApproval) int {
		// In the same second, the rejection counts.
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Spec.Decision, a.Spec.Decision))
	})
}

// Decision returns the decision about a plan that counts, or nil: the latest one. A workspace that
// runs for one of another namespace needs that of both, so a rejection of either counts.
func (q *Requests) Decision(plan string) *infrav1.WorkspaceApproval {
	latest := map[string]*infrav1.WorkspaceApproval{}
	var counts *infrav1.WorkspaceApproval
	for _, a := range q.Approvals {
		if plan == "" || a.Spec.Plan != plan || latest[a.Namespace] != nil {
			continue
		}
		latest[a.Namespace] = a
		if counts == nil || a.Spec.Decision == infrav1.DecisionReject {
			counts = a
		}
	}
	return counts
}

// pending returns the operations of a type that have not ended.
func (q *Requests) pending(kind infrav1.OperationType) []*infrav1.WorkspaceOperation {
	var pending []*infrav1.WorkspaceOperation
	for _, o := range q.Operations {
		if o.Spec.Type == kind && !o.Ended() {
			pending = append(pending, o)
		}
	}
	return pending
}

// RunOfOperation returns the newest run that executes or executed an operation, or nil. One that
// was withdrawn did not happen, unless a user canceled it.
func (s *Workspace) RunOfOperation(o *infrav1.WorkspaceOperation) *Run {
	for _, run := range s.Runs {
		happened := run.Result() == nil || !run.Result().Withdrawn || s.IsCanceled(run.ID)
		// It has the UIDs of all operations that the run executes, of which there may be hundreds.
		if happened && strings.Contains(run.Secret.Annotations[record.OperationsAnnotation], string(o.UID)) {
			return run
		}
	}
	return nil
}

// untried reports whether an operation has no run that has ended.
func (s *Workspace) untried(o *infrav1.WorkspaceOperation) bool {
	run := s.RunOfOperation(o)
	return run == nil || run.Result() == nil
}

// firstUntried returns the first operation that no run has tried, or nil.
func (s *Workspace) firstUntried(operations []*infrav1.WorkspaceOperation) *infrav1.WorkspaceOperation {
	for _, o := range operations {
		if s.untried(o) {
			return o
		}
	}
	return nil
}

// plainRuns returns the requests for a run without options that have not ended.
func (q *Requests) plainRuns() []*infrav1.WorkspaceOperation {
	return slices.DeleteFunc(q.pending(infrav1.OperationRun), func(o *infrav1.WorkspaceOperation) bool { return o.Spec.HasOptions() })
}

// RunRequested reports whether a user requested a run that was not tried. What a user allows the
// next run requests one as well.
func (s *Workspace) RunRequested() bool {
	q := &s.Requests
	return s.firstUntried(slices.Concat(q.plainRuns(), q.pending(infrav1.OperationUnlock), q.pending(infrav1.OperationAdopt))) != nil
}

// DriftCheckRequested reports whether a user requested a drift check that was not tried.
func (s *Workspace) DriftCheckRequested() bool {
	return s.firstUntried(s.Requests.pending(infrav1.OperationCheckDrift)) != nil
}

// PendingRestore returns the operation whose snapshot is restored, or nil.
func (s *Workspace) PendingRestore() *infrav1.WorkspaceOperation {
	return lastOf(s.Requests.pending(infrav1.OperationRestore))
}

// PendingMove returns the operation that moves the state, or nil.
func (s *Workspace) PendingMove() *infrav1.WorkspaceOperation {
	return lastOf(s.Requests.pending(infrav1.OperationMove))
}

// IsReplaced reports whether a user has requested another restore or move since. Such an operation
// stays until it succeeds, so the later one replaces it.
func (s *Workspace) IsReplaced(o *infrav1.WorkspaceOperation) bool {
	stays := o.Spec.Type == infrav1.OperationRestore || o.Spec.Type == infrav1.OperationMove
	return stays && lastOf(s.Requests.pending(o.Spec.Type)) != o
}

func lastOf(operations []*infrav1.WorkspaceOperation) *infrav1.WorkspaceOperation {
	if len(operations) == 0 {
		return nil
	}
	return operations[len(operations)-1]
}

// PendingCommand returns the state command that is executed next, or nil.
func (s *Workspace) PendingCommand() *infrav1.WorkspaceOperation {
	return s.firstUntried(s.Requests.pending(infrav1.OperationState))
}

// OpenShell returns the shell of a user, or nil.
func (s *Workspace) OpenShell() *infrav1.WorkspaceOperation {
	return firstOf(s.Requests.pending(infrav1.OperationShell))
}

func firstOf(operations []*infrav1.WorkspaceOperation) *infrav1.WorkspaceOperation {
	if len(operations) == 0 {
		return nil
	}
	return operations[0]
}

// PendingOneShot returns the run with options that is executed next, or whose plan waits, or nil.
func (s *Workspace) PendingOneShot() *infrav1.WorkspaceOperation {
	for _, o := range s.Requests.pending(infrav1.OperationRun) {
		if o.Spec.HasOptions() && !s.IsDecided(o) {
			return o
		}
	}
	return nil
}

// IsDecided reports whether the last run of a run with options has decided it. A run that was
// stopped before it changed anything did not happen, and a stale plan is made again.
func (s *Workspace) IsDecided(o *infrav1.WorkspaceOperation) bool {
	run := s.RunOfOperation(o)
	if run == nil || run.Result() == nil {
		return false
	}
	result := run.Result()
	outcome := s.Outcome(run, result)
	switch {
	case result.StalePlan, outcome == terraform.OutcomeInterrupted && !MayHaveChanged(result):
		return false
	case outcome == terraform.OutcomePlanned && !o.Spec.Run.PlanOnly:
		plan := s.Apply.Status.Plan
		return !plan.IsWaiting() || plan.Inputs != run.Inputs()
	default:
		return true
	}
}

// IsUnlocked reports whether a user says that a run has ended.
func (s *Workspace) IsUnlocked(id string) bool {
	return slices.ContainsFunc(s.Requests.pending(infrav1.OperationUnlock), func(o *infrav1.WorkspaceOperation) bool { return o.Spec.Unlock.Lock == id })
}

// BreakLock returns the lock that the user wants to break, or an empty string.
func (s *Workspace) BreakLock() string {
	if pending := s.Requests.pending(infrav1.OperationUnlock); len(pending) > 0 {
		return pending[len(pending)-1].Spec.Unlock.Lock
	}
	return ""
}

// IsCanceled reports whether a user has canceled a run. The operation may have ended, and the
// write of the status failed.
func (s *Workspace) IsCanceled(id string) bool {
	return slices.ContainsFunc(s.Requests.Operations, func(o *infrav1.WorkspaceOperation) bool {
		return o.Spec.Type == infrav1.OperationCancel && o.Spec.Cancel.Run == id && o.Status.Phase != infrav1.OperationFailed
	})
}

// AdoptedState returns the version of a state that a user wants the workspace to use, or an
// empty string.
func (s *Workspace) AdoptedState() string {
	return s.adopted(func(o *infrav1.AdoptOptions) string { return o.State })
}

// MovedBackend returns the backend to which a user has moved the state, or an empty string.
func (s *Workspace) MovedBackend() string {
	return s.adopted(func(o *infrav1.AdoptOptions) string { return o.Backend })
}

func (s *Workspace) adopted(what func(*infrav1.AdoptOptions) string) string {
	for _, o := range slices.Backward(s.Requests.pending(infrav1.OperationAdopt)) {
		if value := what(o.Spec.Adopt); value != "" {
			return value
		}
	}
	return ""
}

// ApprovedPlan returns the plan that users have approved, or an empty string.
func (s *Workspace) ApprovedPlan() string {
	plan := s.Apply.Status.Plan
	if plan == nil {
		return s.Apply.Spec.ApprovedPlan
	}
	switch d := s.Requests.Decision(plan.ID); {
	case d == nil:
		return s.Apply.Spec.ApprovedPlan
	case d.Spec.Decision == infrav1.DecisionApprove:
		return plan.ID
	default:
		return ""
	}
}

// RejectedPlan returns the latest plan if a user has rejected it, or an empty string.
func (s *Workspace) RejectedPlan() string {
	plan := s.Apply.Status.Plan
	if plan == nil {
		return ""
	}
	if d := s.Requests.Decision(plan.ID); d != nil && d.Spec.Decision == infrav1.DecisionReject {
		return plan.ID
	}
	return ""
}

// Unprotected returns the protected resources that a user allows a run of the inputs to destroy.
func (s *Workspace) Unprotected(inputs string) []string {
	plan := s.Apply.Status.Plan
	if plan == nil || plan.Inputs != inputs {
		return nil
	}
	if d := s.Requests.Decision(plan.ID); d != nil && d.Spec.Decision == infrav1.DecisionApprove {
		return d.Spec.AllowDestroy
	}
	return nil
}

// maxSame limits how many operations of a type one run executes. The others request another run.
// Each is read again before the run starts, and its UID is in the Secret of the run.
const maxSame = 100

// Fulfils returns the operations that the next run executes: those that request it, and those
// that allow it something.
func (s *Workspace) Fulfils(next terraform.Operation, oneShot bool) []*infrav1.WorkspaceOperation {
	var list []*infrav1.WorkspaceOperation
	add := func(operations ...*infrav1.WorkspaceOperation) {
		for _, o := range operations[:min(len(operations), maxSame)] {
			if o != nil {
				list = append(list, o)
			}
		}
	}
	switch {
	case oneShot:
		add(s.PendingOneShot())
	case next == terraform.OperationStateCommand:
		add(s.PendingCommand())
	case next == terraform.OperationCheckDrift:
		add(s.Requests.pending(infrav1.OperationCheckDrift)...)
	case next == terraform.OperationRestoreState:
		add(s.PendingRestore())
	case next == terraform.OperationMoveState:
		add(s.PendingMove())
	}
	if !oneShot && next != terraform.OperationStateCommand {
		add(s.Requests.plainRuns()...)
	}
	add(s.Requests.pending(infrav1.OperationUnlock)...)
	add(s.Requests.pending(infrav1.OperationAdopt)...)
	return list
}

// EnsureRequested returns a conflict if an operation that the next run executes was withdrawn, or
// if another decision counts about the latest plan. The cache may not have it yet.
func (r *Store) EnsureRequested(ctx context.Context, s *Workspace, operations []*infrav1.WorkspaceOperation) error {
	for _, o := range operations {
		live := &infrav1.WorkspaceOperation{}
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(o), live)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading operation %s: %w", o.Name, err)
		case err != nil || live.UID != o.UID || live.Ended():
			return s.StaleCache()
		}
	}
	if !s.Apply.Status.Plan.IsWaiting() {
		return nil
	}
	live, plan := Requests{}, s.Apply.Status.Plan.ID
	for _, of := range s.Requests.of {
		var list infrav1.WorkspaceApprovalList
		if err := r.Reader.List(ctx, &list, client.InNamespace(of.key.Namespace)); err != nil {
			return fmt.Errorf("listing the approvals of the workspace: %w", err)
		}
		live.addApprovals(list.Items, of)
	}
	known, current := s.Requests.Decision(plan), live.Decision(plan)
	if (known == nil) != (current == nil) || known != nil && known.UID != current.UID {
		return s.StaleCache()
	}
	return nil
}

// Plans reports whether the plan of a run waits for a decision.
func (s *Workspace) Plans(run *Run) bool {
	plan := s.Apply.Status.Plan
	return plan.IsWaiting() && plan.Run == run.ID
}

// DeleteRequests deletes the operations and the approvals of a workspace that is deleted. The garbage
// collector would delete them before the resources are destroyed, if the deletion is in the foreground.
func (r *Store) DeleteRequests(ctx context.Context, s *Workspace) error {
	for _, o := range s.Requests.Operations {
		if err := r.deleteRequest(ctx, o); err != nil {
			return err
		}
	}
	for _, a := range s.Requests.Approvals {
		if err := r.deleteRequest(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// deleteRequest deletes an operation or an approval, and no later one of its name.
func (r *Store) deleteRequest(ctx context.Context, obj client.Object) error {
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})); err != nil {
		return fmt.Errorf("deleting %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// EndedOperation returns the status of an operation that ends without a run.
func EndedOperation(o *infrav1.WorkspaceOperation, phase infrav1.OperationPhase, text string, now time.Time) infrav1.WorkspaceOperationStatus {
	status := *o.Status.DeepCopy()
	status.Phase, status.Message, status.FinishedAt = phase, text, new(metav1.NewTime(now))
	return status
}

// maxOperationMessage is the size of the message of an operation, in bytes.
const maxOperationMessage = 2048

// SetOperation writes the status of an operation if it differs.
func SetOperation(ctx context.Context, c client.Client, o *infrav1.WorkspaceOperation, status infrav1.WorkspaceOperationStatus) error {
	status.Message = message.Truncate(status.Message, maxOperationMessage)
	if equality.Semantic.DeepEqual(o.Status, status) {
		return nil
	}
	before := o.DeepCopy()
	o.Status = status
	if err := client.IgnoreNotFound(c.Status().Patch(ctx, o, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("writing the status of operation %s: %w", o.Name, err)
	}
	return nil
}

// RequestOf returns the operation that a run executes for its record, or nil.
func RequestOf(operations []*infrav1.WorkspaceOperation) *infrav1.RunRequest {
	o := firstOf(operations)
	if o == nil {
		return nil
	}
	return &infrav1.RunRequest{ID: string(o.UID), Arguments: argumentsOf(o), RequestedBy: o.Spec.RequestedBy}
}

// argumentsOf describes an operation as the arguments of captctl.
func argumentsOf(o *infrav1.WorkspaceOperation) string {
	switch spec := o.Spec; spec.Type {
	case infrav1.OperationRun:
		if once := operation.OneShot(o); once != nil {
			return once.Arguments()
		}
		return "retry"
	case infrav1.OperationCheckDrift:
		return "drift"
	case infrav1.OperationUnlock:
		return "unlock " + spec.Unlock.Lock
	case infrav1.OperationRestore:
		return "state restore " + spec.Restore.Snapshot
	case infrav1.OperationState:
		command := operation.StateCommand(o)
		return strings.Join(append([]string{"state", command.Command}, command.Args...), " ")
	case infrav1.OperationMove:
		return "state move"
	default:
		return strings.ToLower(string(spec.Type))
	}
}

// requestLifetime is how long an operation is kept after it has ended.
const requestLifetime = 7 * 24 * time.Hour

// foreignOperation explains why an operation is not executed.
const foreignOperation = "It was requested of an earlier workspace of this name, or of the one of which this is a copy"

// CleanRequests ends the operations of other workspaces, and deletes those that ended long ago, and
// old decisions about earlier plans. It returns the time until the next operation is deleted, or 0.
func (r *Store) CleanRequests(ctx context.Context, s *Workspace) (time.Duration, error) {
	for _, o := range s.Requests.Foreign {
		if o.Ended() {
			continue
		}
		if err := SetOperation(ctx, r.Client, o, EndedOperation(o, infrav1.OperationCanceled, foreignOperation, s.Now)); err != nil {
			return 0, err
		}
	}
	next := time.Duration(0)
	for _, o := range slices.Concat(s.Requests.Operations, s.Requests.Foreign) {
		if !o.Ended() || o.Status.FinishedAt == nil {
			continue
		}
		if left := o.Status.FinishedAt.Add(requestLifetime).Sub(s.Now); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		if err := r.deleteRequest(ctx, o); err != nil {
			return 0, err
		}
	}
	for _, a := range s.Requests.Approvals {
		plan := s.Apply.Status.Plan
		if plan == nil || plan.ID == a.Spec.Plan || s.Now.Sub(a.CreationTimestamp.Time) < requestLifetime {
			continue
		}
		if err := r.deleteRequest(ctx, a); err != nil {
			return 0, err
		}
	}
	return next, nil
}
