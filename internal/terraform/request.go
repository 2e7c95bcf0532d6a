// Package terraform holds what the engine's parts say to each other: the
// request for a run, its progress and its result. It is a leaf: everything in
// it is plain data and pure functions over it.
package terraform

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// Operation is what a run is asked to do.
type Operation string

const (
	// OperationPlan plans and keeps the plan for a later OperationApply.
	OperationPlan Operation = "Plan"
	// OperationApply applies exactly the plan that Request.Plan names.
	OperationApply Operation = "Apply"
	// OperationPlanAndApply plans, checks protection and applies that plan.
	OperationPlanAndApply Operation = "PlanAndApply"
	// OperationDestroy plans the destruction of everything and applies that plan.
	OperationDestroy Operation = "Destroy"
	// OperationCheckDrift compares the state with reality and changes neither.
	OperationCheckDrift Operation = "CheckDrift"
	// OperationRestoreState puts the state back that Request.Snapshot names.
	OperationRestoreState Operation = "RestoreState"
)

// Source says where a module comes from.
type Source string

const (
	// SourceInline takes the module from Module.Content.
	SourceInline Source = "Inline"
	// SourceRemote fetches the module from Module.Address.
	SourceRemote Source = "Remote"
)

// Format is the syntax of an inline module or of a variables file.
type Format string

const (
	// FormatHCL is the native syntax.
	FormatHCL Format = "HCL"
	// FormatJSON is the JSON syntax.
	FormatJSON Format = "JSON"
)

// Backend types with a meaning of their own; every other type is passed on.
const (
	// BackendKubernetes keeps the state in a Secret.
	BackendKubernetes = "kubernetes"
	// BackendLocal keeps the state in the working directory.
	BackendLocal = "local"
)

// Request is everything a run needs to know. It holds credentials, so it is
// stored in Secrets only and never logged.
type Request struct {
	// RunID identifies the run; the lock on the state carries it.
	RunID string `json:"runID"`
	// Workspace is what the run works for.
	Workspace WorkspaceRef `json:"workspace"`
	// Operation is what the run does.
	Operation Operation `json:"operation"`
	// Module is what is planned and applied.
	Module Module `json:"module"`
	// Files are placed beside the module: provider configuration and
	// credentials. Paths are relative and stay inside the module's directory.
	Files map[string][]byte `json:"files,omitempty"`
	// Env is added to the environment; variables are in it as TF_VAR_<name>.
	Env map[string]string `json:"env,omitempty"`
	// Variables are values of variables whose types only the fetched module
	// tells; the runner checks and encodes them.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	// Fillers name those variables that fill placeholders; the module need not
	// have them.
	Fillers []string `json:"fillers,omitempty"`
	// SecretEnv names those entries of Env whose values are masked in logs.
	SecretEnv []string `json:"secretEnv,omitempty"`
	// Backend is where the state is kept.
	Backend Backend `json:"backend"`
	// Encryption is OpenTofu's state and plan encryption (TF_ENCRYPTION).
	Encryption string `json:"encryption,omitempty"`

	InitArgs    []string `json:"initArgs,omitempty"`
	PlanArgs    []string `json:"planArgs,omitempty"`
	ApplyArgs   []string `json:"applyArgs,omitempty"`
	DestroyArgs []string `json:"destroyArgs,omitempty"`

	// Protect lists resource types and addresses that a plan may not destroy
	// or replace; * stands for any text.
	Protect []string `json:"protect,omitempty"`
	// Unprotected lists the addresses that a person released from Protect.
	Unprotected []string `json:"unprotected,omitempty"`
	// Plan names the kept plan of an OperationApply.
	Plan *PlanRef `json:"plan,omitempty"`
	// Snapshot names the kept state of an OperationRestoreState.
	Snapshot string `json:"snapshot,omitempty"`
	// GoneRuns are earlier runs that are proven gone: their locks are broken.
	GoneRuns []string `json:"goneRuns,omitempty"`
	// GoneHolders are where runs that left no result were, and when: locks that
	// their tool took by itself are broken too.
	GoneHolders []Holder `json:"goneHolders,omitempty"`
	// ExpectState is set when the state is known to hold something: a missing
	// one is then an error, not a beginning.
	ExpectState bool `json:"expectState,omitempty"`
	// BreakLock is the id of a foreign lock that a person wants broken.
	BreakLock string `json:"breakLock,omitempty"`
	// Outputs are the outputs wanted; all of them when empty.
	Outputs []string `json:"outputs,omitempty"`

	// LockFile is the dependency lock file of the previous run. With it a run
	// takes the same provider versions.
	LockFile []byte `json:"lockFile,omitempty"`
	// Timeout stops the run gracefully; zero is no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is how long an interrupted command may take to end by itself.
	Grace time.Duration `json:"grace,omitempty"`
	// PluginCache shares downloaded providers among workspaces.
	PluginCache bool `json:"pluginCache,omitempty"`
}

// Holder is a machine on which a run held a lock for some time.
type Holder struct {
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Held tells whether a lock was taken by the holder.
func (h Holder) Held(lock LockInfo) bool {
	_, host, found := strings.Cut(lock.Who, "@")
	created, err := time.Parse(time.RFC3339Nano, strings.Replace(strings.TrimSuffix(lock.Created, " UTC"), " +0000", "Z", 1))
	if err != nil {
		created, err = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", lock.Created)
	}
	return found && host == h.Host && err == nil && !created.Before(h.Since) && !created.After(h.Until)
}

// WorkspaceRef identifies the object a run works for.
type WorkspaceRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Module is the root module of a run.
type Module struct {
	Source Source `json:"source"`
	// Content and Format are the text of an inline module.
	Content string `json:"content,omitempty"`
	Format  Format `json:"format,omitempty"`
	// Address is a remote module as OpenTofu takes it in a module block.
	Address string `json:"address,omitempty"`
	// Version constrains a module from a registry.
	Version string `json:"version,omitempty"`
	// Entrypoint is the directory of the root module within a remote one.
	Entrypoint string `json:"entrypoint,omitempty"`
	// Refetch fetches a remote module again although a copy is at hand.
	Refetch bool `json:"refetch,omitempty"`
}

// Backend is where the state is kept.
type Backend struct {
	// Type is the backend's type; empty is a local state.
	Type string `json:"type,omitempty"`
	// HCL is the body of the backend block, for all but BackendKubernetes.
	HCL string `json:"hcl,omitempty"`
	// Namespace, SecretSuffix and Labels place the state's Secret.
	Namespace    string            `json:"namespace,omitempty"`
	SecretSuffix string            `json:"secretSuffix,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// StateSecretName is the Secret that holds the state of a Kubernetes backend.
func (b Backend) StateSecretName() string {
	return "tfstate-default-" + b.SecretSuffix
}

// LeaseName is the Lease that locks the state of a Kubernetes backend.
func (b Backend) LeaseName() string {
	return "lock-" + b.StateSecretName()
}

// StateLabels are the labels that the Kubernetes backend gives to the Secret
// and the Lease of a state. Terraform finds the Secret by them.
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

// PlanRef names a kept plan.
type PlanRef struct {
	ID string `json:"id"`
}

// Secrets returns the values that must not appear in a log. Short ones are
// left out: masking them would hide ordinary words.
func (r *Request) Secrets() []string {
	const shortest = 8
	var secrets []string
	for _, name := range r.SecretEnv {
		if value := r.Env[name]; len(value) >= shortest {
			secrets = append(secrets, value)
		}
	}
	return secrets
}
