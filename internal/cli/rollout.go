package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform/rollout"
)

func newRolloutCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "rollout",
		Short: "Show and control how a changed module reaches its workspaces",
		Long: `Show and control how a changed module reaches the workspaces of a WorkspaceTemplate
with stages (spec.rollout).`,
	}, newRolloutStatusCommand(o),
		o.templateCommand(&cobra.Command{
			Use: "undo TEMPLATE", Short: "Go back to the last module that reached all workspaces",
			Long: `Go back to the last module that reached all workspaces: write it into the template.
In the middle of a rollout, the workspaces that have changed go back at once. After it,
all change in the order of the stages. If the template is in Git, revert the commit
instead.`,
		}, undoRollout),
		o.templateCommand(&cobra.Command{
			Use: "pause TEMPLATE", Short: "Let no further workspace change",
			Long: "Let no further workspace change: set spec.rollout.paused of the template.",
		}, pauseRollout(true)),
		o.templateCommand(&cobra.Command{
			Use: "resume TEMPLATE", Short: "Continue with a rollout that is paused",
			Long: "Continue with a rollout that is paused: remove spec.rollout.paused of the template.",
		}, pauseRollout(false)))
}

// templateCommand makes a command that changes a template with stages, and prints what edit
// returns.
func (o *Options) templateCommand(cmd *cobra.Command, edit func(ctx context.Context, c client.Client, t *infrav1.WorkspaceTemplate) (done string, err error)) *cobra.Command {
	cmd.Args = oneName("WorkspaceTemplate")
	cmd.Example = "  captctl rollout " + cmd.Name() + " network"
	cmd.ValidArgsFunction = o.complete(operate.Names(&infrav1.WorkspaceTemplateList{}), false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, template, err := o.templateWithStages(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		before := template.DeepCopy()
		done, err := edit(cmd.Context(), c, template)
		if err != nil {
			return err
		}
		if err := c.Patch(cmd.Context(), template, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("changing WorkspaceTemplate %s: %w", template.Name, err)
		}
		fmt.Fprintln(o.Out, done)
		return nil
	}
	return cmd
}

func (o *Options) templateWithStages(ctx context.Context, name string) (client.Client, *infrav1.WorkspaceTemplate, error) {
	c, namespace, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	template := &infrav1.WorkspaceTemplate{}
	if err := operate.Get(ctx, c, "WorkspaceTemplate", client.ObjectKey{Namespace: namespace, Name: name}, template, &infrav1.WorkspaceTemplateList{}); err != nil {
		return nil, nil, err
	}
	if template.Spec.Rollout == nil {
		return nil, nil, fmt.Errorf("WorkspaceTemplate %s has no stages: a changed module reaches all its workspaces at once. Set spec.rollout first", name)
	}
	return c, template, nil
}

func pauseRollout(paused bool) func(context.Context, client.Client, *infrav1.WorkspaceTemplate) (string, error) {
	return func(_ context.Context, _ client.Client, t *infrav1.WorkspaceTemplate) (string, error) {
		if t.Spec.Rollout.Paused = nil; paused {
			t.Spec.Rollout.Paused = new(true)
			return "The rollout of WorkspaceTemplate " + t.Name + " is paused", nil
		}
		return "The rollout of WorkspaceTemplate " + t.Name + " is not paused", nil
	}
}

func undoRollout(ctx context.Context, c client.Client, t *infrav1.WorkspaceTemplate) (string, error) {
	status := t.Status.Rollout
	if status == nil || status.Previous == "" || status.Previous == status.Revision {
		return "", fmt.Errorf("WorkspaceTemplate %s has no former module that reached all workspaces", t.Name)
	}
	revision := &appsv1.ControllerRevision{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: status.Previous}, revision); err != nil {
		return "", fmt.Errorf("reading ControllerRevision %s: %w", status.Previous, err)
	}
	return "WorkspaceTemplate " + t.Name + " has the module of revision " + status.Previous + " again", rollout.Use(revision, t)
}

// rolloutView is the structured output of captctl rollout status.
type rolloutView struct {
	Template   string                 `json:"template"`
	Reason     string                 `json:"reason"`
	Message    string                 `json:"message"`
	Rollout    *infrav1.RolloutStatus `json:"rollout"`
	Workspaces []rolloutWorkspace     `json:"workspaces"`
}

type rolloutWorkspace struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Updated is set if the workspace uses the current module.
	Updated bool   `json:"updated"`
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
}

func newRolloutStatusCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := &cobra.Command{
		Use: "status TEMPLATE", Short: "Show which workspaces have the current module",
		Example:           "  captctl rollout status network",
		Args:              oneName("WorkspaceTemplate"),
		ValidArgsFunction: o.complete(operate.Names(&infrav1.WorkspaceTemplateList{}), false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, template, err := o.templateWithStages(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			view, err := viewRollout(cmd.Context(), c, template)
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, view)
			}
			return view.print(o)
		},
	}
	addOutput(cmd, &output)
	return cmd
}

// viewRollout lists the workspaces of a template that the user may see: those of all
// namespaces, or those of the namespace of the template.
func viewRollout(ctx context.Context, c client.Client, t *infrav1.WorkspaceTemplate) (*rolloutView, error) {
	view := &rolloutView{Template: t.Name, Rollout: t.Status.Rollout, Workspaces: []rolloutWorkspace{}}
	if known := meta.FindStatusCondition(t.Status.Conditions, infrav1.RolledOutCondition); known != nil {
		view.Reason, view.Message = known.Reason, known.Message
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := c.List(ctx, &list); err != nil {
		if err := c.List(ctx, &list, client.InNamespace(t.Namespace)); err != nil {
			return nil, fmt.Errorf("listing workspaces: %w", err)
		}
	}
	for i := range list.Items {
		apply := &list.Items[i]
		assigned := apply.Annotations[infrav1.TemplateRevisionAnnotation]
		if apply.Spec.TemplateRef.Key(apply.Namespace) != client.ObjectKeyFromObject(t) || assigned == "" {
			continue
		}
		w := rolloutWorkspace{Namespace: apply.Namespace, Name: apply.Name, Updated: t.Status.Rollout != nil && assigned == t.Status.Rollout.Revision}
		if ready := conditions.Get(apply, infrav1.ReadyCondition); ready != nil {
			w.Ready, w.Message = ready.Status == metav1.ConditionTrue, ready.Message
		}
		view.Workspaces = append(view.Workspaces, w)
	}
	return view, nil
}

func (v *rolloutView) print(o *Options) error {
	state := v.Message
	if v.Reason == infrav1.RolledOutCondition {
		state = "All workspaces use the current module."
	}
	fmt.Fprintf(o.Out, "%s\n\n", state)
	// Those that have changed come first.
	slices.SortStableFunc(v.Workspaces, func(a, b rolloutWorkspace) int {
		switch {
		case a.Updated == b.Updated:
			return 0
		case a.Updated:
			return -1
		default:
			return 1
		}
	})
	table := text.NewTable("NAMESPACE", "WORKSPACE", "UPDATED", "READY", "MESSAGE")
	for _, w := range v.Workspaces {
		table.Add(text.Cells(w.Namespace, w.Name, yesNo(w.Updated), yesNo(w.Ready), w.Message)...)
	}
	return table.Print(o.Out, o.style())
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
