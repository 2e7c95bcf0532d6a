package validate

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/addon/versions"
)

func indexed(i int) string { return fmt.Sprintf("[%d]", i) }

// checkAddons checks the target paths and the versions of add-ons.
func (c *checker) checkAddons(ctx context.Context) {
	objects, addons := all[*addonsv1.CAPTAddon](c)
	for i, addon := range addons {
		c.checkTargetPaths(ctx, objects[i], addon)
		c.checkVersions(objects[i], addon)
	}
}

func (c *checker) checkTargetPaths(ctx context.Context, o *Object, addon *addonsv1.CAPTAddon) {
	helm := addon.Spec.Helm
	if helm == nil || len(helm.ValuesFrom) == 0 {
		return
	}
	known, err := c.chart(ctx, helm.Chart)
	if err != nil {
		c.add(o.fail(RuleChart, "spec.helm.chart", "%v", err))
		return
	}
	if known == nil {
		return
	}
	for i, v := range helm.ValuesFrom {
		path, err := targetpath.Parse(v.TargetPath)
		if err != nil {
			// The webhook check has reported it.
			continue
		}
		if err := known.CheckPath(path); err != nil {
			c.add(o.fail(RuleTargetPath, "spec.helm.valuesFrom"+indexed(i)+".targetPath", "%v", err))
		}
	}
}

// chart returns the chart of an add-on, or nil if it is not available.
func (c *checker) chart(ctx context.Context, source addonsv1.ChartSource) (*chart.Chart, error) {
	if given := c.Given[source.Name]; given != nil {
		return given, nil
	}
	if c.Charts == nil {
		return nil, nil
	}
	return c.Charts.Fetch(ctx, source.Repository, source.Name, source.Version, source.Insecure != nil && *source.Insecure)
}

// checkVersions checks the versions of an add-on, and its compatibility with every
// cluster among the manifests that it selects. A version that the matrix does not know
// is a warning, because it may be compatible.
func (c *checker) checkVersions(o *Object, addon *addonsv1.CAPTAddon) {
	if c.Versions == nil || addon.Spec.Versions == nil {
		return
	}
	path := "spec.versions"
	if addon.Spec.Helm != nil {
		path = "spec.helm.chart.version"
	}
	kubernetesVersions := c.kubernetesVersions(addon)
	for _, kubernetes := range kubernetesVersions {
		c.addVersion(o, path, c.Versions.CheckAddon(addon, kubernetes))
	}
	for i, d := range addon.Spec.DependsOn {
		k := key{group: addonsv1.GroupVersion.Group, kind: "CAPTAddon", namespace: addon.Namespace, name: d.Name}
		if dependency := find[*addonsv1.CAPTAddon](c, k); dependency != nil {
			c.addVersion(o, "spec.dependsOn"+indexed(i), c.Versions.CheckDependency(addon, dependency))
		}
	}
	if version := versions.AddonVersion(addon); len(kubernetesVersions) == 0 && addon.Spec.Versions.Matrix != "" && version != "" {
		_, err := c.Versions.Requires(addon.Spec.Versions.Matrix, version)
		c.addVersion(o, path, err)
	}
}

func (c *checker) addVersion(o *Object, path string, err error) {
	if err == nil {
		return
	}
	severity := Error
	if _, unknown := errors.AsType[*versions.UnknownError](err); unknown {
		severity = Warning
	}
	c.add(o.finding(severity, RuleVersion, path, err.Error()))
}

// kubernetesVersions returns the versions of the clusters that an add-on selects.
func (c *checker) kubernetesVersions(addon *addonsv1.CAPTAddon) []string {
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	if err != nil {
		return nil
	}
	var found []string
	_, clusters := all[*clusterv1.Cluster](c)
	for _, cluster := range clusters {
		if cluster.Namespace != addon.Namespace || !selector.Matches(labels.Set(cluster.Labels)) {
			continue
		}
		version := cluster.Spec.Topology.Version
		k := key{group: controlplanev1.GroupVersion.Group, kind: "CAPTControlPlane", namespace: cluster.Namespace, name: cluster.Spec.ControlPlaneRef.Name}
		if controlPlane := find[*controlplanev1.CAPTControlPlane](c, k); controlPlane != nil {
			version = controlPlane.Spec.Version
		}
		if version != "" {
			found = append(found, version)
		}
	}
	return found
}
