package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Exit codes of plan -detailed-exitcode.
const (
	exitNoChanges = 0
	exitChanges   = 2
)

// PlanOptions say what is planned.
type PlanOptions struct {
	// Out is the file that keeps the plan; none is kept when empty.
	Out string
	// Destroy plans the destruction of everything.
	Destroy bool
	// RefreshOnly compares the state with reality, and plans nothing else.
	RefreshOnly bool
	Args        []string
}

// PlanResult is what a plan found.
type PlanResult struct {
	// HasChanges is set when there is something to apply, if only an output;
	// after RefreshOnly, when anything differs from the state.
	HasChanges bool
	Summary    terraform.PlanSummary
	// Drift are the resources that differ from the state.
	Drift       []terraform.Change
	Diagnostics terraform.Diagnostics
}

// Plan makes a plan and summarises it from the event stream.
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
	args = append(args, terraform.DropImplied(options.Args)...)

	var result *PlanResult
	err := s.ready(ctx, func() error {
		result = &PlanResult{}
		heard, err := s.stream(ctx, "plan", args, result.hear)
		if err != nil {
			return err
		}
		if heard.code != exitNoChanges && heard.code != exitChanges {
			return s.failure(ctx, "plan", heard)
		}
		result.HasChanges = heard.code == exitChanges
		result.Diagnostics = heard.diagnostics
		return nil
	})
	if err != nil {
		return nil, err
	}
	result.finish()
	if options.Out != "" {
		result.Summary.ID, err = PlanID(options.Out)
	}
	return result, err
}

func (r *PlanResult) hear(event Event) {
	switch {
	case event.Type == eventPlanned && event.Change != nil:
		r.Summary.Changes = append(r.Summary.Changes, event.Change.change())
	case event.Type == eventDrift && event.Change != nil:
		r.Drift = append(r.Drift, event.Change.change())
	case event.Type == eventSummary && event.Changes != nil:
		r.Summary.Add = event.Changes.Add
		r.Summary.Change = event.Changes.Change
		r.Summary.Destroy = event.Changes.Remove
		r.Summary.Import = event.Changes.Import
		r.Summary.Forget = event.Changes.Forget
	}
}

// finish puts the changes in an order that is the same every time.
func (r *PlanResult) finish() {
	byAddress := func(a, b terraform.Change) int { return strings.Compare(a.Address, b.Address) }
	slices.SortStableFunc(r.Summary.Changes, byAddress)
	slices.SortStableFunc(r.Drift, byAddress)
	r.Summary.OutputsOnly = r.HasChanges && !slices.ContainsFunc(r.Summary.Changes, func(c terraform.Change) bool {
		return c.Action != terraform.ActionRead
	})
}

// PlanID identifies a kept plan by its content.
func PlanID(file string) (string, error) {
	plan, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading the plan: %w", err)
	}
	defer func() { _ = plan.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, plan); err != nil {
		return "", fmt.Errorf("reading the plan: %w", err)
	}
	return "plan-" + hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
