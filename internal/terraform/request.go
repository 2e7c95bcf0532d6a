// Package terraform defines the data that the parts of the engine exchange: the
// request for a run, its progress and its result. It contains only plain data and
// pure functions.
package terraform

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// Operation is what a run does.
type Operation string

const (
	// OperationPlan plans and saves the plan for a later OperationApply.
	OperationPlan Operation = "Plan"
	// OperationApply applies exactly the saved plan Request.Plan.
	OperationApply Operation = "Apply"
	// OperationPlanAndApply plans, checks protection and applies that plan.
	OperationPlanAndApply Operation = "PlanAndApply"
	// OperationDestroy plans the destruction of all resources and applies that plan.
	OperationDestroy Operation = "Destroy"
	// OperationPlanDestroy plans the destruction of all resources and saves the plan for
	// a later OperationApplyDestroy.
	OperationPlanDestroy Operation = "PlanDestroy"
	// OperationApplyDestroy applies exactly the saved plan Request.Plan of an
	// OperationPlanDestroy.
	OperationApplyDestroy Operation = "ApplyDestroy"
	// OperationCheckDrift compares the state with the real resources without
	// changing either.
	OperationCheckDrift Operation = "CheckDrift"
	// OperationRestoreState restores the state of Request.Snapshot.
	OperationRestoreState Operation = "RestoreState"
	// OperationSaveState saves the state that a lost run left in the working
	// directory, and changes nothing else. It needs no module.
	OperationSaveState Operation = "SaveState"
	// OperationStateCommand executes Request.StateCommand.
	OperationStateCommand Operation = "StateCommand"
	// OperationMoveState copies the state from the backend of Request.From to that of
	// the request, and verifies the copy.
	OperationMoveState Operation = "MoveState"
	// OperationShell lets a user work with the state by hand, on his own machine. No
	// executor accepts it.
	OperationShell Operation = "Shell"
)

// Destroys reports whether an operation destroys all resources, or plans to.
func (o Operation) Destroys() bool {
	return o == OperationDestroy || o == OperationPlanDestroy || o == OperationApplyDestroy
}

// SavesPlan reports whether an operation only saves a plan.
func (o Operation) SavesPlan() bool { return o == OperationPlan || o == OperationPlanDestroy }

// AppliesPlan reports whether an operation applies a saved plan.
func (o Operation) AppliesPlan() bool { return o == OperationApply || o == OperationApplyDestroy }

// Source is the kind of a module's source.
type Source string

const (
	// SourceInline takes the module from Module.Content.
	SourceInline Source = "Inline"
	// SourceRemote fetches the module from Module.Address.
	SourceRemote Source = "Remote"
	// SourceFlux takes the module from Module.Artifact.
	SourceFlux Source = "Flux"
)

// Format is the syntax of an inline module or of a variables file.
type Format string

const (
	// FormatHCL is the native syntax.
	FormatHCL Format = "HCL"
	// FormatJSON is the JSON syntax.
	FormatJSON Format = "JSON"
)

// Backend types that the engine knows. It passes any other type to OpenTofu or
// Terraform.
const (
	// BackendKubernetes keeps the state in a Secret.
	BackendKubernetes = "kubernetes"
	// BackendLocal keeps the state in the working directory.
	BackendLocal = "local"
)

// Protocol is the version of the request and the result. It increases when a runner that
// is older than the manager would misunderstand a request.
const Protocol = 7

