package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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

var helmReleaseKind = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}

// record is what a migration remembers on the control plane. It decides nothing
// that can be read off the clusters.
type record struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Dropped are variables of the control plane that the new template does not
	// take.
	Dropped map[string]infrav1.Value `json:"dropped,omitempty"`
	// Revision and Before are what ran before Flux came.
	Revision int      `json:"revision,omitempty"`
	Before   *running `json:"before,omitempty"`
	// MigratedAt is when the migration was finished.
	MigratedAt *metav1.Time `json:"migratedAt,omitempty"`
}

// world is everything that decides what is left to do for one cluster.
type world struct {
	key          client.ObjectKey
	cluster      *clusterv1.Cluster
	controlPlane *controlplanev1.CAPTControlPlane
	workspace    *infrav1.WorkspaceTemplateApply
	from, to     *infrav1.WorkspaceTemplate
	// class is set for a cluster of a ClusterClass.
	class *class

	// all are the add-ons of the namespace. flux and addon are those of the
	// migration, as they are or as they are to be installed.
	all              []addonsv1.CAPTAddon
	flux, addon      *addonsv1.CAPTAddon
	installed        bool
	connection       map[string][]byte
	connectionSecret string

	// workload is nil when the cluster cannot be reached, and unreachable says
	// why.
	workload    client.Client
	unreachable error
	// releases are those of Karpenter's chart, release the one that the add-on
	// is about.
	releases []*helmRelease
	release  *helmRelease
	runs     running
	// managed is Flux' object for the release, if there is one.
	managed *unstructured.Unstructured

	record *record
}

// read looks at everything.
func (m *Migration) read(ctx context.Context, key client.ObjectKey) (*world, error) {
	w := &world{key: key, cluster: &clusterv1.Cluster{}}
	if err := m.Client.Get(ctx, key, w.cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("no Cluster %s in namespace %s: name another with --cluster, or give its --namespace", key.Name, key.Namespace)
		}
		return nil, fmt.Errorf("reading Cluster %s: %w", key.Name, err)
	}
	for _, step := range []func(context.Context, *world) error{m.readControlPlane, m.readTemplates, m.readAddons, m.readWorkload} {
		if err := step(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (m *Migration) readControlPlane(ctx context.Context, w *world) error {
	ref := w.cluster.Spec.ControlPlaneRef
	if ref.Kind != "CAPTControlPlane" {
		return nil
	}
	w.controlPlane = &controlplanev1.CAPTControlPlane{}
	found, err := m.find(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: ref.Name}, w.controlPlane)
	if err != nil {
		return err
	}
	if !found {
		w.controlPlane = nil
		return nil
	}
	if text, found := w.controlPlane.Annotations[RecordAnnotation]; found {
		w.record = &record{}
		if err := json.Unmarshal([]byte(text), w.record); err != nil {
			return fmt.Errorf("reading annotation %s of CAPTControlPlane %s: %w", RecordAnnotation, w.controlPlane.Name, err)
		}
	}
	if ws := w.controlPlane.Status.WorkspaceRef; ws != nil {
		w.workspace = &infrav1.WorkspaceTemplateApply{}
		if found, err = m.find(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: ws.Name}, w.workspace); err != nil || !found {
			w.workspace = nil
			return err
		}
	}
	w.class, err = m.readClass(ctx, w.cluster)
	return err
}

// find reads an object that may not exist.
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

