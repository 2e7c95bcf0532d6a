package captaddon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// rendering is the content for a cluster, without its data.
type rendering struct {
	*render.Rendered

	// inputs identifies the versions of everything it was rendered from.
	inputs string
	// applied are the versions of the objects that were applied. The cache of the
	// workload cluster may have older ones, whose readiness means nothing.
	applied map[render.Object]version
}

// version is a version of an object.
type version struct {
	uid        types.UID
	generation int64
}

// isOutdated reports whether an object is older than the one that was applied.
func (r *rendering) isOutdated(object render.Object, obj *unstructured.Unstructured) bool {
	applied := r.applied[object]
	return applied.uid == obj.GetUID() && obj.GetGeneration() < applied.generation
}

// withoutData returns a rendering without its manifests, which are large and
// needed only to write them.
func withoutData(rendered *render.Rendered, inputs string) *rendering {
	slim := *rendered
	slim.Data = nil
	return &rendering{Rendered: &slim, inputs: inputs}
}

// render renders the add-on for each cluster that can have it. A fault in one
// cluster does not affect the others.
func (r *Reconciler) render(ctx context.Context, s *scope) error {
	for _, in := range s.installations {
		if in.selected && in.initialized() {
			in.renderErr = r.renderOne(ctx, s, in)
		}
	}
	return s.summarizeRendering()
}

// summarizeRendering returns the errors that are not faults, or the first stall,
// or nil. Clusters that wait report so themselves.
func (s *scope) summarizeRendering() error {
	var first, transient error
	for _, in := range s.installations {
		if stalled, found := fault.AsStalled(in.renderErr); found && first == nil {
			first = fault.Stall(stalled.Reason, "Cluster %s: %s", in.name, stalled.Message())
		}
		if in.renderErr != nil && !fault.Is(in.renderErr) {
			transient = errors.Join(transient, in.renderErr)
		}
	}
	if transient != nil {
		return transient
	}
	return first
}

// renderOne sets the rendering of a cluster. It reuses the last one if no input
// has changed.
func (r *Reconciler) renderOne(ctx context.Context, s *scope, in *installation) error {
	if err := in.checkWorkspace(); err != nil {
		return err
	}
	if err := r.checkVersion(s, in); err != nil {
		return err
	}
	if err := r.checkChartHost(s.addon); err != nil {
		return err
	}
	inputs, err := r.inputVersions(ctx, s, in)
	if err != nil {
		return err
	}
	cached, _ := r.renderings.Load(in.renderingKey(s))
	if cached, found := cached.(*rendering); found && cached.inputs == inputs {
		in.rendered = cached
		return nil
	}
	rendered, err := r.renderData(ctx, s, in, render.Round(in.secret))
	if err != nil {
		return err
	}
	if err := r.checkChartPaths(ctx, s); err != nil {
		return err
	}
	in.rendered = withoutData(rendered, inputs)
	r.renderings.Store(in.renderingKey(s), in.rendered)
	return nil
}

// checkVersion returns a fault unless the add-on supports the Kubernetes version
// of the cluster and the versions of the add-ons that it depends on.
func (r *Reconciler) checkVersion(s *scope, in *installation) error {
	kubernetes := in.renderCluster().KubernetesVersion
	if r.Versions == nil || kubernetes == "" {
		return nil
	}
	if err := r.Versions.CheckAddon(s.addon, kubernetes); err != nil {
		return fault.Stall(addonsv1.VersionUnsupportedReason, "Add-on %s: %w", s.addon.Name, err)
	}
	for i := range s.addons {
		if !render.DependsOn(s.addon, s.addons[i].Name) {
			continue
		}
		if err := r.Versions.CheckDependency(s.addon, &s.addons[i]); err != nil {
			return fault.Stall(addonsv1.VersionUnsupportedReason, "Add-on %s: %w", s.addon.Name, err)
		}
	}
	return nil
}