// Request contains all inputs of a run. It contains credentials, so it is stored
// only in Secrets and is never logged.
type Request struct {
	// Protocol and Manager are the versions of the request and of the manager that
	// wrote it.
	Protocol int    `json:"protocol"`
	Manager  string `json:"manager"`
	// RunID identifies the run. It is recorded in the lock of the state.
	RunID string `json:"runID"`
	// Workspace is the workspace that the run belongs to.
	Workspace WorkspaceRef `json:"workspace"`
	Operation Operation    `json:"operation"`
	// Module is the root module.
	Module Module `json:"module"`
	// Files are written into the module's directory: provider configuration and
	// credentials. Paths are relative to that directory.
	Files map[string][]byte `json:"files,omitempty"`
	// Env is added to the environment.
	Env map[string]string `json:"env,omitempty"`
	// Variables are the values of the module's variables. The runner checks them, and
	// writes them to a file of the module.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	// Fillers names the variables that fill placeholders. The module does not have
	// to declare them.
	Fillers []string `json:"fillers,omitempty"`
	// SecretEnv and SecretVariables name the entries of Env and Variables whose values are
	// masked in logs.
	SecretEnv       []string `json:"secretEnv,omitempty"`
	SecretVariables []string `json:"secretVariables,omitempty"`
	// Backend is where the state is stored.
	Backend Backend `json:"backend"`
	// Encryption configures OpenTofu's state and plan encryption (TF_ENCRYPTION).
	Encryption string `json:"encryption,omitempty"`

	InitArgs    []string `json:"initArgs,omitempty"`
	PlanArgs    []string `json:"planArgs,omitempty"`
	ApplyArgs   []string `json:"applyArgs,omitempty"`
	DestroyArgs []string `json:"destroyArgs,omitempty"`

	// Protect lists resource types and addresses that a plan must not destroy or
	// replace. * matches any text.
	Protect []string `json:"protect,omitempty"`
	// Unprotected lists the addresses that a user excluded from Protect.
	Unprotected []string `json:"unprotected,omitempty"`
	// Policies decide about the plan. It is nil if no policy applies to the workspace.
	Policies *Policies `json:"policies,omitempty"`
	// Plan identifies the saved plan of an OperationApply.
	Plan *PlanRef `json:"plan,omitempty"`
	// OneShot changes the plan of an OperationPlan or OperationPlanAndApply. It is nil for
	// the plan of the inputs.
	OneShot *OneShot `json:"oneShot,omitempty"`
	// Snapshot names the snapshot of an OperationRestoreState.
	Snapshot string `json:"snapshot,omitempty"`
	// StateCommand is the command of an OperationStateCommand.
	StateCommand *StateCommand `json:"stateCommand,omitempty"`
	// From has the backend of an OperationMoveState that has the state, and what is
	// required to access it. It has no module, because both have the same.
	From *Request `json:"from,omitempty"`
	// GoneRuns are earlier runs that are proven to have ended. The run breaks
	// their locks.
	GoneRuns []string `json:"goneRuns,omitempty"`
	// GoneHolders are the hosts and times of the ended runs. The run also breaks the
	// locks that OpenTofu or Terraform took there.
	GoneHolders []Holder `json:"goneHolders,omitempty"`
	// State is what earlier runs reported about the state. A run stops if it finds
	// another one.
	State KnownState `json:"state,omitzero"`
	// Rescued are the names of states that earlier runs could not save to the
	// backend. The run saves them first.
	Rescued []string `json:"rescued,omitempty"`
	// HoldTainted is set if an earlier run was stopped while it changed resources. A plan that
	// destroys what it left tainted is not applied at once.
	HoldTainted bool `json:"holdTainted,omitempty"`
	// BreakLock is the ID of another holder's lock that a user wants to break.
	BreakLock string `json:"breakLock,omitempty"`
	// Outputs are the outputs that the module must declare.
	Outputs []string `json:"outputs,omitempty"`
	// Tool is which tool the workspace requires. If it is nil, that of the runner is used.
	Tool *ToolRequirement `json:"tool,omitempty"`
	// Selection are the outputs to return. If it is nil, all are returned.
	Selection Selection `json:"selection,omitempty"`

	// LockFile is the dependency lock file of the previous run. It pins the
	// provider versions.
	LockFile []byte `json:"lockFile,omitempty"`
	// Timeout is the time after which the run is stopped gracefully. Zero means no
	// limit. An apply has until Limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is the time that an interrupted command has before it is killed.
	Grace time.Duration `json:"grace,omitempty"`
	// Pod configures the pod of the job executor.
	Pod PodSettings `json:"pod,omitzero"`
	// PluginCache shares downloaded providers between workspaces.
	PluginCache bool `json:"pluginCache,omitempty"`
}

