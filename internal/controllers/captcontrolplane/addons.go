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

// Versions checks whether versions are compatible.
type Versions interface {
	// CheckAddon returns an error unless an add-on supports a Kubernetes version.
	CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error
}

// waitForAddons waits until all add-ons are removed from the cluster. It follows
// the deletion of nodes and load balancers, because an add-on can be the
// controller that deletes those.
func (r *Reconciler) waitForAddons(ctx context.Context, s *scope) error {
	return s.deletionStep(skipAddons, controlplanev1.AddonsGoneCondition, func() ([]string, error) {
		addons, err := r.addons(ctx, s)
		if err != nil {
			return nil, err
		}
		return installedAddons(addons, s.clusterName()), nil
	})
}

// installedAddons describes the add-ons that a cluster has.
func installedAddons(addons []addonsv1.CAPTAddon, cluster string) []string {
	var installed []string
	for i := range addons {
		if status := addons[i].StatusIn(cluster); status != nil {
			text := "CAPTAddon " + addons[i].Name
			if status.Message != "" {
				text += " (" + status.Message + ")"
			}
			installed = append(installed, text)
		}
	}
	return installed
}

// hold returns a wait that explains why the next step of an upgrade must not
// start yet: a node is too old for the version, or an add-on does not support it.
func (r *Reconciler) hold(ctx context.Context, s *scope, version desired.Version) (held, err error) {
	_, skipped := s.controlPlane.Annotations[controlplanev1.SkipVersionChecksAnnotation]
	if skipped || !version.Upgrades() {
		return nil, nil
	}
	if held, err := r.holdForNodes(ctx, s, version.Next); held != nil || err != nil {
		return held, err
	}
	return r.holdForAddons(ctx, s, version)
}

// holdForAddons returns a wait if an add-on of the cluster does not support the next
// version.
func (r *Reconciler) holdForAddons(ctx context.Context, s *scope, version desired.Version) (held, err error) {
	if r.Versions == nil {
		return nil, nil
	}
	addons, err := r.addons(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range addons {
		addon := &addons[i]
		if addon.StatusIn(s.clusterName()) == nil {
			continue
		}
		if unsupported := r.Versions.CheckAddon(addon, version.Next.String()); unsupported != nil {
			return fault.Wait(addonsv1.VersionUnsupportedReason,
				"The upgrade to %s waits for add-on %s: %w; to upgrade anyway, set the annotation %s on the CAPTControlPlane",
				version.Next, addon.Name, unsupported, controlplanev1.SkipVersionChecksAnnotation), nil
		}
	}
	return nil, nil
}

// addons returns the add-ons of the namespace in alphabetical order. The order of
// a cache is random, and a message that names a different add-on each time would
// change the status forever.
func (r *Reconciler) addons(ctx context.Context, s *scope) ([]addonsv1.CAPTAddon, error) {
	var list addonsv1.CAPTAddonList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.controlPlane.Namespace)); err != nil {
		return nil, fmt.Errorf("listing add-ons: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b addonsv1.CAPTAddon) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}
