package web

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform/change"
)

// The types below are what the page reads; ui/src/types.ts repeats them.

// Problem is the answer to a request that failed.
type Problem struct {
	Error string `json:"error"`
	// Missing is the permission that the user lacks, and Role the role of CAPT that
	// has it.
	Missing string `json:"missing,omitempty"`
	Role    string `json:"role,omitempty"`
}

// Login says how a session is opened, or is the session that a request has.
type Login struct {
	// Token is set if users log in with a token of the management cluster. Otherwise they
	// open links.
	Token bool `json:"token,omitempty"`
	// Provider is the name of the identity provider, if there is one.
	Provider string `json:"provider,omitempty"`
	// User is the name of the user, and Key what requests of the page carry.
	User string `json:"user,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Session describes what the user sees: event session.
type Session struct {
	Context string `json:"context"`
	Server  string `json:"server"`
	User    string `json:"user,omitempty"`
	// Namespaces are set if the page is limited to them.
	Namespaces []string `json:"namespaces,omitempty"`
	// Denied are the kinds that cannot be shown.
	Denied []Denied `json:"denied,omitempty"`
	// Loading is set until the objects of all kinds are known.
	Loading *Loading `json:"loading,omitempty"`
	// Lost is why the management cluster is unreachable.
	Lost string `json:"lost,omitempty"`
}

// Denied is a kind that cannot be shown: a permission is missing, it is not installed,
// or listing it fails.
type Denied struct {
	Kind string `json:"kind"`
	// Missing is the permission, such as "list captaddons.addons.cluster.x-k8s.io", and
	// Role a role that has it.
	Missing string `json:"missing,omitempty"`
	Role    string `json:"role,omitempty"`
	// Absent is set if the management cluster does not have the kind.
	Absent bool `json:"absent,omitempty"`
	// Error is the answer of the management cluster.
	Error string `json:"error,omitempty"`
}

// Loading counts the kinds whose objects are known.
type Loading struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// Row is a Cluster in the fleet: event rows.
type Row struct {
	Namespace string         `json:"ns"`
	Name      string         `json:"name"`
	State     describe.State `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Message   string         `json:"message,omitempty"`
	Since     metav1.Time    `json:"since,omitzero"`
	Version   string         `json:"version,omitempty"`
	Region    string         `json:"region,omitempty"`
	Created   metav1.Time    `json:"created"`
	// ReadyNodes and Nodes are the machines of workers.
	ReadyNodes int32            `json:"ready"`
	Nodes      int32            `json:"nodes"`
	Attention  []Attention      `json:"attention,omitempty"`
	Addons     map[string]Badge `json:"addons,omitempty"`
	Drift      int              `json:"drift,omitempty"`
	// Policy is the strictest of what policies decided about plans that wait, or Warn if
	// the latest plan of a workspace was applied with warnings.
	Policy   infrav1.PolicyAction `json:"policy,omitempty"`
	Failing  int                  `json:"failing,omitempty"`
	Paused   bool                 `json:"paused,omitempty"`
	Deleting bool                 `json:"deleting,omitempty"`
}

// Badge is a state with its reason.
type Badge struct {
	State  describe.State `json:"state"`
	Reason string         `json:"reason,omitempty"`
}

// Attention is a workspace that waits for a user.
type Attention struct {
	What      string `json:"what"`
	Workspace string `json:"workspace"`
}

