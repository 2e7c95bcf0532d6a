package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/appthrust/capt/internal/cli/doctor"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/version"
)

// managersTimeout is how long the command waits for the management cluster.
const managersTimeout = 3 * time.Second

// managerImage is the image of a manager in the management cluster. Its tag is the version.
type managerImage struct {
	Namespace  string `json:"namespace"`
	Deployment string `json:"deployment"`
	Image      string `json:"image"`
}

func newVersionCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of captctl and of the managers",
		Long: `Print the version of captctl, and the images of the managers in the management
cluster, if they can be read within three seconds. The version of a manager that runs
outside of the cluster is not known.`,
		Example: "  captctl version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := version.Get()
			managers, known := managerImages(cmd.Context(), o)
			if output.Structured() {
				return output.Print(o.Out, struct {
					version.Info
					Managers []managerImage `json:"managers,omitempty"`
				}{info, managers})
			}
			fmt.Fprintf(o.Out, "captctl %s\n", info)
			for _, m := range managers {
				fmt.Fprintf(o.Out, "manager %s (Deployment %s/%s)\n", m.Image, m.Namespace, m.Deployment)
			}
			if known && len(managers) == 0 {
				fmt.Fprintln(o.Err, "The management cluster has no Deployment of a manager: it runs outside of the cluster, or CAPT is not installed. "+o.hints("See captctl doctor"))
			}
			return nil
		},
	}
	addOutput(cmd, &output)
	return cmd
}

// managerImages returns the images of the managers, and false if they cannot be read: the
// version of captctl needs no management cluster.
func managerImages(ctx context.Context, o *Options) (images []managerImage, known bool) {
	config, err := o.Config()
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, managersTimeout)
	defer cancel()
	c, err := appsclient.NewForConfig(config)
	if err != nil {
		return nil, false
	}
	deployments, err := c.Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "control-plane=controller-manager"})
	if err != nil {
		return nil, false
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if !doctor.IsManager(d) {
			continue
		}
		for _, container := range d.Spec.Template.Spec.Containers {
			images = append(images, managerImage{Namespace: d.Namespace, Deployment: d.Name, Image: container.Image})
		}
	}
	return images, true
}
