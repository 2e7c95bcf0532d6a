package captcontrolplane

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
)

// addonsGone waits until the add-ons have let go of the cluster. Nodes and load
// balancers went before: who takes them away may itself be an add-on.
func (r *Reconciler) addonsGone(ctx context.Context, s *scope) error {
	return r.step(s, skipAddons, controlplanev1.AddonsGoneCondition, func() ([]string, error) {
		var list addonsv1.CAPTAddonList
		if err := r.Client.List(ctx, &list, client.InNamespace(s.controlPlane.Namespace)); err != nil {
			return nil, fmt.Errorf("listing add-ons: %w", err)
		}
		var left []string
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Clusters {
				if c.Name == s.clusterName() {
					left = append(left, describeAddon(&list.Items[i], c))
				}
			}
		}
		return left, nil
	})
}

func describeAddon(addon *addonsv1.CAPTAddon, c addonsv1.ClusterAddonStatus) string {
	text := "CAPTAddon " + addon.Name
	if c.Message != "" {
		text += " (" + c.Message + ")"
	}
	return text
}
