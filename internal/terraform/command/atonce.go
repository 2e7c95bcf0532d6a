package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// AtOnce is the result of a command that plans and applies.
type AtOnce struct {
	// Plan is nil if the plan was refused, or if the tool asked for something else.
	Plan *PlanResult
	// Applied is nil if nothing was applied.
	Applied *ApplyResult
}

// asksSince is the version of OpenTofu from which on an apply can print events and ask.
var asksSince = terraform.ToolRequirement{Product: terraform.ProductOpenTofu, Version: ">= 1.12"}

// maxProviders limits the programs of the providers, in bytes. One command prints the plan as
// text, too: with the schemas of large providers that takes the time and memory that it saves.
const maxProviders = 64 << 20

// CanPlanAndApply reports whether PlanAndApply may be used, and is faster than a plan and an
// apply: the tool can ask, its environment has no arguments that are only for one of them, and
// the providers are small.
func (s *Session) CanPlanAndApply() bool {
	return asksSince.Meets(string(s.product), s.version) && !slices.ContainsFunc(s.env, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "TF_CLI_ARGS") && value != ""
	}) && s.installedBytes() <= maxProviders
}

// installedBytes returns the size of the providers in the working directory.
func (s *Session) installedBytes() int64 {
	// HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/FILE.
	files, _ := filepath.Glob(filepath.Join(s.Root, dataDir, "providers", "*", "*", "*", "*", "*", "*"))
	var size int64
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}

// MaxPlanText limits the text of a plan that PlanAndApply passes on.
const MaxPlanText = 256 << 10

// PlanAndApply creates a plan and applies it with one command, which starts the tool once. The
// tool asks before it applies a plan with changes: decide is called with the plan and its text,
// of which a part beyond MaxPlanText may be missing, and nothing is applied unless it returns
// true. The command can be interrupted as a plan and an apply can.
func (s *Session) PlanAndApply(ctx context.Context, planning, applying []string, decide func(plan *PlanResult, text string) bool) (*AtOnce, error) {
	s.StopProviders()
	args := slices.Concat([]string{"apply"}, s.lockArgs(), s.applyBackupArgs(), terraform.DropImplied(planning))
	_, applying = terraform.SplitArgs(applying)
	args = append(args, applying...)
	removeUnused, err := s.createStateFiles()
	if err != nil {
		return nil, err
	}
	defer removeUnused()
	var result *AtOnce
	err = s.ready(ctx, func() (err error) {
		result, err = s.planAndApply(ctx, args, decide)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

func (s *Session) planAndApply(ctx context.Context, args []string, decide func(plan *PlanResult, text string) bool) (*AtOnce, error) {
	text, err := s.unnamed()
	if err != nil {
		return nil, err
	}
	question, err := newQuestion(text)
	if err != nil {
		_ = text.Close()
		return nil, err
	}
	defer question.close()

	plan, applied := &PlanResult{}, &ApplyResult{Outputs: map[string]terraform.Output{}}
	planned, accepted := false, false
	var refusal error
	question.decide = func() {
		if !planned || ctx.Err() != nil {
			return
		}
		plan.HasChanges = true
		plan.finish()
		if accepted = decide(plan, question.printed(MaxPlanText)); accepted {
			refusal = question.accept()
		}
	}
	output, err := s.stream(ctx, streamed{name: applyName, args: args, question: question, handle: func(event Event) {
		if question.asked {
			applied.observe(event)
			return
		}
		plan.observe(event)
		planned = planned || event.Type == eventSummary
	}})
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return nil, refusal
	case accepted && output.code != 0:
		failure := s.failure(ctx, "apply", output)
		// Something may have changed, so nothing is repeated.
		failure.needsInit = false
		return nil, failure
	case question.asked && !accepted && !output.interrupted:
		return &AtOnce{}, nil
	case output.code != 0:
		return nil, s.failure(ctx, "plan", output)
	}
	plan.Diagnostics = output.diagnostics
	result := &AtOnce{Plan: plan}
	if accepted {
		result.Applied = applied
	}
	return result, nil
}
