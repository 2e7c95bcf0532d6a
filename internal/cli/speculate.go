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

// speculateFlags are the flags of a plan of a directory.
type speculateFlags struct {
	dir, template, binary string
	detailed              bool
}

func (f *speculateFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "dir", "", "Plan the root module in this directory against the state of the workspace, without locking or writing anything.")
	cmd.Flags().StringVar(&f.template, "template", "", "With --dir: plan all workspaces of the namespace that use this WorkspaceTemplate, instead of one.")
	cmd.Flags().StringVar(&f.binary, "terraform-binary", "", "With --dir: path of OpenTofu or Terraform. "+toolHelp)
	cmd.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "With --dir: exit with code 3 if a plan has changes.")
}

// check returns a usage error for flags and arguments that do not fit.
func (f *speculateFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.dir == "" && (f.template != "" || f.binary != "" || f.detailed):
		return errors.New("--template, --terraform-binary and --detailed-exitcode need --dir: pass the directory of a module")
	case f.template != "" && len(args) > 0:
		return errors.New("a workspace and --template exclude each other: pass one of both")
	case f.template != "":
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

// speculate plans the module of a directory for one workspace, or for all that use a
// template, and prints the plans.
func (o *Options) speculate(ctx context.Context, args []string, flags *speculateFlags, output text.Output, short bool) (err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	top, root, err := speculate.Locate(flags.dir)
	if err != nil {
		return usageError("--dir %s: %w", flags.dir, err)
	}
	c, namespace, err := o.connect()
	if err != nil {
		return err
	}
	var workspaces []*infrav1.WorkspaceTemplateApply
	if flags.template != "" {
		workspaces, err = operate.WithTemplate(ctx, c, namespace, flags.template)
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
		client: c, module: top, root: root, directory: flags.dir,
		options: speculate.Options{
			Binary: flags.binary, Plugins: cmp.Or(os.Getenv("TF_PLUGIN_CACHE_DIR"), filepath.Join(scratch, "plugins")), Inherit: ownEnvironment(),
		},
	}
	var plans []*speculative
	page := &comment{left: commentLimit, plans: len(workspaces)}
	for i, apply := range workspaces {
		plan := planner.plan(ctx, o, apply, filepath.Join(scratch, fmt.Sprint(i)))
		if err := ctx.Err(); err != nil {
			return err
		}
		plans = append(plans, plan)
		if err := o.printSpeculative(plan, output, short, page); err != nil {
			return err
		}
	}
	if err := page.end(o.Out); err != nil {
		return err
	}
	if output.Structured() {
		var shown any = plans
		if flags.template == "" {
			shown = plans[0]
		}
		if err := output.Print(o.Out, shown); err != nil {
			return err
		}
	}
	return speculativeExit(plans, flags.detailed)
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

// printSpeculative prints a plan, or collects its changes for a structured output.
func (o *Options) printSpeculative(plan *speculative, output text.Output, short bool, page *comment) error {
	read := plan.changes
	if short || read == nil {
		read = func(func(change.Entry) error) (bool, error) { return false, nil }
	}
	switch {
	case output.Structured():
		_, err := read(func(entry change.Entry) error {
			plan.Details = append(plan.Details, entry)
			return nil
		})
		return err
	case output == markdown:
		return page.add(o.Out, plan, read)
	case plan.Error != "":
		return nil
	default:
		err := printPlan(o.Out, &plan.Plan, read, o.style(), time.Now())
		fmt.Fprintln(o.Out)
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
