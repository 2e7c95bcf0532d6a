package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	addonrender "github.com/appthrust/capt/internal/addon/render"
)

var fluxReleaseKind = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}

// record is the content of RecordAnnotation. It holds nothing that can be read
// from the clusters.
type record struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Dropped are the variables of the control plane that the new template does
	// not declare.
	Dropped map[string]infrav1.Value `json:"dropped,omitempty"`
	// Revision and Before describe the release before Flux adopted it.
	Revision int           `json:"revision,omitempty"`
	Before   *workloadUIDs `json:"before,omitempty"`
	// MigratedAt is the time at which the migration was complete.
	MigratedAt *metav1.Time `json:"migratedAt,omitempty"`
}

// clusterState is everything that decides which work remains for a cluster.
type clusterState struct {
	key          client.ObjectKey
	cluster      *clusterv1.Cluster
	controlPlane *controlplanev1.CAPTControlPlane
	workspace    *infrav1.WorkspaceTemplateApply
	// oldTemplate and newTemplate are nil if they do not exist.
	oldTemplate, newTemplate *infrav1.WorkspaceTemplate
	// class is set for a cluster with a ClusterClass.
	class *class

	// addons are all add-ons of the namespace. flux and addon are those of the
	// migration: the existing ones, or those that will be installed.
	addons           []addonsv1.CAPTAddon
	flux, addon      *addonsv1.CAPTAddon
	addonsExist      bool
	connection       map[string][]byte
	connectionSecret string

	// workload is nil if the workload cluster is unreachable, and unreachable is
	// the reason.
	workload    client.Client
	unreachable error
	// releases are all releases of Karpenter's chart. release is the one that the
	// add-on names.
	releases []*helmRelease
	release  *helmRelease
	running  workloadUIDs
	// fluxRelease is Flux's HelmRelease for the release, or nil.
	fluxRelease *unstructured.Unstructured

	record *record
}

// read reads the state of a cluster.
func (m *Migration) read(ctx context.Context, key client.ObjectKey) (*clusterState, error) {
	s := &clusterState{key: key, cluster: &clusterv1.Cluster{}}
	if err := m.Client.Get(ctx, key, s.cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("no Cluster %s in namespace %s: check --cluster and --namespace", key.Name, key.Namespace)
		}
		return nil, fmt.Errorf("reading Cluster %s: %w", key.Name, err)
	}
	for _, step := range []func(context.Context, *clusterState) error{m.readControlPlane, m.readTemplates, m.readAddons, m.readWorkload} {
		if err := step(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (m *Migration) readControlPlane(ctx context.Context, s *clusterState) error {
	ref := s.cluster.Spec.ControlPlaneRef
	if ref.Kind != "CAPTControlPlane" {
		return nil
	}
	s.controlPlane = &controlplanev1.CAPTControlPlane{}
	found, err := m.find(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: ref.Name}, s.controlPlane)
	if err != nil {
		return err
	}
	if !found {
		s.controlPlane = nil
		return nil
	}
	if text, found := s.controlPlane.Annotations[RecordAnnotation]; found {
		s.record = &record{}
		if err := json.Unmarshal([]byte(text), s.record); err != nil {
			return fmt.Errorf("reading annotation %s of CAPTControlPlane %s: %w", RecordAnnotation, s.controlPlane.Name, err)
		}
	}
	if ref := s.controlPlane.Status.WorkspaceRef; ref != nil {
		s.workspace = &infrav1.WorkspaceTemplateApply{}
		if found, err = m.find(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: ref.Name}, s.workspace); err != nil || !found {
			s.workspace = nil
			return err
		}
	}
	s.class, err = m.readClass(ctx, s.cluster)
	return err
}

// find reads an object and reports whether it exists.
func (m *Migration) find(ctx context.Context, key client.ObjectKey, obj client.Object) (bool, error) {
	err := m.Client.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", obj, key.Name, err)
	}
	return true, nil
}

func (m *Migration) readTemplates(ctx context.Context, s *clusterState) error {
	if s.controlPlane == nil {
		return nil
	}
	namespace := s.controlPlane.Spec.WorkspaceTemplateRef.Key(s.key.Namespace).Namespace
	for _, t := range []struct {
		name string
		into **infrav1.WorkspaceTemplate
	}{{m.oldTemplateName(s), &s.oldTemplate}, {m.To, &s.newTemplate}} {
		template := &infrav1.WorkspaceTemplate{}
		found, err := m.find(ctx, client.ObjectKey{Namespace: namespace, Name: t.name}, template)
		if err != nil {
			return err
		}
		if found {
			*t.into = template
		}
	}
	return nil
}

// oldTemplateName returns the name of the template that the cluster had before its
// migration.
func (m *Migration) oldTemplateName(s *clusterState) string {
	if s.record != nil && s.record.From != "" {
		return s.record.From
	}
	return m.From
}