// Holder is a host on which a run may have held a lock, and when. The times are zero
// if only that run was on the host, which is its pod.
type Holder struct {
	Host  string    `json:"host"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Held reports whether the lock was taken by the holder.
func (h Holder) Held(lock LockInfo) bool {
	_, host, found := strings.Cut(lock.Who, "@")
	if h.Since.IsZero() && h.Until.IsZero() {
		return found && host == h.Host
	}
	created, err := time.Parse(time.RFC3339Nano, lock.Created)
	if err != nil {
		// The tool's messages contain the time in the format of time.Time.String.
		created, err = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", lock.Created)
	}
	return found && host == h.Host && err == nil && !created.Before(h.Since) && !created.After(h.Until)
}

// WorkspaceRef identifies the object that a run belongs to.
type WorkspaceRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Owner returns the name of the workspace in the states that it creates.
func (w WorkspaceRef) Owner() string { return w.Namespace + "/" + w.Name + " " + w.UID }

// Module is the root module of a run.
type Module struct {
	Source Source `json:"source"`
	// Content is the text of an inline module, in the syntax Format.
	Content string `json:"content,omitempty"`
	Format  Format `json:"format,omitempty"`
	// Files are further files of an inline module by their paths.
	Files map[string]string `json:"files,omitempty"`
	// Address is the source of a remote module, as in a module block.
	Address string `json:"address,omitempty"`
	// Version is the version constraint of a registry module.
	Version string `json:"version,omitempty"`
	// Entrypoint is the directory of the root module within a remote module or an artifact.
	Entrypoint string `json:"entrypoint,omitempty"`
	// Artifact is the archive with the module of SourceFlux.
	Artifact *Artifact `json:"artifact,omitempty"`
	// Auth are the credentials for fetching the module and those that it uses.
	Auth []ModuleAuth `json:"auth,omitempty"`
	// Refetch fetches a remote module even if a copy exists.
	Refetch bool `json:"refetch,omitempty"`
	// Pin is the content that the run uses instead of what the addresses resolve to
	// now. It is nil if the run resolves them.
	Pin *ModuleContent `json:"pin,omitempty"`
}

// Identity returns what determines the files of the module.
func (m Module) Identity() Module {
	m.Auth, m.Refetch, m.Pin = nil, false, nil
	if m.Artifact != nil {
		m.Artifact = &Artifact{Digest: m.Artifact.Digest}
	}
	return m
}

// Origin returns what determines where the module comes from. Its files may change.
func (m Module) Origin() Module {
	origin := m.Identity()
	if m.Artifact != nil {
		origin.Artifact = &Artifact{Source: m.Artifact.Source}
	}
	return origin
}

// ModuleContent identifies everything that was fetched for a module, including the
// modules that it uses.
type ModuleContent struct {
	// Digest is the digest of the fetched files.
	Digest string `json:"digest"`
	// Revision is the Git commit or the version that the address resolved to, if known.
	Revision string `json:"revision,omitempty"`
	// Archive is the name of the stored files. It is empty if they are not stored,
	// because they are immutable or too large.
	Archive string `json:"archive,omitempty"`
	// Immutable is set if the address always resolves to the same files.
	Immutable bool `json:"immutable,omitempty"`
}

// Backend is where the state is stored.
type Backend struct {
	// Type is the backend's type. If empty, the state is a local file.
	Type string `json:"type,omitempty"`
	// HCL is the body of the backend block. BackendKubernetes has none.
	HCL string `json:"hcl,omitempty"`
	// Namespace, SecretSuffix and Labels determine the Secret of the state.
	Namespace    string            `json:"namespace,omitempty"`
	SecretSuffix string            `json:"secretSuffix,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// StateSecretName returns the name of the Secret with the state of a Kubernetes
// backend.
func (b Backend) StateSecretName() string {
	return "tfstate-default-" + b.SecretSuffix
}

// LeaseName returns the name of the Lease that locks the state of a Kubernetes
// backend.
func (b Backend) LeaseName() string {
	return "lock-" + b.StateSecretName()
}

// StateLabels returns the labels that the Kubernetes backend sets on the Secret
// and the Lease of a state. Terraform finds the Secret by these labels.
func (b Backend) StateLabels() map[string]string {
	labels := map[string]string{
		"tfstate":                      "true",
		"tfstateSecretSuffix":          b.SecretSuffix,
		"tfstateWorkspace":             "default",
		"app.kubernetes.io/managed-by": "terraform",
	}
	maps.Copy(labels, b.Labels)
	return labels
}

// PlanRef identifies a saved plan.
type PlanRef struct {
	ID string `json:"id"`
}

// NeedsPin reports whether the run fails if its module does not have the pinned
// content. A workspace whose module is lost can still be destroyed with what the
// address resolves to, and its state can be read.
func (r *Request) NeedsPin() bool {
	switch r.Operation {
	case OperationPlan, OperationPlanAndApply, OperationApply, OperationCheckDrift:
		return true
	default:
		return false
	}
}

// ProvidersEnv is the environment variable with the runner's directory of installed
// providers.
const ProvidersEnv = "CAPT_PROVIDERS"

// DigestEnv is the environment variable with the digest of the request that the runner
// executes.
const DigestEnv = "CAPT_REQUEST_DIGEST"

// LogEnv is the environment variable with which the runner also prints the log of the run.
const LogEnv = "CAPT_PRINT_LOG"

// PodSettings configure the pod in which the job executor runs a run. They are a part
// of the request, so that a run has the same pod whichever manager starts it.
type PodSettings struct {
	// Image overrides the executor's image.
	Image string `json:"image,omitempty"`
	// ServiceAccountName overrides the service account created for the run.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Resources, NodeSelector and Tolerations are those of the pod. Resources and
	// Tolerations are JSON of the Kubernetes API. The executor has a default for
	// each that is empty.
	Resources    []byte            `json:"resources,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []byte            `json:"tolerations,omitempty"`
	// Template is the JSON of a PodTemplateSpec with further settings, of which the
	// executor accepts only those that are safe. Its container is the runner's.
	Template []byte `json:"template,omitempty"`
}

// Limit is the time after which even an apply is interrupted, zero without a limit. The tool
// gives up the resources that it creates when it is interrupted, so an apply that exceeds the
// timeout is reported first.
func (r *Request) Limit() time.Duration { return 2 * r.Timeout }
