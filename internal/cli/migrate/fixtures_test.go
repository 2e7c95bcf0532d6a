package migrate

import (
	"errors"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const (
	fluxLabel      = "fluxcd.io/enabled"
	karpenterLabel = "karpenter.sh/enabled"
)

func newMigration() *Migration {
	return &Migration{From: "v1", To: "v2", Flux: "fluxcd", Addon: "karpenter"}
}

// newState returns a ready cluster that uses the old template: Terraform manages a
// release of chart 1.14.1, and both add-ons exist.
func newState(edits ...func(*clusterState)) *clusterState {
	s := &clusterState{
		key:     client.ObjectKey{Namespace: "default", Name: "demo"},
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}},
		controlPlane: &controlplanev1.CAPTControlPlane{
			ObjectMeta: metav1.ObjectMeta{Name: "demo", Generation: 3},
		},
		workspace:   newWorkspace("v1"),
		oldTemplate: newTemplate("v1", ImportVariable),
		newTemplate: newTemplate("v2", "region"),
		addonsExist: true,
		release:     newRelease("karpenter", "karpenter", "1.14.1"),
		running:     workloadUIDs{Deployments: map[string]string{"karpenter/karpenter": "d1"}, Pods: map[string][]string{"karpenter/karpenter": {"p1", "p2"}}},
	}
	s.controlPlane.Spec.WorkspaceTemplateRef.Name = "v1"
	s.controlPlane.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: 3}}
	s.releases = []*helmRelease{s.release}
	s.addons = []addonsv1.CAPTAddon{*newAddon("fluxcd", fluxLabel), *newAddon("karpenter", karpenterLabel)}
	s.flux, s.addon = &s.addons[0], &s.addons[1]
	s.addon.Spec.Helm = &addonsv1.HelmRelease{
		Namespace: "karpenter", Chart: addonsv1.ChartSource{Repository: "oci://charts", Name: "karpenter", Version: "1.14.1"},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func newWorkspace(template string) *infrav1.WorkspaceTemplateApply {
	ws := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "demo", Generation: 5}}
	ws.Spec.TemplateRef.Name = template
	ws.Status.ObservedGeneration = 5
	setConditions(ws, metav1.ConditionTrue, "Ready")
	return ws
}

// setConditions sets Ready and Applied of a workspace for its current generation.
func setConditions(ws *infrav1.WorkspaceTemplateApply, status metav1.ConditionStatus, reason string) {
	ws.Status.Conditions = nil
	for _, condition := range []string{infrav1.ReadyCondition, infrav1.AppliedCondition} {
		ws.Status.Conditions = append(ws.Status.Conditions, metav1.Condition{
			Type: condition, Status: status, Reason: reason, Message: "Message of " + reason, ObservedGeneration: ws.Generation,
		})
	}
}

func newTemplate(name string, variables ...string) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, variable := range variables {
		template.Status.Variables = append(template.Status.Variables, infrav1.DeclaredVariable{Name: variable})
	}
	return template
}

func newRelease(namespace, name, version string) *helmRelease {
	r := &helmRelease{Namespace: namespace, Name: name, Revision: 4}
	r.Info.Status = "deployed"
	r.Chart.Metadata.Name, r.Chart.Metadata.Version = "karpenter", version
	return r
}

func newAddon(name, label string) *addonsv1.CAPTAddon {
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	addon.Spec.ClusterSelector.MatchLabels = map[string]string{label: "true"}
	addon.Status.ObservedGeneration = 1
	return addon
}

// withReady labels the cluster and makes the add-on ready in it.
func withReady(choose func(*clusterState) *addonsv1.CAPTAddon) func(*clusterState) {
	return func(s *clusterState) {
		addon := choose(s)
		if s.cluster.Labels == nil {
			s.cluster.Labels = map[string]string{}
		}
		maps.Copy(s.cluster.Labels, addon.Spec.ClusterSelector.MatchLabels)
		addon.Status.Clusters = []addonsv1.ClusterAddonStatus{{Name: "other"}, {Name: "demo", Ready: new(true), Reason: "Ready"}}
	}
}

func flux(s *clusterState) *addonsv1.CAPTAddon      { return s.flux }
func karpenter(s *clusterState) *addonsv1.CAPTAddon { return s.addon }

// withTemplate makes control plane and workspace use a template.
func withTemplate(name string) func(*clusterState) {
	return func(s *clusterState) {
		s.controlPlane.Spec.WorkspaceTemplateRef.Name = name
		s.workspace = newWorkspace(name)
	}
}

// withFluxRelease adds the HelmRelease of the add-on.
func withFluxRelease(s *clusterState) {
	s.fluxRelease = &unstructured.Unstructured{}
	s.fluxRelease.SetNamespace("karpenter")
	s.fluxRelease.SetName("karpenter")
	s.fluxRelease.SetLabels(map[string]string{addonsv1.AddonLabel: "karpenter"})
}

// migrated returns a cluster whose release Flux manages.
func migrated(edits ...func(*clusterState)) *clusterState {
	return newState(append([]func(*clusterState){withReady(flux), withReady(karpenter), withTemplate("v2"), withFluxRelease, func(s *clusterState) {
		s.record = &record{From: "v1", To: "v2"}
	}}, edits...)...)
}

func withVariables(names ...string) func(*clusterState) {
	return func(s *clusterState) {
		s.controlPlane.Spec.Variables = map[string]infrav1.Value{}
		for _, name := range names {
			s.controlPlane.Spec.Variables[name] = infrav1.StringValue("value of " + name)
		}
	}
}

var errTest = errors.New("connection refused")
