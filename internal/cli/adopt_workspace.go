package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cli/adopt"
	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform/record"
)

// adoptWorkspaceCall is a call of captctl adopt workspace.
type adoptWorkspaceCall struct {
	adoptCall
	name, version string
}

func newAdoptWorkspaceCommand(o *Options) *cobra.Command {
	a := &adoptWorkspaceCall{adoptCall: adoptCall{Options: o}}
	cmd := &cobra.Command{
		Use:   "workspace NAME",
		Short: "Take over a Workspace of Crossplane's Terraform provider",
		Long: `Take over the resources of a Workspace of tf.upbound.io, which stay as they are: pause the
Workspace, create a WorkspaceTemplate with its module and variables and a workspace that
only observes (adoption: Observe), push the state into it, and show the differences. The
state is that in the Secret of the Kubernetes backend, or in a file.

An interrupted command can be repeated. To go back, delete the workspace and remove the
annotation crossplane.io/paused. What you must do yourself, such as copying Secrets of other
namespaces, is printed.`,
		Example: `  captctl adopt workspace demo-vpc --provider-config aws

  # Print the objects, to commit them.
  captctl adopt workspace demo-vpc --dry-run > demo-vpc.yaml`,
		Args: oneName("Workspace"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&a.name, "name", "", "Name of the new objects. The default is that of the Workspace.")
	cmd.Flags().StringVar(&a.version, "api-version", "tf.upbound.io/v1beta1", "API version of the Workspace. That of namespaced ones is tf.m.upbound.io/v1beta1.")
	cmd.Flags().StringVar(&a.state, "from", "", "File with the state, if the backend is not Kubernetes.")
	a.add(cmd)
	return cmd
}

func (a *adoptWorkspaceCall) run(ctx context.Context, name string) error {
	c, namespace, err := a.connect()
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(a.version)
	obj.SetKind("Workspace")
	key := client.ObjectKey{Name: name}
	if strings.HasPrefix(a.version, "tf.m.") {
		key.Namespace = namespace
	}
	if err := c.Get(ctx, key, obj); err != nil {
		return fmt.Errorf("reading Workspace %s: %w", name, err)
	}
	found, err := adopt.FromCrossplane(obj, namespace)
	if err != nil {
		return err
	}
	if len(found.Notes) > 0 {
		fmt.Fprintf(a.Err, "To do:\n- %s\n", strings.Join(found.Notes, "\n- "))
	}
	objects := a.observingObjects(cmp.Or(a.name, name), found.Parameters, nil)
	if a.dryRun {
		return (&render.Rendering{Objects: objects}).WriteYAML(text.Raw(a.Out))
	}
	if err := a.confirm(ctx, a.yes, fmt.Sprintf("Pause Workspace %s and create workspace %s, which observes its resources?", name, objects[0].GetName())); err != nil {
		return err
	}
	// The state is read when Crossplane does not change it any more.
	before := obj.DeepCopy()
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[adopt.PausedAnnotation] = "true"
	obj.SetAnnotations(annotations)
	if err := c.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("pausing Workspace %s: %w", name, err)
	}
	content, err := a.readState(ctx, c, found.TerraformWorkspace)
	if err != nil {
		return err
	}
	given, err := parseState(content)
	if err != nil {
		return err
	}
	return a.observe(ctx, c, namespace, objects, given, content)
}

// readState returns the state of a file, or of the Secret that the Kubernetes backend labels
// with the workspace of Terraform.
func (a *adoptWorkspaceCall) readState(ctx context.Context, c client.Reader, workspace string) ([]byte, error) {
	if a.state != "" {
		return a.readFile(a.state)
	}
	var secrets corev1.SecretList
	labels := client.MatchingLabels{"tfstate": "true", "tfstateWorkspace": workspace}
	if err := c.List(ctx, &secrets, labels); err != nil {
		return nil, fmt.Errorf("listing the states: %w", err)
	}
	switch len(secrets.Items) {
	case 0:
		return nil, errors.New("no Secret has the labels tfstate=true and tfstateWorkspace=" + workspace + ": if the backend of the ProviderConfig is not Kubernetes, pass the state with --from")
	case 1:
		return unlockedState(ctx, c, &secrets.Items[0])
	default:
		var names []string
		for i := range secrets.Items {
			names = append(names, client.ObjectKeyFromObject(&secrets.Items[i]).String())
		}
		return nil, fmt.Errorf("several Secrets have a state of the workspace %s (%s): pass the right one with --from", workspace, strings.Join(names, ", "))
	}
}

// unlockedState returns the state in a Secret. It fails if a run of Crossplane holds its lock.
func unlockedState(ctx context.Context, c client.Reader, secret *corev1.Secret) ([]byte, error) {
	key := client.ObjectKeyFromObject(secret)
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: "lock-" + secret.Name}, lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the lock of the state: %w", err)
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		return nil, fmt.Errorf("the state in Secret %s is locked: wait until Crossplane's last run has ended, then repeat the command", key)
	}
	content, err := record.StateContent(secret)
	if err != nil {
		return nil, fmt.Errorf("reading the state in Secret %s: %w", key, err)
	}
	return content, nil
}