// checkChartHost returns a fault unless the manager allows the host of the chart.
func (r *Reconciler) checkChartHost(addon *addonsv1.CAPTAddon) error {
	if r.ChartHosts == nil || addon.Spec.Helm == nil {
		return nil
	}
	if host := render.ChartHost(addon.Spec.Helm.Chart); r.ChartHosts.CheckName(host) != nil {
		return fault.Stall(addonsv1.NotAllowedReason, "Add-on %s: the host %q of helm.chart.repository is not in the manager's list --allowed-chart-hosts", addon.Name, host)
	}
	return nil
}

// checkChartPaths returns a fault unless the chart has all values that the add-on
// sets. The manager has no credentials of repositories, so charts that need them are not
// checked.
func (r *Reconciler) checkChartPaths(ctx context.Context, s *scope) error {
	if r.Charts == nil || s.addon.Spec.Helm == nil || len(render.ChartSecretNames(s.addon)) > 0 {
		return nil
	}
	for i, v := range s.addon.Spec.Helm.ValuesFrom {
		if err := r.Charts.CheckPath(ctx, s.addon.Namespace, s.addon.Spec.Helm.Chart, v.TargetPath); err != nil {
			return fault.Stall(addonsv1.InvalidTargetPathReason, "Add-on %s: helm.valuesFrom[%d].targetPath: %w", s.addon.Name, i, err)
		}
	}
	return nil
}

// inputVersions returns a text that changes with each input of the rendering.
func (r *Reconciler) inputVersions(ctx context.Context, s *scope, in *installation) (string, error) {
	cluster := in.renderCluster()
	versions := []string{
		string(s.addon.UID), fmt.Sprint(s.addon.Generation), s.addon.Annotations[addonsv1.TriggerAnnotation],
		cluster.KubernetesVersion, cluster.Workspace, fmt.Sprint(render.Round(in.secret)), render.ClusterInputs(s.addon, cluster),
	}
	add := func(kind schema.GroupVersionKind, namespace, name, reason string) error {
		obj := object.Metadata(kind)
		if err := r.Metadata.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
			return reconcile.WaitIfNotFound(err, reason, kind.Kind+" "+name, "")
		}
		versions = append(versions, kind.Kind, name, obj.ResourceVersion)
		return nil
	}
	if render.NeedsConnection(s.addon) {
		name, err := render.ConnectionSecretName(s.addon, cluster)
		if err != nil {
			return "", err
		}
		if err := in.tolerate(s.addon, add(secretKind, s.addon.Namespace, name, addonsv1.WaitingForConnectionSecretReason)); err != nil {
			return "", err
		}
	}
	for _, m := range s.addon.Spec.Manifests {
		var err error
		switch {
		case m.ConfigMapRef != nil:
			err = add(configMapKind, s.sources(), m.ConfigMapRef.Name, addonsv1.SourceNotFoundReason)
		case m.SecretRef != nil:
			err = add(secretKind, s.sources(), m.SecretRef.Name, addonsv1.SourceNotFoundReason)
		}
		if err != nil {
			return "", err
		}
	}
	for _, name := range render.ChartSecretNames(s.addon) {
		if err := add(secretKind, s.sources(), name, addonsv1.SourceNotFoundReason); err != nil {
			return "", err
		}
	}
	return strings.Join(versions, "\x00"), nil
}

// tolerate returns nil for a connection Secret that is missing and that need not exist: no
// CAPTControlPlane writes it, and each output has a default or is optional.
func (in *installation) tolerate(addon *addonsv1.CAPTAddon, err error) error {
	waiting, found := fault.AsWaiting(err)
	if found && waiting.Reason == addonsv1.WaitingForConnectionSecretReason && !in.ofCAPT && !render.RequiresOutput(addon) {
		return nil
	}
	return err
}

// renderingKey is the key of a rendering in Reconciler.renderings.
type renderingKey struct {
	addon   client.ObjectKey
	cluster string
}

func (in *installation) renderingKey(s *scope) renderingKey {
	return renderingKey{client.ObjectKeyFromObject(s.addon), in.name}
}
