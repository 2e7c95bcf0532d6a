package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// failWith answers a request with an error of the management cluster or of operate.
// missing and role are what the user lacks if the request was forbidden.
func failWith(w http.ResponseWriter, err error, missing, role string) {
	problem := Problem{Error: message.OneLine(err.Error())}
	status := http.StatusConflict
	switch {
	case apierrors.IsForbidden(err):
		status = http.StatusForbidden
		problem.Missing, problem.Role = missing, role
	case apierrors.IsUnauthorized(err):
		// 401 is the answer for an ended session.
		status = http.StatusBadGateway
		problem.Error = lostText(err)
	case apierrors.IsNotFound(err):
		status = http.StatusNotFound
	case apierrors.IsInvalid(err):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsServerTimeout(err), apierrors.IsInternalError(err):
		status = http.StatusBadGateway
	}
	fail(w, status, problem)
}

// request is the body of an action.
type request struct {
	// Plan is the ID of the plan that the user saw.
	Plan string `json:"plan,omitempty"`
	// AllowDestroy are the addresses of protected resources that may be destroyed.
	AllowDestroy []string `json:"allowDestroy,omitempty"`
	// Comment is what the user writes about the plan.
	Comment string `json:"comment,omitempty"`
	// Run is the run to cancel, Snapshot the one to restore, and Lock the one to break.
	Run      string `json:"run,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	Lock     string `json:"lock,omitempty"`
	// Hold makes the plan after a restore wait for approval.
	Hold bool `json:"hold,omitempty"`
}

// action changes a workspace as the user requests.
type action struct {
	run func(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, body request) error
	// missing is the permission that the user needs, role the role that has it.
	missing, role string
}

// The permissions for actions on workspaces.
const (
	createApprovals  = "create workspaceapprovals"
	createOperations = "create workspaceoperations"
	changeStates     = createOperations + "/state"
)

// actions are the actions on workspaces.
var actions = map[string]action{
	"approve": {approve, createApprovals, approverRole},
	"reject":  {reject, createApprovals, approverRole},
	"retry": {func(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, _ request) error {
		_, err := operate.Retry(ctx, c, apply)
		return err
	}, createOperations, editorRole},
	"cancel": {cancelRun, createOperations, editorRole},
	"drift": {func(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, _ request) error {
		_, err := operate.CheckDrift(ctx, c, apply)
		return err
	}, createOperations, editorRole},
	"restore": {restore, changeStates, approverRole},
	"unlock":  {unlock, changeStates, approverRole},
}

func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	a, found := actions[r.PathValue("action")]
	if !found {
		fail(w, http.StatusNotFound, Problem{Error: "There is no such action."})
		return
	}
	var body request
	if !read(w, r, &body) {
		return
	}
	apply := s.workspace(w, r)
	if apply == nil {
		return
	}
	if err := a.run(r.Context(), identityOf(r).client, apply, body); err != nil {
		failWith(w, err, a.missing+" in "+apply.Namespace, a.role)
		return
	}
	respond(w, struct{}{})
}

// waitingPlan returns the waiting plan if it is the one that the user saw.
func waitingPlan(apply *infrav1.WorkspaceTemplateApply, body request) (*infrav1.PlanStatus, error) {
	if body.Plan == "" {
		return nil, errors.New("the request has no plan")
	}
	return operate.WaitingPlan(apply, body.Plan)
}

func approve(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, body request) error {
	plan, err := waitingPlan(apply, body)
	if err != nil {
		return err
	}
	for _, address := range body.AllowDestroy {
		if parsed := terraform.ParseAddresses(address); len(parsed) != 1 || parsed[0] != address {
			return fmt.Errorf("%q is not the address of one resource", address)
		}
	}
	return operate.Approve(ctx, c, apply, plan, body.AllowDestroy, body.Comment)
}

func reject(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, body request) error {
	plan, err := waitingPlan(apply, body)
	if err != nil {
		return err
	}
	return operate.Reject(ctx, c, apply, plan, body.Comment)
}

func cancelRun(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, body request) error {
	if body.Run == "" {
		return errors.New("the request has no run")
	}
	run, err := operate.CurrentRun(apply, body.Run)
	if err != nil {
		return err
	}
	return operate.Cancel(ctx, c, apply, run)
}

func restore(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, body request) error {
	if body.Snapshot == "" {
		return errors.New("the request has no snapshot")
	}
	snapshot, err := operate.FindSnapshot(ctx, c, apply, body.Snapshot)
	if err != nil {
		return err
	}
	_, err = operate.Restore(ctx, c, apply, snapshot, body.Hold)
	return err
}

func unlock(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, body request) error {
	lock, err := operate.FindLock(ctx, c, apply)
	switch {
	case err != nil:
		return err
	case lock == nil:
		return fmt.Errorf("the state of %s is not locked", apply.Name)
	case body.Lock != lock.ID:
		return fmt.Errorf("lock %s is not the current one, which is %s", body.Lock, lock.ID)
	case lock.Holder == terraform.LivenessRunning || lock.Holder == terraform.LivenessPending:
		return fmt.Errorf("the holder of the lock is active: %s", lock.Where)
	}
	_, err = operate.Unlock(ctx, c, apply, lock)
	return err
}

// snapshots answers with the snapshots of a workspace. A few requests are answered at a time,
// because each reads whole states.
func (s *Server) snapshots(w http.ResponseWriter, r *http.Request) {
	if s.states.Acquire(r.Context(), 1) != nil {
		return
	}
	defer s.states.Release(1)
	apply := s.workspace(w, r)
	if apply == nil {
		return
	}
	snapshots, err := operate.Snapshots(r.Context(), identityOf(r).client, apply)
	if err != nil {
		failWith(w, err, "list secrets in "+apply.Namespace, "")
		return
	}
	if snapshots == nil {
		snapshots = []operate.Snapshot{}
	}
	respond(w, snapshots)
}

func (s *Server) lock(w http.ResponseWriter, r *http.Request) {
	apply := s.workspace(w, r)
	if apply == nil {
		return
	}
	lock, err := operate.FindLock(r.Context(), identityOf(r).client, apply)
	if err != nil {
		failWith(w, err, "get leases and secrets in "+apply.Namespace, "")
		return
	}
	respond(w, lock)
}

// can answers with what the user may do with a workspace. The page shows its buttons
// accordingly; the management cluster decides.
func (s *Server) can(w http.ResponseWriter, r *http.Request) {
	namespace := r.PathValue("namespace")
	var can Can
	for _, check := range []struct {
		result     *bool
		attributes authorizationv1.ResourceAttributes
	}{
		{&can.Change, authorizationv1.ResourceAttributes{Verb: "create", Group: infrav1.GroupVersion.Group, Resource: "workspaceoperations"}},
		{&can.State, authorizationv1.ResourceAttributes{Verb: "create", Group: infrav1.GroupVersion.Group, Resource: "workspaceoperations", Subresource: "state"}},
		{&can.Approve, authorizationv1.ResourceAttributes{Verb: "create", Group: infrav1.GroupVersion.Group, Resource: "workspaceapprovals"}},
		{&can.Secrets, authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}},
	} {
		check.attributes.Namespace = namespace
		ok, err := operate.Allowed(r.Context(), identityOf(r).client, check.attributes)
		if err != nil {
			failWith(w, err, "", "")
			return
		}
		*check.result = ok
	}
	respond(w, can)
}

// trigger applies an add-on again now.
func (s *Server) trigger(w http.ResponseWriter, r *http.Request) {
	if !read(w, r, &struct{}{}) {
		return
	}
	namespace := r.PathValue("namespace")
	addon := &addonsv1.CAPTAddon{}
	if err := identityOf(r).client.Get(r.Context(), key{Namespace: namespace, Name: r.PathValue("name")}, addon); err != nil {
		failWith(w, err, "get captaddons in "+namespace, viewerRole)
		return
	}
	if _, err := operate.Trigger(r.Context(), identityOf(r).client, addon); err != nil {
		failWith(w, err, "patch captaddons in "+namespace, platformRole)
		return
	}
	respond(w, struct{}{})
}
