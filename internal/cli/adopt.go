package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/adopt"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform/template"
)

func newAdoptCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "adopt",
		Short: "Take over resources that CAPT did not create",
	}, newAdoptStateCommand(o), newAdoptWorkspaceCommand(o), newAdoptStatusCommand(o), newAdoptCommitCommand(o), newAdoptCompleteCommand(o), newAdoptReleaseCommand(o))
}

func newAdoptStatusCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "status NAME",
		Short: "Show how far an adoption is, and what is next",
		Long: `Show the stage of an adoption, and what the latest plan does to the resources: what it
imports, moves, changes, creates, and what it would replace or destroy, which an adoption
refuses. Where a resource probably has only another address in the module, the moved block
for it is printed.`,
		Example: "  captctl adopt status network-a\n  captctl adopt status cluster/demo -o json",
	}, func(ctx context.Context, w *workspaceCall) error {
		report, err := w.adoptionReport(ctx)
		if err != nil {
			return err
		}
		if output.Structured() {
			return output.Print(w.Out, report)
		}
		return report.Print(w.Out)
	})
	addOutput(cmd, &output)
	return cmd
}

// adoptionReport describes the latest plan of a workspace.
func (w *workspaceCall) adoptionReport(ctx context.Context) (*adopt.Report, error) {
	stage, err := w.adoptionStage(ctx)
	if err != nil {
		return nil, err
	}
	report := &adopt.Report{Workspace: w.apply.Name, Stage: stage}
	if meta.IsStatusConditionTrue(w.apply.Status.Conditions, infrav1.AppliedCondition) {
		report.Applied = true
		return report, nil
	}
	if w.apply.Status.Plan == nil {
		return report, nil
	}
	plan, err := operate.PlanOf(ctx, w.client, w.apply)
	if err != nil {
		return nil, err
	}
	report.Plan, report.Waiting = plan.ID, plan.Waiting != nil && *plan.Waiting
	report.Add(plan.Resources)
	return report, nil
}

// adoptionStage returns the stage of a workspace and its template.
func (w *workspaceCall) adoptionStage(ctx context.Context) (infrav1.AdoptionStage, error) {
	t := &infrav1.WorkspaceTemplate{}
	if err := w.client.Get(ctx, w.apply.Spec.TemplateRef.Key(w.apply.Namespace), t); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the template: %w", err)
	}
	return template.AdoptionOf(t, w.apply), nil
}

func newAdoptCommitCommand(o *Options) *cobra.Command {
	var yes bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "commit NAME",
		Short: "Let the plan of an adoption be approved",
		Long: `End the observation of existing resources: the next plan waits for approval and, once
approved, imports and changes them. Plans that destroy or replace a resource stay refused
until the adoption is complete. The command fails while the latest plan is one of those.`,
		Example: "  captctl adopt commit network-a\n  captctl approve network-a",
	}, func(ctx context.Context, w *workspaceCall) error {
		report, err := w.adoptionReport(ctx)
		switch {
		case err != nil:
			return err
		case !report.Keeps():
			return fmt.Errorf("the plan of %s would destroy or replace resources: see captctl adopt status %s", w.apply.Name, w.apply.Name)
		case report.Plan == "" && !report.Applied:
			return fmt.Errorf("%s has no plan yet: see captctl adopt status %s", w.apply.Name, w.apply.Name)
		}
		if err := w.confirm(ctx, yes, fmt.Sprintf("Let the plan of %s be approved?", w.apply.Name)); err != nil {
			return err
		}
		return w.setStage(ctx, infrav1.AdoptionCommit, "captctl approve "+w.apply.Name+" takes over, unless the plan has no changes")
	})
	addYes(cmd, &yes)
	return cmd
}

func newAdoptCompleteCommand(o *Options) *cobra.Command {
	var yes bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "complete NAME",
		Short: "End an adoption whose plan is applied",
		Long: `End an adoption: plans are applied as approval, protect and policies specify, also those
that replace or destroy resources. The command fails unless everything is applied.`,
		Example: "  captctl adopt complete network-a",
	}, func(ctx context.Context, w *workspaceCall) error {
		if !meta.IsStatusConditionTrue(w.apply.Status.Conditions, infrav1.AppliedCondition) {
			return fmt.Errorf("%s is not applied yet: see captctl adopt status %s", w.apply.Name, w.apply.Name)
		}
		if err := w.confirm(ctx, yes, fmt.Sprintf("End the adoption of %s, so that plans may replace and destroy its resources?", w.apply.Name)); err != nil {
			return err
		}
		next := "its manifest no longer needs adoption"
		if w.apply.Spec.RetainWorkspaceOnDelete {
			next = "its deletion still destroys nothing, because of spec.retainWorkspaceOnDelete"
		}
		return w.setStage(ctx, "", next)
	})
	addYes(cmd, &yes)
	return cmd
}

// setStage sets the stage of a workspace. It fails if its template has an earlier one.
func (w *workspaceCall) setStage(ctx context.Context, stage infrav1.AdoptionStage, next string) error {
	before := w.apply.DeepCopy()
	w.apply.Spec.Adoption = stage
	if err := w.client.Patch(ctx, w.apply, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("updating workspace %s: %w", w.apply.Name, err)
	}
	effective, err := w.adoptionStage(ctx)
	if err != nil {
		return err
	}
	if effective != stage {
		return fmt.Errorf("WorkspaceTemplate %s still has adoption: %s: change spec.template.spec.adoption there", w.apply.Spec.TemplateRef.Name, effective)
	}
	fmt.Fprintf(w.Out, "Changed %s: %s\n", w.apply.Name, next)
	return nil
}

func newAdoptReleaseCommand(o *Options) *cobra.Command {
	var yes bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "release NAME",
		Short: "Delete a workspace without destroying its resources",
		Long: `Delete a workspace and keep its resources, its state and its connection Secret. A new
workspace of the same name takes the state over again. The workspaces of a Cluster are
released with it: see docs/adopting.md.`,
		Example: "  captctl state pull network-a --out network-a.tfstate\n  captctl adopt release network-a",
	}, func(ctx context.Context, w *workspaceCall) error {
		if owner := metav1.GetControllerOf(w.apply); owner != nil {
			return fmt.Errorf("%s belongs to %s %s, which would create it again: set spec.retainWorkspaceOnDelete, and delete its Cluster", w.apply.Name, owner.Kind, owner.Name)
		}
		if err := w.confirm(ctx, yes, fmt.Sprintf("Delete %s and keep its resources?", w.apply.Name)); err != nil {
			return err
		}
		before := w.apply.DeepCopy()
		w.apply.Spec.RetainWorkspaceOnDelete = true
		if err := w.client.Patch(ctx, w.apply, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("updating workspace %s: %w", w.apply.Name, err)
		}
		// Nobody may have taken the field back.
		if err := w.client.Delete(ctx, w.apply, client.Preconditions{UID: &w.apply.UID, ResourceVersion: &w.apply.ResourceVersion}); err != nil {
			return fmt.Errorf("deleting workspace %s: %w", w.apply.Name, err)
		}
		fmt.Fprintf(w.Out, "Released %s: its resources, state and connection Secret stay\n", w.apply.Name)
		return nil
	})
	addYes(cmd, &yes)
	return cmd
}
