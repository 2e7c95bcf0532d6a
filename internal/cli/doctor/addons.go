package doctor

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// broken are the reasons of an add-on that only a person can end, with what to
// do.
var broken = map[string]string{
	addonsv1.ApplyFailedReason:        "captctl addon status %[2]s -n %[1]s, then captctl addon trigger %[2]s -n %[1]s",
	addonsv1.TimedOutReason:           "captctl addon status %[2]s -n %[1]s, then captctl addon trigger %[2]s -n %[1]s",
	addonsv1.ReleaseStalledReason:     "mend the release's values, then captctl addon trigger %[2]s -n %[1]s",
	addonsv1.MissingKeyReason:         "kubectl edit captaddon -n %[1]s %[2]s: change valuesKey, or give it a default",
	addonsv1.InvalidTargetPathReason:  "kubectl edit captaddon -n %[1]s %[2]s: change targetPath",
	addonsv1.VersionUnsupportedReason: "kubectl edit captaddon -n %[1]s %[2]s: change the chart's version",
	addonsv1.DependencyCycleReason:    "kubectl edit captaddon -n %[1]s %[2]s: remove a name from dependsOn",
}

// addons looks at what add-ons need, and at those that fail.
func (d *Doctor) addons(ctx context.Context) ([]Result, error) {
	var addons addonsv1.CAPTAddonList
	if err := d.list(ctx, &addons); err != nil {
		return nil, err
	}
	if len(addons.Items) == 0 {
		return []Result{{Status: OK, Message: "there are no add-ons"}}, nil
	}
	found, err := d.resourceSets(ctx)
	if err != nil {
		return nil, err
	}
	for i := range addons.Items {
		addon := &addons.Items[i]
		for _, cluster := range addon.Status.Clusters {
			if cluster.Ready != nil && *cluster.Ready {
				continue
			}
			mend, isBroken := broken[cluster.Reason]
			if !isBroken {
				continue
			}
			found = append(found, Result{
				Status: Fail, Object: nameOf("CAPTAddon", addon),
				Message: fmt.Sprintf("in cluster %s for %s: %s: %s", cluster.Name, d.since(cluster.Since), cluster.Reason, cluster.Message),
				Mend:    fmt.Sprintf(mend, addon.Namespace, addon.Name),
			})
		}
	}
	return orFine(found, "%d add-ons, none of which fails", len(addons.Items)), nil
}

// resourceSets looks for Cluster API's ClusterResourceSets, which carry add-ons
// to clusters.
func (d *Doctor) resourceSets(ctx context.Context) ([]Result, error) {
	const name = "clusterresourcesets.addons.cluster.x-k8s.io"
	installed := &apiextensionsv1.CustomResourceDefinition{}
	err := d.Client.Get(ctx, client.ObjectKey{Name: name}, installed)
	switch version := clusteraddonsv1.GroupVersion.Version; {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading CRD %s: %w", name, err)
	case err != nil:
		return []Result{{Status: Fail, Object: "CRD " + name, Message: "it is not installed, and add-ons reach clusters by it", Mend: installClusterAPI}}, nil
	case !slices.Contains(served(installed), version):
		return []Result{{Status: Fail, Object: "CRD " + name, Message: "it does not serve " + version, Mend: "clusterctl upgrade apply --contract v1beta2"}}, nil
	default:
		return nil, nil
	}
}
