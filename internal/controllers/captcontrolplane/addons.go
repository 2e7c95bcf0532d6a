package captcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Versions knows which versions fit together.
type Versions interface {
	// CheckAddon returns an error unless an add-on supports a Kubernetes version.
	CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error
}

// addonsGone waits until the add-ons have let go of the cluster. Nodes and load
// balancers went before: who takes them away may itself be an add-on.
func (r *Reconciler) addonsGone(ctx context.Context, s *scope) error {
	return r.step(s, skipAddons, controlplanev1.AddonsGoneCondition, func() ([]string, error) {
		all, err := r.addons(ctx, s)
		if err != nil {
			return nil, err
		}
		var left []string
		for i := range all {
			for _, c := range all[i].Status.Clusters {
				if c.Name == s.clusterName() {
					left = append(left, describeAddon(&all[i], c))
				}
			}
		}
		return left, nil
	})
}

// hold returns a wait that explains why the next step of an upgrade must not
// start yet: an add-on of the cluster does not support the version.
func (r *Reconciler) hold(ctx context.Context, s *scope, version desired.Version) (held, err error) {
	if !version.Upgrades() || r.Versions == nil {
		return nil, nil
	}
	if _, skipped := s.controlPlane.Annotations[controlplanev1.SkipVersionChecksAnnotation]; skipped {
		return nil, nil
	}
	all, err := r.addons(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range all {
		addon := &all[i]
		if !slices.ContainsFunc(addon.Status.Clusters, func(c addonsv1.ClusterAddonStatus) bool { return c.Name == s.clusterName() }) {
			continue
		}
		if unfit := r.Versions.CheckAddon(addon, version.Next.String()); unfit != nil {
			return fault.Wait(addonsv1.VersionUnsupportedReason,
				"The upgrade to %s waits for add-on %s: %w; to go on as it is, set the annotation %s on the CAPTControlPlane",
				version.Next, addon.Name, unfit, controlplanev1.SkipVersionChecksAnnotation), nil
		}
	}
	return nil, nil
}

// addons are those of the namespace, by name: a cache lists in any order, and a
// message that names another one each time would never come to rest.
func (r *Reconciler) addons(ctx context.Context, s *scope) ([]addonsv1.CAPTAddon, error) {
	var list addonsv1.CAPTAddonList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.controlPlane.Namespace)); err != nil {
		return nil, fmt.Errorf("listing add-ons: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b addonsv1.CAPTAddon) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

func describeAddon(addon *addonsv1.CAPTAddon, c addonsv1.ClusterAddonStatus) string {
	text := "CAPTAddon " + addon.Name
	if c.Message != "" {
		text += " (" + c.Message + ")"
	}
	return text
}
