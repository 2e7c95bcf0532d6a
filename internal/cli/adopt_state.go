package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
)

// adoptCall is a call of a command that takes over a state, with the flags of all of them.
type adoptCall struct {
	*Options
	state, providerConfig, secret string
	dryRun, yes                   bool
}

func (a *adoptCall) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.providerConfig, "provider-config", "", "Name of the WorkspaceProviderConfig with credentials and providers.")
	cmd.Flags().StringVar(&a.secret, "connection-secret", "", "Secret that gets the outputs. The default is NAME-connection.")
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "Print the objects and change nothing.")
	addYes(cmd, &a.yes)
}

// adoptStateCall is a call of captctl adopt state.
type adoptStateCall struct {
	adoptCall
	module    moduleFlags
	variables string
}

func newAdoptStateCommand(o *Options) *cobra.Command {
	a := &adoptStateCall{adoptCall: adoptCall{Options: o}, module: moduleFlags{Options: o}}
	cmd := &cobra.Command{
		Use:   "state NAME",
		Short: "Take over the state of a Terraform module",
		Long: `Take over the resources of a Terraform state: create a WorkspaceTemplate with the module
and a workspace that only observes (adoption: Observe), push the state with its lineage into
it, and show the differences between the module and the resources. Nothing is changed before
captctl adopt commit, and nothing is destroyed or replaced before captctl adopt complete.
Deleting the workspace destroys nothing.

An interrupted command can be repeated. Stop everything else that uses the state first:
CAPT's lock does not lock the old backend. To leave the state in its backend, configure that
in a WorkspaceProviderConfig and use captctl state adopt instead.`,
		Example: `  captctl adopt state network-a --from network.tfstate --module ./network --variables network.tfvars.json

  aws s3 cp s3://states/network-a.tfstate - |
    captctl adopt state network-a --from - --module terraform-aws-modules/vpc/aws --module-version 6.1.0 --provider-config aws --yes

  # Print the objects, to commit them.
  captctl adopt state network-a --module ./network --dry-run > network-a.yaml`,
		Args: oneName("workspace"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&a.state, "from", "", "File with the state, or - for stdin.")
	cmd.Flags().StringVar(&a.module.from, "module", "", "The module: a directory, or an address as in a module block of Terraform.")
	cmd.Flags().StringVar(&a.module.options.Parameters.Version, "module-version", "", "Version constraint of a module in a registry.")
	cmd.Flags().StringVar(&a.variables, "variables", "", "JSON or YAML file with the values of the module's variables, such as a .tfvars.json file.")
	a.module.addBinary(cmd)
	a.add(cmd)
	// The only error is a flag that does not exist.
	_ = cmd.MarkFlagRequired("module")
	cmd.MarkFlagsOneRequired("from", "dry-run")
	return cmd
}

func (a *adoptStateCall) run(ctx context.Context, name string) error {
	objects, err := a.objects(ctx, name)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if a.dryRun {
		return (&render.Rendering{Objects: objects}).WriteYAML(text.Raw(a.Out))
	}
	content, err := a.readFile(a.state)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	given, err := parseState(content)
	if err != nil {
		return &Exit{Code: 2, Err: fmt.Errorf("%s: %w", a.state, err)}
	}
	c, namespace, err := a.connect()
	if err != nil {
		return err
	}
	if err := a.confirm(ctx, a.yes, fmt.Sprintf("Create workspace %s, which observes %s?", name, text.Count(len(given.Resources), "resource"))); err != nil {
		return err
	}
	return a.observe(ctx, c, namespace, objects, given, content)
}

// observe creates a template and the workspace that observes the resources of a state, unless
// they exist, pushes the state, and prints what the first plan with it would do.
func (a *adoptCall) observe(ctx context.Context, c client.WithWatch, namespace string, objects []client.Object, given *givenState, content []byte) error {
	for _, obj := range objects {
		obj.SetNamespace(namespace)
		if err := c.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s: %w", obj.GetName(), err)
		}
	}
	w := &workspaceCall{Options: a.Options, client: c, apply: &infrav1.WorkspaceTemplateApply{}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(objects[len(objects)-1]), w.apply); err != nil {
		return fmt.Errorf("reading the workspace: %w", err)
	}
	if err := w.pushAdopted(ctx, given, content); err != nil {
		return err
	}
	report, err := w.adoptionReport(ctx)
	if err != nil {
		return err
	}
	return report.Print(a.Out)
}