func (m *Migration) readAddons(ctx context.Context, s *clusterState) error {
	var list addonsv1.CAPTAddonList
	if err := m.Client.List(ctx, &list, client.InNamespace(s.key.Namespace)); err != nil {
		return fmt.Errorf("listing add-ons: %w", err)
	}
	s.addons = list.Items
	if err := m.chooseAddons(s); err != nil {
		return err
	}
	if s.addon == nil || s.addon.Spec.Helm == nil {
		return nil
	}
	var err error
	if s.connectionSecret, err = addonrender.ConnectionSecretName(s.addon, s.renderCluster()); err != nil {
		return err
	}
	connection := &corev1.Secret{}
	if _, err := m.find(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: s.connectionSecret}, connection); err != nil {
		return err
	}
	s.connection = connection.Data
	return nil
}

// chooseAddons sets the add-ons of the migration: those that exist, else those of
// Install.
func (m *Migration) chooseAddons(s *clusterState) error {
	s.addonsExist = true
	for _, a := range []struct {
		name string
		into **addonsv1.CAPTAddon
	}{{m.Flux, &s.flux}, {m.Addon, &s.addon}} {
		for i := range s.addons {
			if s.addons[i].Name == a.name {
				*a.into = &s.addons[i]
			}
		}
		if *a.into != nil {
			continue
		}
		s.addonsExist = false
		for _, obj := range m.Install {
			if obj.GetKind() != "CAPTAddon" || obj.GetName() != a.name {
				continue
			}
			addon := &addonsv1.CAPTAddon{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, addon); err != nil {
				return fmt.Errorf("reading add-on %s: %w", a.name, err)
			}
			addon.Namespace = s.key.Namespace
			*a.into = addon
		}
	}
	return nil
}

// renderCluster returns what the add-on's placeholders may use of the cluster.
func (s *clusterState) renderCluster() addonrender.Cluster {
	return addonrender.ClusterOf(s.cluster, s.controlPlane)
}

func (m *Migration) readWorkload(ctx context.Context, s *clusterState) error {
	kubeconfig := &corev1.Secret{}
	found, err := m.find(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: secret.Name(s.key.Name, secret.Kubeconfig)}, kubeconfig)
	if err != nil {
		return err
	}
	if !found {
		s.unreachable = errors.New("its kubeconfig Secret does not exist yet")
		return nil
	}
	c, err := m.WorkloadClient(kubeconfig.Data[secret.KubeconfigDataName])
	if err != nil {
		s.unreachable = err
		return nil
	}
	if s.addon == nil || s.addon.Spec.Helm == nil {
		s.workload = c
		return nil
	}
	helm := s.addon.Spec.Helm
	var secrets corev1.SecretList
	if err = c.List(ctx, &secrets, client.MatchingLabels{"owner": "helm"}); err == nil {
		s.releases, err = latestReleases(secrets.Items, helm.Chart.Name)
	}
	if err != nil {
		s.unreachable = err
		return nil
	}
	s.workload = c
	for _, release := range s.releases {
		if release.Namespace == helm.Namespace && release.Name == s.releaseName() {
			s.release = release
		}
	}
	if s.release != nil {
		if s.running, err = readWorkloadUIDs(ctx, c, s.release); err != nil {
			return err
		}
	}
	fluxRelease := &unstructured.Unstructured{}
	fluxRelease.SetGroupVersionKind(fluxReleaseKind)
	err = c.Get(ctx, client.ObjectKey{Namespace: helm.Namespace, Name: s.addon.Name}, fluxRelease)
	switch {
	case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading HelmRelease %s/%s: %w", helm.Namespace, s.addon.Name, err)
	}
	s.fluxRelease = fluxRelease
	return nil
}

// releaseName returns the name of the Helm release that the add-on installs.
func (s *clusterState) releaseName() string {
	return cmp.Or(s.addon.Spec.Helm.ReleaseName, s.addon.Name)
}

// releaseID returns the release that the add-on installs, as namespace/name.
func (s *clusterState) releaseID() string {
	return s.addon.Spec.Helm.Namespace + "/" + s.releaseName()
}

// templateName returns the name of the template in the control plane's spec.
func (s *clusterState) templateName() string { return s.controlPlane.Spec.WorkspaceTemplateRef.Name }

// addonPending returns why an add-on is not ready in the cluster, or an empty
// string if it is.
func (s *clusterState) addonPending(addon *addonsv1.CAPTAddon) string {
	if !addon.Selects(s.cluster.Labels) {
		return "add-on " + addon.Name + " does not select the cluster"
	}
	status := addon.StatusIn(s.key.Name)
	switch {
	case status == nil:
		return "CAPT has not observed add-on " + addon.Name + " yet"
	case status.Ready == nil || !*status.Ready || addon.Status.ObservedGeneration != addon.Generation:
		return fmt.Sprintf("add-on %s: %s %s", addon.Name, status.Reason, status.Message)
	}
	return ""
}
