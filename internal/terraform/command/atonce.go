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
	// Plan is nil if the tool needs another command to plan.
	Plan *PlanResult
	// Applied is nil if the plan was not applied.
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

// PlanAndApply creates a plan and applies it with one command, which starts the tool and its
// providers less often than a plan and an apply. The tool asks before it applies the plan:
// decide is called with the plan, and with the size of its text, and nothing is applied unless
// it returns true. It can be interrupted as a plan and an apply can.
func (s *Session) PlanAndApply(ctx context.Context, planning, applying []string, decide func(plan *PlanResult, size int64) bool) (*AtOnce, error) {
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

func (s *Session) planAndApply(ctx context.Context, args []string, decide func(plan *PlanResult, size int64) bool) (*AtOnce, error) {
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
	accepted, decided := false, false
	var answerErr error
	output, err := s.stream(ctx, streamed{name: applyName, args: args, question: question, handle: func(event Event) {
		if event.Type == eventOutputs && !plan.HasChanges {
			plan.HasChanges = changesOutputs(event)
		}
		if decided {
			applied.observe(event)
			return
		}
		plan.observe(event)
		if event.Type != eventSummary || event.Changes == nil || question.answered {
			return
		}
		decided = true
		plan.HasChanges = plan.HasChanges || len(plan.Summary.Changes) > 0
		plan.finish()
		accepted = ctx.Err() == nil && decide(plan, question.size())
		answerErr = question.answer(accepted)
	}})
	switch {
	case err != nil:
		return nil, err
	case answerErr != nil:
		return nil, answerErr
	case question.strayed && !output.interrupted:
		return &AtOnce{}, nil
	case decided && !accepted && !output.interrupted:
		return &AtOnce{Plan: plan}, nil
	case output.code != 0 && !accepted:
		return nil, s.failure(ctx, "plan", output)
	case output.code != 0:
		failure := s.failure(ctx, "apply", output)
		// Something may have changed, so nothing is repeated.
		failure.needsInit = false
		return nil, failure
	}
	plan.finish()
	plan.Diagnostics = output.diagnostics
	result := &AtOnce{Plan: plan}
	if plan.HasChanges {
		result.Applied = applied
	}
	return result, nil
}

// changesOutputs reports whether an event of a plan has a change of an output.
func changesOutputs(event Event) bool {
	for _, output := range event.Outputs {
		if output.Action != "" && output.Action != "noop" {
			return true
		}
	}
	return false
}
