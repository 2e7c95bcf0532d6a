// Package speculate plans a module of a directory against the state of a workspace. It
// locks and writes nothing outside its own working directory.
package speculate

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/policy"
)

// Options configure how plans are made.
type Options struct {
	// Binary is the path of OpenTofu or Terraform. If empty, it is found in PATH.
	Binary string
	// Dir is the working directory, below one of TempDir.
	Dir string
	// Plugins is the cache of downloaded providers.
	Plugins string
	// Inherit names variables of the environment that the tool inherits.
	Inherit []string
}

// TempDir creates a directory for plans that only the user can read. It will contain states
// and credentials, so the caller must call remove.
func TempDir() (dir string, remove func() error, err error) {
	if dir, err = os.MkdirTemp("", "captctl-plan-"); err != nil {
		return "", nil, fmt.Errorf("creating a temporary directory: %w", err)
	}
	return dir, func() error {
		if err := command.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the temporary directory, which contains a state: %w", err)
		}
		return nil
	}, nil
}

// Plan is a plan that is not stored. It is valid as long as its directory exists.
type Plan struct {
	Summary    terraform.PlanSummary
	HasChanges bool
	// Blocked are the protected resources that the plan would destroy or replace.
	Blocked []string
	// Violations are the rules of policies that the plan violates.
	Violations []terraform.PolicyViolation

	session *command.Session
	file    string
	// hidden is set if the values of the plan are not shown, because the state is encrypted.
	hidden bool
}

// New plans the request, whose module has the address and the entrypoint of Locate. State is the content of a
// state in Kubernetes, or nil if there is none. The tool reads a state in another backend
// itself.
func New(ctx context.Context, request *terraform.Request, state []byte, options Options) (*Plan, error) {
	tool, err := binary.Select(ctx, options.Binary, request.Tool)
	if err != nil {
		return nil, err
	}
	request.Operation = terraform.OperationPlan
	workdir := &command.Workdir{Tool: tool, Dir: options.Dir, PluginCache: options.Plugins, Inherit: options.Inherit, CLIConfig: os.Getenv(command.CLIConfigEnv), NoLock: true, Log: io.Discard}
	session, err := command.Prepare(ctx, workdir, request)
	if err != nil {
		return nil, err
	}
	if request.Backend.Type == terraform.BackendKubernetes {
		if err := session.WriteState(state); err != nil {
			return nil, err
		}
	}
	planned, err := session.Plan(ctx, command.PlanOptions{Out: workdir.PlanFile(), Args: request.PlanningArgs()})
	if err != nil {
		return nil, err
	}
	planned.Summary.Changes = terraform.MarkNotFound(planned.Summary.Changes, planned.Drift)
	plan := &Plan{
		Summary: planned.Summary, HasChanges: planned.HasChanges, Blocked: request.BlockedBy(planned.Summary.Changes),
		session: session, file: workdir.PlanFile(), hidden: request.Encryption != "",
	}
	return plan, plan.checkPolicies(ctx, request.Policies)
}

func (p *Plan) checkPolicies(ctx context.Context, policies *terraform.Policies) error {
	if policies == nil || !p.HasChanges {
		return nil
	}
	evaluation := policy.New(policies, policy.Plan{ToAdd: p.Summary.Add, ToChange: p.Summary.Change, ToDestroy: p.Summary.Destroy, HideValues: p.hidden})
	shown, err := p.session.ShowPlan(ctx, p.file)
	if err != nil {
		return fmt.Errorf("checking the policies: %w", err)
	}
	defer shown.Close()
	err = shown.Planned(false, func(planned change.Planned) error { return evaluation.Add(ctx, planned) })
	if err == nil {
		p.Violations, err = evaluation.Finish(ctx, shown.Mask)
	}
	if err != nil {
		return fmt.Errorf("checking the policies: %w", err)
	}
	return nil
}

// Changes passes what the plan changes, attribute by attribute, to emit. Sensitive values
// are masked.
func (p *Plan) Changes(ctx context.Context, emit func(change.Entry) error) error {
	shown, err := p.session.ShowPlan(ctx, p.file)
	if err != nil {
		return err
	}
	defer shown.Close()
	return shown.Changes(func(entry change.Entry) error {
		if p.hidden {
			entry.Hide()
		}
		return emit(entry)
	})
}

// Locate returns the directory that contains a root module and all modules that it uses by
// a relative path, and the path of the root module in it. The directory is copied, so it is
// an error if it is wider than the Git repository of the root module, or has the user's home.
func Locate(dir string) (top, root string, err error) {
	dir, err = filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", "", fmt.Errorf("reading the module: %w", err)
	}
	used, err := usedModules(dir)
	if err != nil {
		return "", "", err
	}
	repository := repositoryOf(dir)
	if dir != repository && isTooWide(dir) {
		return "", "", fmt.Errorf("the module is in %s, all of which would be copied: put it into a directory of its own", dir)
	}
	top = dir
	for _, c := range used {
		for !isBelow(c.dir, top) {
			top = filepath.Dir(top)
		}
		switch {
		case repository != "" && !isBelow(top, repository):
			return "", "", fmt.Errorf("%s, which is outside of the repository %s, and all of %s would be copied: move the module into the repository, or use its address in Git or a registry", c, repository, top)
		case top != repository && isTooWide(top):
			return "", "", fmt.Errorf("%s, so all of %s would be copied: put both modules into one directory, or use an address in Git or a registry", c, top)
		}
	}
	root, err = filepath.Rel(top, dir)
	return top, filepath.ToSlash(root), err
}

// isBelow reports whether a path is a directory or below it.
func isBelow(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}