func (m *Migration) readTemplates(ctx context.Context, w *world) error {
	if w.controlPlane == nil {
		return nil
	}
	namespace := w.controlPlane.Spec.WorkspaceTemplateRef.Key(w.key.Namespace).Namespace
	for _, t := range []struct {
		name string
		into **infrav1.WorkspaceTemplate
	}{{m.fromOf(w), &w.from}, {m.To, &w.to}} {
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

// fromOf is the old template of a cluster.
func (m *Migration) fromOf(w *world) string {
	if w.record != nil && w.record.From != "" {
		return w.record.From
	}
	return m.From
}

func (m *Migration) readAddons(ctx context.Context, w *world) error {
	var list addonsv1.CAPTAddonList
	if err := m.Client.List(ctx, &list, client.InNamespace(w.key.Namespace)); err != nil {
		return fmt.Errorf("listing add-ons: %w", err)
	}
	w.all = list.Items
	w.installed = true
	for _, a := range []struct {
		name string
		into **addonsv1.CAPTAddon
	}{{m.Flux, &w.flux}, {m.Addon, &w.addon}} {
		for i := range w.all {
			if w.all[i].Name == a.name {
				*a.into = &w.all[i]
			}
		}
		if *a.into != nil {
			continue
		}
		w.installed = false
		for _, obj := range m.Install {
			if obj.GetKind() != "CAPTAddon" || obj.GetName() != a.name {
				continue
			}
			addon := &addonsv1.CAPTAddon{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, addon); err != nil {
				return fmt.Errorf("reading add-on %s: %w", a.name, err)
			}
			addon.Namespace = w.key.Namespace
			*a.into = addon
		}
	}
	if w.addon == nil || w.addon.Spec.Helm == nil {
		return nil
	}
	var err error
	if w.connectionSecret, err = addonrender.SecretName(w.addon, w.facts()); err != nil {
		return err
	}
	connection := &corev1.Secret{}
	if _, err := m.find(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: w.connectionSecret}, connection); err != nil {
		return err
	}
	w.connection = connection.Data
	return nil
}

// facts are what the add-on can say about the cluster.
func (w *world) facts() addonrender.Cluster {
	facts := addonrender.Cluster{Name: w.key.Name, Namespace: w.key.Namespace, KubernetesVersion: w.cluster.Spec.Topology.Version}
	if w.controlPlane != nil && w.controlPlane.Status.Version != "" {
		facts.KubernetesVersion = w.controlPlane.Status.Version
	}
	return facts
}

func (m *Migration) readWorkload(ctx context.Context, w *world) error {
	kubeconfig := &corev1.Secret{}
	found, err := m.find(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: secret.Name(w.key.Name, secret.Kubeconfig)}, kubeconfig)
	if err != nil {
		return err
	}
	if !found {
		w.unreachable = errors.New("it has no kubeconfig yet")
		return nil
	}
	c, err := m.Reach(kubeconfig.Data[secret.KubeconfigDataName])
	if err != nil {
		w.unreachable = err
		return nil
	}
	if w.addon == nil || w.addon.Spec.Helm == nil {
		w.workload = c
		return nil
	}
	helm := w.addon.Spec.Helm
	if w.releases, err = findReleases(ctx, c, helm.Chart.Name); err != nil {
		w.unreachable = err
		return nil
	}
	w.workload = c
	for _, release := range w.releases {
		if release.Namespace == helm.Namespace && release.Name == w.releaseName() {
			w.release = release
		}
	}
	if w.release != nil {
		if w.runs, err = lookAt(ctx, c, w.release); err != nil {
			return err
		}
	}
	w.managed = &unstructured.Unstructured{}
	w.managed.SetGroupVersionKind(helmReleaseKind)
	err = c.Get(ctx, client.ObjectKey{Namespace: helm.Namespace, Name: w.addon.Name}, w.managed)
	switch {
	case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
		w.managed = nil
	case err != nil:
		return fmt.Errorf("reading HelmRelease %s/%s: %w", helm.Namespace, w.addon.Name, err)
	}
	return nil
}

func (w *world) releaseName() string {
	if name := w.addon.Spec.Helm.ReleaseName; name != "" {
		return name
	}
	return w.addon.Name
}

// template is the name of the template that the cluster is to have.
func (w *world) template() string { return w.controlPlane.Spec.WorkspaceTemplateRef.Name }

// selects tells whether an add-on selects a cluster with these labels.
func selects(addon *addonsv1.CAPTAddon, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	return err == nil && selector.Matches(labels.Set(of))
}

// standing is where an add-on stands in the cluster, or nil.
func (w *world) standing(addon *addonsv1.CAPTAddon) *addonsv1.ClusterAddonStatus {
	for i := range addon.Status.Clusters {
		if addon.Status.Clusters[i].Name == w.key.Name {
			return &addon.Status.Clusters[i]
		}
	}
	return nil
}

// ready tells whether an add-on is ready in the cluster, or what it waits for.
func (w *world) ready(addon *addonsv1.CAPTAddon) (waits string) {
	if !selects(addon, w.cluster.Labels) {
		return "add-on " + addon.Name + " does not select the cluster"
	}
	st := w.standing(addon)
	switch {
	case st == nil:
		return "CAPT has not looked at add-on " + addon.Name + " yet"
	case st.Ready == nil || !*st.Ready || addon.Status.ObservedGeneration != addon.Generation:
		return fmt.Sprintf("add-on %s: %s %s", addon.Name, st.Reason, st.Message)
	}
	return ""
}
