// Package template resolves a WorkspaceTemplate and a WorkspaceTemplateApply to
// the request of a run. It makes no API calls: the caller reads all objects.
package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Placeholders for the workspace.
const (
	WorkspaceName      = "WORKSPACE_NAME"
	WorkspaceNamespace = "WORKSPACE_NAMESPACE"
	WorkspaceUID       = "WORKSPACE_UID"
)

// workspacePlaceholders are the placeholders for the workspace.
var workspacePlaceholders = []string{WorkspaceName, WorkspaceNamespace, WorkspaceUID}

// workspaceValue returns the value of a placeholder for the workspace. A workspace that
// runs for one of another namespace has the values of that one.
func workspaceValue(apply *infrav1.WorkspaceTemplateApply, name string) (string, bool) {
	ref := types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name}
	if namespace, guest := apply.HostedFor(); namespace != "" {
		ref = types.NamespacedName{Namespace: namespace, Name: guest}
	}
	switch name {
	case WorkspaceName:
		return ref.Name, true
	case WorkspaceNamespace:
		return ref.Namespace, true
	case WorkspaceUID:
		return string(apply.UID), true
	default:
		return "", false
	}
}

// Sources are the objects that a request is resolved from. Secrets and ConfigMaps
// are those of ReferencesOf, all in the workspace's namespace.
type Sources struct {
	Apply          *infrav1.WorkspaceTemplateApply
	Template       *infrav1.WorkspaceTemplate
	ProviderConfig *infrav1.WorkspaceProviderConfig
	Secrets        map[string]map[string][]byte
	ConfigMaps     map[string]map[string][]byte
	// Artifact is the artifact of the template's Flux source, or nil if the source does
	// not provide one. Only its digest and revision are set.
	Artifact *terraform.Artifact
	// Future are the variables whose values in Apply are placeholders for values
	// that are known only after another run. Only Check and PreviewOf accept them.
	Future map[string]bool
}

// Inputs are the resolved inputs of a workspace's runs.
type Inputs struct {
	// Request is the request of a run, without its ID and operation.
	Request terraform.Request
	// Hash changes when anything changes that a run applies.
	Hash string
	// ConnectionSecret is the name of the Secret for the outputs, or empty.
	ConnectionSecret string
	// Policy is the policy for runs.
	Policy Policy
}

// Policy is how the controller runs a workspace. Settings of the apply override
// those of the template, which override the defaults.
type Policy struct {
	Approval infrav1.ApprovalMode
	// DestroyApproval specifies whether the deletion waits for an approved plan.
	DestroyApproval infrav1.ApprovalMode
	DriftAction     infrav1.DriftAction
	DriftInterval   time.Duration
	RetryLimit      *int32
	MinBackoff      time.Duration
	MaxBackoff      time.Duration
	Executor        infrav1.Executor
	MaxConcurrent   int
}

