package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/policy"
	"github.com/appthrust/capt/internal/terraform/template"
)

func newPolicyCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "policy",
		Short: "Test policies with a plan",
		Long: `Test policies with a plan. A policy (WorkspacePolicy or ClusterWorkspacePolicy)
denies plans, requires their approval, or warns about them.`,
	}, newPolicyTestCommand(o))
}

// policyCall is a call of captctl policy test.
type policyCall struct {
	*Options
	output  text.Output
	plan    string
	destroy bool
	// refreshOnly is set if the plan is one that only refreshes the state.
	refreshOnly bool
	workspace   terraform.PolicyWorkspace
	template    terraform.PolicyTemplate
}

func newPolicyTestCommand(o *Options) *cobra.Command {
	t := &policyCall{Options: o, output: "text"}
	c := &cobra.Command{
		Use:   "test FILE|DIRECTORY|-... --plan FILE",
		Short: "Evaluate policies for a plan, without a cluster",
		Long: `Evaluate the policies of manifests for a plan, without a cluster. The plan is the
output of tofu show -json PLAN or terraform show -json PLAN. All policies of the
manifests are evaluated, whatever their selectors are.

Sensitive values of the plan are masked, as in a run. The exit code is 0 if no rule
with the action Deny is violated, 1 if one is, and 2 if the manifests or the plan
cannot be read.`,
		Example: `  tofu plan -out=plan && tofu show -json plan > plan.json
  captctl policy test --plan plan.json policies/

  # With the labels of a workspace, as rules see them.
  captctl policy test --plan plan.json --labels stage=prod policies/keep-clusters.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("expected files or directories with policies, or - for stdin")
			case t.plan == "":
				return errors.New("expected --plan FILE, the output of tofu show -json")
			case t.plan == "-" && slices.Contains(args, "-"):
				return errors.New("stdin can be the plan or the policies, not both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd.Context(), args) },
	}
	addFormat(c, &t.output, "text", text.JSON, text.YAML, markdown)
	c.Flags().StringVar(&t.plan, "plan", "", "Output of tofu show -json PLAN, or - for stdin.")
	c.Flags().BoolVar(&t.destroy, "destroy", false, "The plan destroys the workspace: plan.destroy is true.")
	c.Flags().BoolVar(&t.refreshOnly, "refresh-only", false, "The plan is that of tofu plan -refresh-only: plan.refreshOnly is true, and rules see what drifted.")
	c.Flags().StringVar(&t.workspace.Name, "workspace", "test", "Name of the workspace that rules see.")
	c.Flags().StringVar(&t.workspace.ClusterName, "cluster", "", "Name of the cluster of the workspace.")
	c.Flags().StringToStringVar(&t.workspace.Labels, "labels", nil, "Labels of the workspace: KEY=VALUE,...")
	c.Flags().StringVar(&t.template.Name, "template", "test", "Name of the template that rules see.")
	return c
}

func (t *policyCall) run(ctx context.Context, paths []string) error {
	policies, err := t.readPolicies(ctx, paths)
	if err != nil {
		return err
	}
	policies.Workspace, policies.Template = t.workspace, t.template
	policies.Workspace.Namespace = *t.Kube.Namespace
	if policies.Workspace.Namespace == "" {
		policies.Workspace.Namespace = "default"
	}
	policies.Template.Namespace = policies.Workspace.Namespace
	violations, err := t.evaluate(ctx, policies)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if err := t.print(violations); err != nil {
		return err
	}
	if terraform.Strictest(violations) == terraform.PolicyDeny {
		return &Exit{Code: 1, Err: errors.New("the plan is denied")}
	}
	return nil
}

// readPolicies returns the policies of manifests. Other objects are ignored.
func (t *policyCall) readPolicies(ctx context.Context, paths []string) (*terraform.Policies, error) {
	read, findings, err := validate.Read(paths, t.In)
	if err != nil {
		return nil, &Exit{Code: 2, Err: err}
	}
	read = slices.DeleteFunc(read, func(object *validate.Object) bool {
		kind := object.GetKind()
		return object.GroupVersionKind().Group != infrav1.GroupVersion.Group || kind != "WorkspacePolicy" && kind != "ClusterWorkspacePolicy"
	})
	objects, found, err := validate.Decode(ctx, read, validate.Options{Namespace: *t.Kube.Namespace})
	if err != nil {
		return nil, &Exit{Code: 2, Err: err}
	}
	if findings = append(findings, found...); validate.Failed(findings) {
		if err := validate.Write(t.Err, "text", findings); err != nil {
			return nil, err
		}
		return nil, &Exit{Code: 2, Err: errors.New("the policies are invalid")}
	}
	policies := &terraform.Policies{}
	for _, object := range objects {
		policies.Policies = append(policies.Policies, planPolicy(object))
	}
	if len(policies.Policies) == 0 {
		return nil, usageError("the manifests have no WorkspacePolicy or ClusterWorkspacePolicy")
	}
	return policies, nil
}

func planPolicy(object client.Object) terraform.Policy {
	p := terraform.Policy{Kind: object.GetObjectKind().GroupVersionKind().Kind, Name: object.GetName()}
	switch object := object.(type) {
	case *infrav1.WorkspacePolicy:
		p.Rules = template.PlanRules(object.Spec.Rules)
	case *infrav1.ClusterWorkspacePolicy:
		p.Rules = template.PlanRules(object.Spec.Rules)
	}
	return p
}

// evaluate returns the violations of policies by the plan of the flags. The plan is
// read three times: for its summary, for the values to mask, and for its changes.
func (t *policyCall) evaluate(ctx context.Context, policies *terraform.Policies) ([]terraform.PolicyViolation, error) {
	plan, err := t.readFile(t.plan)
	if err != nil {
		return nil, err
	}
	secrets, err := change.ReadSecrets(bytes.NewReader(plan))
	if err != nil {
		return nil, fmt.Errorf("%s is not the output of tofu show -json PLAN: %w", t.plan, err)
	}
	summary := policy.Plan{Destroy: t.destroy, RefreshOnly: t.refreshOnly}
	if err := change.ReadPlanned(bytes.NewReader(plan), t.refreshOnly, func(planned change.Planned) error {
		if planned.Resource != nil {
			count(&summary, planned.Resource.Actions)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	evaluation := policy.New(policies, summary)
	if err := change.ReadPlanned(bytes.NewReader(plan), t.refreshOnly, func(planned change.Planned) error { return evaluation.Add(ctx, planned) }); err != nil {
		return nil, err
	}
	return evaluation.Finish(ctx, secrets.Mask)
}

// count adds the actions of a change to the summary of a plan.
func count(plan *policy.Plan, actions []string) {
	if slices.Contains(actions, "create") {
		plan.ToAdd++
	}
	if slices.Contains(actions, "update") {
		plan.ToChange++
	}
	if slices.Contains(actions, "delete") {
		plan.ToDestroy++
	}
}

func (t *policyCall) print(violations []terraform.PolicyViolation) error {
	shown := apiViolations(violations)
	switch {
	case t.output.Structured():
		return t.output.Print(t.Out, text.NonNil(shown))
	case t.output == markdown:
		fmt.Fprint(t.Out, markdownViolations(shown))
	default:
		fmt.Fprint(t.Out, listViolations(shown, t.style()))
	}
	if len(shown) == 0 {
		fmt.Fprintln(t.Out, "No rule is violated.")
	}
	return nil
}