// objects returns the template and the workspace that observes.
func (a *adoptStateCall) objects(ctx context.Context, name string) ([]client.Object, error) {
	parameters := a.module.options.Parameters
	module, err := a.module.read(ctx, &parameters)
	if err != nil {
		return nil, err
	}
	if errs := module.Diagnostics.Errors(); len(errs) > 0 {
		return nil, fmt.Errorf("the module is invalid: %s", errs.Short())
	}
	variables, err := a.readVariables()
	if err != nil {
		return nil, err
	}
	return a.observingObjects(name, parameters, variables), nil
}

// observingObjects returns a template with a module, and a workspace that only observes and that
// destroys nothing when it is deleted.
func (a *adoptCall) observingObjects(name string, parameters infrav1.ModuleParameters, variables map[string]infrav1.Value) []client.Object {
	t := &infrav1.WorkspaceTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	t.Spec.Template.Spec.ForProvider = parameters
	if a.providerConfig != "" {
		t.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: a.providerConfig}
	}
	apply := &infrav1.WorkspaceTemplateApply{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplateApply"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.TemplateReference{Name: name}, Variables: variables, Adoption: infrav1.AdoptionObserve, RetainWorkspaceOnDelete: true,
			WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: cmp.Or(a.secret, name+"-connection")},
		},
	}
	return []client.Object{t, apply}
}

// readVariables reads the values of variables from a file in JSON or YAML.
func (a *adoptStateCall) readVariables() (map[string]infrav1.Value, error) {
	if a.variables == "" {
		return nil, nil
	}
	content, err := a.readFile(a.variables)
	if err != nil {
		return nil, err
	}
	variables := map[string]infrav1.Value{}
	if err := yaml.Unmarshal(content, &variables); err != nil {
		return nil, fmt.Errorf("reading variables: %s must be an object in JSON or YAML: %w", a.variables, err)
	}
	return variables, nil
}

// givenState is what a state says about itself.
type givenState struct {
	Version   int               `json:"version"`
	Lineage   string            `json:"lineage"`
	Resources []json.RawMessage `json:"resources"`
}

// parseState returns an error that does not quote the state.
func parseState(content []byte) (*givenState, error) {
	state := &givenState{}
	switch err := json.Unmarshal(content, state); {
	case err != nil && strings.Contains(string(content), "encrypted_data"), err == nil && state.Lineage == "" && strings.Contains(string(content), "encrypted_data"):
		return nil, errors.New("the state is encrypted: decrypt it with tofu state pull")
	case err != nil, state.Lineage == "":
		return nil, errors.New("this is no Terraform state: write it with tofu state pull or terraform state pull")
	case state.Version < 4:
		return nil, fmt.Errorf("the state has version %d: apply it with Terraform 0.12 or later first", state.Version)
	}
	return state, nil
}

// pushAdopted pushes a state into a workspace that observes, unless an earlier command has done
// that, and waits for the plan.
func (w *workspaceCall) pushAdopted(ctx context.Context, given *givenState, content []byte) error {
	stage, err := w.adoptionStage(ctx)
	if err != nil {
		return err
	}
	if stage != infrav1.AdoptionObserve {
		return fmt.Errorf("%s exists and does not observe: choose another name, or set spec.adoption to Observe", w.apply.Name)
	}
	last, err := w.waitUntil(ctx, nil, w.starting(), (*observed).planned)
	if err != nil {
		return err
	}
	w.apply = last.apply
	if state := w.apply.Status.State; state == nil || state.Lineage != given.Lineage {
		result, err := w.execute(ctx, &terraform.StateCommand{Command: terraform.StatePush}, content, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Pushed the state into %s. %s\n\n", w.apply.Name, snapshotNote(result))
		if last, err = w.waitUntil(ctx, nil, w.starting(), plannedAfter(w.apply.Status.Plan)); err != nil {
			return w.stillRequested(err, planFollows)
		}
		w.apply = last.apply
	}
	return nil
}

// plannedAfter reports whether there is another result than a plan, which may be nil.
func plannedAfter(plan *infrav1.PlanStatus) func(*observed) bool {
	return func(s *observed) bool {
		now := s.apply.Status.Plan
		return s.planned() && (now == nil || plan == nil || now.ID != plan.ID)
	}
}