// Problem prevents a workspace from running until its inputs change.
type Problem struct {
	Reason  string
	Message string
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

func problem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Defaults of a Request.
const (
	defaultTimeout = time.Hour
	defaultGrace   = 10 * time.Minute
)

// Resolve resolves the inputs. The error is a *Problem if the inputs are invalid,
// or a *MissingKeyError if a Secret, a ConfigMap or a key does not exist yet.
func Resolve(s Sources) (*Inputs, error) {
	if err := s.checkLending(); err != nil {
		return nil, err
	}
	r := newResolver(s)
	inputs := &Inputs{Policy: PolicyOf(s)}
	request := &inputs.Request
	request.Workspace = terraform.WorkspaceRef{Namespace: s.Apply.Namespace, Name: s.Apply.Name, UID: string(s.Apply.UID)}
	request.Timeout, request.Grace = s.timeout(), defaultGrace
	request.Protect = s.protect()
	request.Selection = selectionOf(s.Template)
	if tool := s.Template.Spec.Template.Spec.Tool; tool != nil {
		request.Tool = &terraform.ToolRequirement{Product: string(tool.Name), Version: tool.Version}
	}

	p := s.Template.Spec.Template.Spec.ForProvider
	request.Module = moduleOf(p)
	if artifact := request.Module.Artifact; artifact != nil && s.Artifact != nil {
		artifact.Digest, artifact.Revision = s.Artifact.Digest, s.Artifact.Revision
	}
	request.InitArgs, request.PlanArgs = args(p.InitArgs), args(p.PlanArgs)
	request.ApplyArgs, request.DestroyArgs = args(p.ApplyArgs), args(p.DestroyArgs)

	values, err := r.values()
	if err != nil {
		return nil, err
	}
	if request.Outputs, err = s.requiredOutputs(); err != nil {
		return nil, err
	}
	if request.Env, request.SecretEnv, err = r.env(); err != nil {
		return nil, err
	}
	if inputs.ConnectionSecret, err = r.connectionSecret(); err != nil {
		return nil, err
	}
	if err := r.providerConfig(request); err != nil {
		return nil, err
	}
	// The hash is computed before the credentials are added, because a rotated
	// credential must not start a run.
	if err := r.variables(request, values); err != nil {
		return nil, err
	}
	if inputs.Hash, err = hash(request); err != nil {
		return nil, err
	}
	if err := r.credentials(request); err != nil {
		return nil, err
	}
	if err := r.moduleAuth(request); err != nil {
		return nil, err
	}
	return inputs, nil
}

// checkLending returns a problem if a workspace of another namespace sets variables that the
// template does not let it set.
func (s Sources) checkLending() error {
	namespace := s.Apply.Namespace
	if guest, _ := s.Apply.HostedFor(); guest != "" {
		namespace = guest
	}
	var denied []string
	for _, name := range slices.Sorted(maps.Keys(s.Apply.Spec.Variables)) {
		if !s.Template.MaySet(namespace, name) {
			denied = append(denied, name)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	return problem(infrav1.NotAllowedReason, "WorkspaceTemplate %s/%s does not let workspaces of other namespaces set %s: remove it from spec.variables, or ask the owners of the template to add it to spec.lending.variables",
		s.Template.Namespace, s.Template.Name, strings.Join(denied, ", "))
}

// StateSuffix returns the suffix of the names of the state's Secret and lock. It
// never ends in a number, because Terraform reserves such suffixes.
func StateSuffix(name string) string {
	const end, limit = "-ws", 60
	if strings.Contains(name, ".") {
		// A suffix must not contain dots. The hash keeps the suffixes of "a.b" and
		// "a-b" different.
		return strings.ReplaceAll(record.WithHash(name, limit), ".", "-") + end
	}
	return record.Shorten(name, limit) + end
}

func args(in []infrav1.Argument) []string {
	var out []string
	for _, a := range in {
		out = append(out, string(a))
	}
	return out
}

// hash returns a hash of what a run applies: module, values, environment, files,
// backend and arguments. It does not depend on policy, timeouts and identities.
func hash(request *terraform.Request) (string, error) {
	// A workspace that moves to another namespace applies the same.
	backend := request.Backend
	backend.Namespace = ""
	text, err := json.Marshal(struct {
		Module     terraform.Module
		Env        map[string]string
		Variables  map[string]json.RawMessage
		Files      map[string][]byte
		Backend    terraform.Backend
		Encrypted  bool
		Plan, Init []string
		Apply      []string
		Outputs    terraform.Selection        `json:",omitempty"`
		Tool       *terraform.ToolRequirement `json:",omitempty"`
	}{
		request.Module.Identity(), request.Env, request.Variables, request.Files, backend, request.Encryption != "",
		request.PlanArgs, request.InitArgs, request.ApplyArgs, request.Selection, request.Tool,
	})
	if err != nil {
		return "", fmt.Errorf("hashing inputs: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// variables adds the values to the request. It checks those of an inline module. The runner
// checks those of another module after it has fetched the module.
func (r *resolver) variables(request *terraform.Request, values inspect.Values) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if r.secret[name] {
			request.SecretVariables = append(request.SecretVariables, name)
		}
	}
	if request.Module.Source == terraform.SourceInline {
		if err := r.checkInline(request, values); err != nil {
			return err
		}
	}
	request.Fillers = slices.Sorted(maps.Keys(r.used))
	var err error
	request.Variables, err = inspect.ToJSON(values)
	return err
}

// checkInline checks the values of an inline module. Its sensitive variables are masked.
func (r *resolver) checkInline(request *terraform.Request, values inspect.Values) error {
	module := inspect.Inline(request.Module)
	if errs := module.Diagnostics.Errors(); len(errs) > 0 {
		return problem(infrav1.ModuleInvalidReason, "%s", errs.Short())
	}
	r.dropUndeclared(module, values)
	if problems := inspect.Check(module, values, request.Outputs); len(problems) > 0 {
		return fromInspect(problems)
	}
	for name, variable := range module.Variables {
		if variable.Sensitive {
			request.SecretVariables = append(request.SecretVariables, name)
		}
	}
	slices.Sort(request.SecretVariables)
	request.SecretVariables = slices.Compact(request.SecretVariables)
	return nil
}

// dropUndeclared deletes the values that a placeholder refers to and that the
// module does not declare: they are not intended for the module.
func (r *resolver) dropUndeclared(module *inspect.Module, values inspect.Values) {
	for name := range values {
		if _, declared := module.Variables[name]; !declared && r.used[name] {
			delete(values, name)
		}
	}
}

func format(f infrav1.FileFormat) terraform.Format {
	if f == "" {
		return terraform.FormatHCL
	}
	return terraform.Format(f)
}
