package validate

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/addon/versions"
)

// checkAddons checks what add-ons put into charts, and their versions.
func (s *set) checkAddons(ctx context.Context) {
	objects, addons := all[*addonsv1.CAPTAddon](s)
	for i, addon := range addons {
		s.checkTargetPaths(ctx, objects[i], addon)
		s.checkVersions(objects[i], addon)
	}
}

func (s *set) checkTargetPaths(ctx context.Context, o *Object, addon *addonsv1.CAPTAddon) {
	helm := addon.Spec.Helm
	if helm == nil || len(helm.ValuesFrom) == 0 {
		return
	}
	known, err := s.chart(ctx, helm.Chart)
	if err != nil {
		s.add(o.fail(RuleChart, "spec.helm.chart", "%v", err))
		return
	}
	if known == nil {
		return
	}
	for i, v := range helm.ValuesFrom {
		path, err := targetpath.Parse(v.TargetPath)
		if err != nil {
			// The webhook has said so.
			continue
		}
		if err := known.CheckPath(path); err != nil {
			s.add(o.fail(RuleTargetPath, "spec.helm.valuesFrom"+indexed(i)+".targetPath", "%v", err))
		}
	}
}

// chart is the chart of an add-on, or nil if it cannot be known here.
func (s *set) chart(ctx context.Context, source addonsv1.ChartSource) (*chart.Chart, error) {
	if given := s.Given[source.Name]; given != nil {
		return given, nil
	}
	if s.Charts == nil {
		return nil, nil
	}
	return s.Charts.Fetch(ctx, source.Repository, source.Name, source.Version, source.Insecure != nil && *source.Insecure)
}

// checkVersions holds an add-on against its own range and the version matrix,
// for every given cluster that it selects. Versions that the matrix does not
// know may fit all the same.
func (s *set) checkVersions(o *Object, addon *addonsv1.CAPTAddon) {
	if s.Versions == nil || addon.Spec.Versions == nil {
		return
	}
	path := "spec.versions"
	if addon.Spec.Helm != nil {
		path = "spec.helm.chart.version"
	}
	told := s.kubernetesVersions(addon)
	for _, kubernetes := range told {
		s.addVersion(o, path, s.Versions.CheckAddon(addon, kubernetes))
	}
	if of := versions.AddonVersion(addon); len(told) == 0 && addon.Spec.Versions.Matrix != "" && of != "" {
		_, err := s.Versions.Requires(addon.Spec.Versions.Matrix, of)
		s.addVersion(o, path, err)
	}
}

func (s *set) addVersion(o *Object, path string, err error) {
	if err == nil {
		return
	}
	severity := Error
	if _, unknown := errors.AsType[*versions.UnknownError](err); unknown {
		severity = Warning
	}
	s.add(o.finding(severity, RuleVersion, path, err.Error()))
}

// kubernetesVersions are those of the given clusters that an add-on selects.
func (s *set) kubernetesVersions(addon *addonsv1.CAPTAddon) []string {
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	if err != nil {
		return nil
	}
	var found []string
	_, clusters := all[*clusterv1.Cluster](s)
	for _, cluster := range clusters {
		if cluster.Namespace != addon.Namespace || !selector.Matches(labels.Set(cluster.Labels)) {
			continue
		}
		version := cluster.Spec.Topology.Version
		k := key{group: controlplanev1.GroupVersion.Group, kind: "CAPTControlPlane", namespace: cluster.Namespace, name: cluster.Spec.ControlPlaneRef.Name}
		if controlPlane := find[*controlplanev1.CAPTControlPlane](s, k); controlPlane != nil {
			version = controlPlane.Spec.Version
		}
		if version != "" {
			found = append(found, version)
		}
	}
	return found
}