// WorkspaceRow is a workspace in the list of all: event rows.
type WorkspaceRow struct {
	Namespace string         `json:"ns"`
	Name      string         `json:"name"`
	State     describe.State `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Message   string         `json:"message,omitempty"`
	Created   metav1.Time    `json:"created"`
	// Cluster is empty for a workspace of its own.
	Cluster  string `json:"cluster,omitempty"`
	Template string `json:"template"`
	// Resources is the number of resources in the state.
	Resources int32 `json:"resources,omitempty"`
	// What is why it waits for a user.
	What     string               `json:"what,omitempty"`
	Drift    int                  `json:"drift,omitempty"`
	Policy   infrav1.PolicyAction `json:"policy,omitempty"`
	Paused   bool                 `json:"paused,omitempty"`
	Deleting bool                 `json:"deleting,omitempty"`
}

// Rows are changed and removed rows.
type Rows[T any] struct {
	Rows    []T      `json:"rows,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Cluster is the view of a Cluster: event cluster.
type Cluster struct {
	Row        Row            `json:"row"`
	Endpoint   string         `json:"endpoint,omitempty"`
	Tree       *describe.Node `json:"tree"`
	Conditions []Condition    `json:"conditions"`
	Timeline   []Span         `json:"timeline"`
	Events     []Event        `json:"events"`
}

// Condition is a condition of an object.
type Condition struct {
	// Object is the kind and name of the object.
	Object  string         `json:"object"`
	Type    string         `json:"type"`
	State   describe.State `json:"state"`
	Reason  string         `json:"reason"`
	Message string         `json:"message,omitempty"`
	Since   metav1.Time    `json:"since,omitzero"`
}

// Workspace is the view of a workspace: event workspace.
type Workspace struct {
	Namespace string                   `json:"ns"`
	Name      string                   `json:"name"`
	Cluster   string                   `json:"cluster,omitempty"`
	Created   metav1.Time              `json:"created"`
	Deleting  bool                     `json:"deleting,omitempty"`
	Node      *describe.Node           `json:"node"`
	Template  string                   `json:"template"`
	Source    string                   `json:"source,omitempty"`
	Revision  string                   `json:"revision,omitempty"`
	Plan      *infrav1.PlanStatus      `json:"plan,omitempty"`
	Run       *infrav1.RunStatus       `json:"run,omitempty"`
	History   []infrav1.RunRecord      `json:"history,omitempty"`
	Runs      int64                    `json:"runs"`
	Failure   *infrav1.FailureStatus   `json:"failure,omitempty"`
	Drift     *infrav1.DriftStatus     `json:"drift,omitempty"`
	State     *infrav1.StateStatus     `json:"state,omitempty"`
	Outputs   map[string]infrav1.Value `json:"outputs,omitempty"`
	// OutputSecret is the Secret with all outputs, sensitive ones included.
	OutputSecret string      `json:"outputSecret,omitempty"`
	Conditions   []Condition `json:"conditions"`
}

// Addon is an add-on: event addons. Clusters is set in the view of one add-on.
type Addon struct {
	Namespace string         `json:"ns"`
	Name      string         `json:"name"`
	State     describe.State `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Message   string         `json:"message,omitempty"`
	Chart     string         `json:"chart,omitempty"`
	Version   string         `json:"version,omitempty"`
	Ready     int32          `json:"ready"`
	Matched   int32          `json:"matched"`
	Failed    int32          `json:"failed"`
	Clusters  []AddonCluster `json:"clusters,omitempty"`
}

// AddonCluster is the status of an add-on in a cluster.
type AddonCluster struct {
	Name     string         `json:"name"`
	State    describe.State `json:"state"`
	Reason   string         `json:"reason,omitempty"`
	Message  string         `json:"message,omitempty"`
	Since    metav1.Time    `json:"since,omitzero"`
	Attempts int32          `json:"attempts,omitempty"`
}

// Addons are changed and removed add-ons.
type Addons struct {
	Addons  []Addon  `json:"addons,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Event is an event of an object: event events, with the newest first.
type Event struct {
	ID        string      `json:"id"`
	Namespace string      `json:"ns"`
	Kind      string      `json:"kind"`
	Name      string      `json:"name"`
	Warning   bool        `json:"warning,omitempty"`
	Reason    string      `json:"reason"`
	Message   string      `json:"message,omitempty"`
	Count     int32       `json:"count,omitempty"`
	Last      metav1.Time `json:"last"`
}

// Span is a part of a timeline.
type Span struct {
	// Lane is the object, Label what happened.
	Lane  string      `json:"lane"`
	Label string      `json:"label"`
	Start metav1.Time `json:"start"`
	// End is zero while it lasts.
	End   metav1.Time    `json:"end,omitzero"`
	State describe.State `json:"state"`
	// Workspace is set for a run.
	Workspace string `json:"workspace,omitempty"`
	// Gap marks a time of which no record exists.
	Gap bool `json:"gap,omitempty"`
	// Change is Create, Upgrade or Delete if the span is a part of it that is known.
	Change string `json:"change,omitempty"`
}

// PlanLine is a line of the answer to a request for a plan: first the plan, then
// its changes with values, then the end.
type PlanLine struct {
	Plan  *operate.Plan `json:"plan,omitempty"`
	Entry *change.Entry `json:"entry,omitempty"`
	End   *PlanEnd      `json:"end,omitempty"`
}

// PlanEnd is the last line of a plan.
type PlanEnd struct {
	// Details reports whether the changes with values were available.
	Details bool   `json:"details"`
	Missing string `json:"missing,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Can reports which actions on a workspace the user may do.
type Can struct {
	Change  bool `json:"change"`
	Approve bool `json:"approve"`
	// State reports whether he may restore snapshots and break locks.
	State   bool `json:"state"`
	Secrets bool `json:"secrets"`
}
