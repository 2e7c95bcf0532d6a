package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/speculate"
)

// exitChanges is the exit code of --detailed-exitcode if there are changes. Terraform has
// 2 for it, which is the code for wrong usage here.
const exitChanges = 3

// speculateCall is a call of captctl plan for a directory.
type speculateCall struct {
	*Options
	dir, template, binary string
	detailed, short       bool
	output                text.Output
}

func (s *speculateCall) add(cmd *cobra.Command) {
	addFormat(cmd, &s.output, text.JSON, text.YAML, markdown)
	cmd.Flags().BoolVar(&s.short, "short", false, "With --dir: list the changed resources without values.")
	cmd.Flags().StringVar(&s.dir, "dir", "", "Plan the root module in this directory against the state of the workspace, without locking or writing anything.")
	cmd.Flags().StringVar(&s.template, "template", "", "With --dir: plan all workspaces of the namespace that use this WorkspaceTemplate, instead of one.")
	cmd.Flags().StringVar(&s.binary, "terraform-binary", "", "With --dir: path of OpenTofu or Terraform. "+toolHelp)
	cmd.Flags().BoolVar(&s.detailed, "detailed-exitcode", false, "With --dir: exit with code 3 if a plan has changes.")
}

// check returns a usage error for flags and arguments that do not fit.
func (s *speculateCall) check(cmd *cobra.Command, args []string) error {
	switch {
	case s.dir == "" && (s.template != "" || s.binary != "" || s.detailed):
		return errors.New("--template, --terraform-binary and --detailed-exitcode need --dir: pass the directory of a module")
	case s.template != "" && len(args) > 0:
		return errors.New("a workspace and --template exclude each other: pass one of both")
	case s.template != "":
		return nil
	default:
		return oneName("workspace")(cmd, args)
	}
}

// speculative is a plan of a directory, or why there is none.
type speculative struct {
	operate.Plan
	Error string `json:"error,omitempty"`

	hasChanges bool
	changes    changeReader
}

// run plans the module of a directory for one workspace, or for all that use a
// template, and prints the plans.
func (s *speculateCall) run(ctx context.Context, args []string) (err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	top, root, err := speculate.Locate(s.dir)
	if err != nil {
		return usageError("--dir %s: %w", s.dir, err)
	}
	c, namespace, err := s.connect()
	if err != nil {
		return err
	}
	var workspaces []*infrav1.WorkspaceTemplateApply
	if s.template != "" {
		workspaces, err = operate.WithTemplate(ctx, c, namespace, s.template)
	} else {
		workspaces = make([]*infrav1.WorkspaceTemplateApply, 1)
		workspaces[0], err = operate.Find(ctx, c, namespace, args[0])
	}
	if err != nil {
		return err
	}
	scratch, remove, err := speculate.TempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	planner := &speculator{
		client: c, module: top, root: root, directory: s.dir,
		options: speculate.Options{
			Binary: s.binary, Plugins: cmp.Or(os.Getenv("TF_PLUGIN_CACHE_DIR"), filepath.Join(scratch, "plugins")), Inherit: ownEnvironment(),
		},
	}
	var plans []*speculative
	page := &comment{left: commentLimit, plans: len(workspaces)}
	for i, apply := range workspaces {
		plan := planner.plan(ctx, s.Options, apply, filepath.Join(scratch, fmt.Sprint(i)))
		if err := ctx.Err(); err != nil {
			return err
		}
		plans = append(plans, plan)
		if err := s.print(plan, page); err != nil {
			return err
		}
	}
	if err := page.end(s.Out); err != nil {
		return err
	}
	if s.output.Structured() {
		var shown any = plans
		if s.template == "" {
			shown = plans[0]
		}
		if err := s.output.Print(s.Out, shown); err != nil {
			return err
		}
	}
	return speculativeExit(plans, s.detailed)
}

// untilHangup returns a context that also ends when the terminal is closed, so that the
// working directory is removed.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// ownEnvironment returns the names of the variables that the tool inherits from captctl:
// all except those that configure the tool.
func ownEnvironment() []string {
	var names []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "TF_") {
			names = append(names, name)
		}
	}
	return names
}

// speculator plans a module for workspaces.
type speculator struct {
	client client.Reader
	// module and root are the results of speculate.Locate for directory.
	module, root, directory string
	options                 speculate.Options
}

func (s *speculator) plan(ctx context.Context, o *Options, apply *infrav1.WorkspaceTemplateApply, dir string) *speculative {
	p := o.progress()
	defer p.end()
	p.show(fmt.Sprintf("Planning %s with the module in %s", apply.Name, s.directory))
	shown := &speculative{Plan: operate.Plan{Workspace: apply.Name, Directory: s.directory}}
	plan, err := s.run(ctx, apply, dir)
	if err != nil {
		shown.Error = o.explain(err).Error()
		return shown
	}
	summary := &plan.Summary
	shown.Add, shown.Change, shown.Destroy = int32(summary.Add), int32(summary.Change), int32(summary.Destroy)
	shown.Resources, shown.OutputsOnly, shown.Blocked = summary.Changes, summary.OutputsOnly, plan.Blocked
	shown.Violations, shown.PolicyAction = apiViolations(plan.Violations), infrav1.PolicyAction(terraform.Strictest(plan.Violations))
	shown.hasChanges = plan.HasChanges
	shown.changes = func(emit func(change.Entry) error) (bool, error) { return true, plan.Changes(ctx, emit) }
	return shown
}

func (s *speculator) run(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, dir string) (*speculate.Plan, error) {
	request, err := operate.SpeculativeRequest(ctx, s.client, apply, s.module, s.root)
	if err != nil {
		return nil, err
	}
	state, err := operate.ReadState(ctx, s.client, apply, request.Backend)
	if err != nil {
		return nil, err
	}
	options := s.options
	options.Dir = dir
	if options.Binary, err = setTool(ctx, s.client, apply, request, options.Binary); err != nil {
		return nil, err
	}
	return speculate.New(ctx, request, state, options)
}

// print prints a plan, or collects its changes for a structured output.
func (s *speculateCall) print(plan *speculative, page *comment) error {
	read := plan.changes
	if s.short || read == nil {
		read = func(func(change.Entry) error) (bool, error) { return false, nil }
	}
	switch {
	case s.output.Structured():
		_, err := read(func(entry change.Entry) error {
			plan.Details = append(plan.Details, entry)
			return nil
		})
		return err
	case s.output == markdown:
		return page.add(s.Out, plan, read)
	case plan.Error != "":
		return nil
	default:
		err := printPlan(s.Out, &plan.Plan, read, s.style(), time.Now())
		fmt.Fprintln(s.Out)
		return err
	}
}

// speculativeExit returns the error for plans that failed or that a run would refuse.
func speculativeExit(plans []*speculative, detailed bool) error {
	var problems []string
	changed := false
	for _, plan := range plans {
		changed = changed || plan.hasChanges
		switch {
		case plan.Error != "":
			problems = append(problems, plan.Workspace+": the plan failed: "+message.OneLine(plan.Error))
		case plan.PolicyAction == infrav1.PolicyDeny:
			problems = append(problems, plan.Workspace+": a policy denies the plan")
		case len(plan.Blocked) > 0:
			problems = append(problems, plan.Workspace+": the plan would destroy or replace protected resources")
		}
	}
	switch {
	case len(problems) > 0:
		return errors.New(strings.Join(problems, "; "))
	case changed && detailed:
		return &Exit{Code: exitChanges}
	default:
		return nil
	}
}
