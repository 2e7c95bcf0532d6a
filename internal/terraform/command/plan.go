package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

// Exit codes of plan -detailed-exitcode.
const (
	exitNoChanges = 0
	exitChanges   = 2
)

// PlanOptions configure a plan.
type PlanOptions struct {
	// Out is the file to save the plan to. If empty, the plan is not saved.
	Out string
	// Destroy plans the destruction of all resources.
	Destroy bool
	// RefreshOnly compares the state with the real resources, but plans no change
	// to them.
	RefreshOnly bool
	// Replace and Target are addresses.
	Replace, Target []string
	// Import is configuration with import blocks, or nil.
	Import []byte
	Args   []string
}

// PlanResult is the result of a plan.
type PlanResult struct {
	// HasChanges is set if the plan changes a resource or an output. With
	// RefreshOnly it is set if anything differs from the state.
	HasChanges bool
	Summary    terraform.PlanSummary
	// Drift are the resources that differ from the state.
	Drift       []terraform.Change
	Diagnostics terraform.Diagnostics
}

// Plan creates a plan and summarises it from the event stream.
func (s *Session) Plan(ctx context.Context, options PlanOptions) (*PlanResult, error) {
	args := slices.Concat([]string{"plan", "-json", "-input=false", "-detailed-exitcode"}, s.lockArgs())
	if options.Destroy {
		args = append(args, "-destroy")
	}
	if options.RefreshOnly {
		args = append(args, "-refresh-only")
	}
	if options.Out != "" {
		args = append(args, "-out="+options.Out)
	}
	for _, address := range options.Replace {
		args = append(args, "-replace="+address)
	}
	for _, address := range options.Target {
		args = append(args, "-target="+address)
	}
	args = append(args, terraform.DropImplied(options.Args)...)
	if len(options.Import) > 0 {
		path := filepath.Join(s.Root, importsFile)
		if err := writeFile(path, options.Import); err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(path) }()
	}

	var result *PlanResult
	err := s.reading(ctx, func() error {
		result = &PlanResult{}
		output, err := s.stream(ctx, "plan", 0, args, result.observe)
		if err != nil {
			return err
		}
		if output.code != exitNoChanges && output.code != exitChanges {
			return s.failure(ctx, "plan", output)
		}
		result.HasChanges = output.code == exitChanges
		result.Diagnostics = output.diagnostics
		return nil
	})
	if err != nil {
		return nil, err
	}
	result.finish()
	if options.RefreshOnly {
		result.Summary.Refresh, result.Summary.OutputsOnly = len(result.Drift), result.HasChanges && len(result.Drift) == 0
	}
	return result, nil
}

// importsFile is the file of a root module with the import blocks of one plan. The saved
// plan contains them.
const importsFile = terraform.ReservedFilePrefix + "imports.tf"

// observe adds an event of the plan to the result.
func (r *PlanResult) observe(event events.Event) {
	switch {
	case event.Type == events.TypePlanned && event.Change != nil:
		r.Summary.Changes = append(r.Summary.Changes, event.Change.Convert())
	case event.Type == events.TypeDrift && event.Change != nil:
		r.Drift = append(r.Drift, event.Change.Convert())
	case event.Type == events.TypeSummary && event.Changes != nil:
		r.Summary.Add = event.Changes.Add
		r.Summary.Change = event.Changes.Change
		r.Summary.Destroy = event.Changes.Remove
		r.Summary.Import = event.Changes.Import
		r.Summary.Forget = event.Changes.Forget
	}
}

// finish sorts the changes and sets what depends on all of them.
func (r *PlanResult) finish() {
	byAddress := func(a, b terraform.Change) int { return strings.Compare(a.Address, b.Address) }
	slices.SortStableFunc(r.Summary.Changes, byAddress)
	slices.SortStableFunc(r.Drift, byAddress)
	r.Summary.OutputsOnly = r.HasChanges && !slices.ContainsFunc(r.Summary.Changes, func(c terraform.Change) bool {
		return c.Action != terraform.ActionRead
	})
}
