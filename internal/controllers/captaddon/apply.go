package captaddon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const fieldManager = "capt-addon"

// ask has Cluster API apply what the cluster is to get. Asking twice for the
// same is no harm.
func (r *Reconciler) ask(ctx context.Context, s *scope, st *standing, round int) error {
	rendered, err := r.full(ctx, s, st, round)
	if err != nil {
		return err
	}
	if err := r.label(ctx, st); err != nil {
		return err
	}
	dropped, err := r.dropped(ctx, s, st, rendered)
	if err != nil {
		return err
	}
	secret := render.Secret(s.addon, st.name, rendered, round, s.now)
	if dropped != "" {
		secret.Annotations[addonsv1.PruneAnnotation] = dropped
	}
	if err := r.apply(ctx, secret); err != nil {
		return err
	}
	set := render.ResourceSet(s.addon, st.name)
	if st.set == nil {
		if err := r.apply(ctx, set); err != nil {
			return err
		}
		st.set = set
	}
	slim := *rendered
	slim.Data, secret.Data = nil, nil
	from, err := r.versionsOf(ctx, s, &standing{name: st.name, cluster: st.cluster, controlPlane: st.controlPlane, secret: secret})
	if err != nil {
		return err
	}
	st.secret, st.rendered = secret, &rendering{Rendered: &slim, from: from}
	r.keep(s, st)
	return nil
}

// label lets a ClusterResourceSet select this Cluster alone.
func (r *Reconciler) label(ctx context.Context, st *standing) error {
	if st.cluster.Labels[addonsv1.ClusterLabel] == st.name {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{addonsv1.ClusterLabel: st.name}}})
	if err != nil {
		return fmt.Errorf("encoding a label: %w", err)
	}
	if err := r.Client.Patch(ctx, st.cluster.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("labelling the Cluster: %w", err)
	}
	return nil
}

func (r *Reconciler) apply(ctx context.Context, obj client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	delete(content, "status")
	body := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(body.Object, "metadata", "creationTimestamp")
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", body.GetKind(), obj.GetName(), err)
	}
	return nil
}

// applied waits until Cluster API has applied what was asked for. Its binding
// tells, the condition of the ClusterResourceSet does not.
func (r *Reconciler) applied(ctx context.Context, s *scope, st *standing) error {
	if st.was.AppliedHash != "" && st.was.AppliedHash == st.rendered.Hash {
		return nil
	}
	if s.addon.Spec.Strategy == addonsv1.StrategyApplyOnce && st.was.AppliedHash != "" {
		return nil
	}
	var binding clusteraddonsv1.ClusterResourceSetBinding
	if err := r.Client.Get(ctx, st.key(s), &binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the ClusterResourceSetBinding: %w", err)
	}
	name := render.Name(s.addon.Name, st.name)
	for _, set := range binding.Spec.Bindings {
		if set.ClusterResourceSetName != name {
			continue
		}
		for _, resource := range set.Resources {
			if resource.Name != name || resource.Hash != st.rendered.Hash {
				continue
			}
			if resource.Applied != nil && *resource.Applied {
				return nil
			}
			return &problem{reason: addonsv1.ApplyFailedReason, message: r.diagnose(ctx, s, st), failed: true}
		}
	}
	return &problem{reason: addonsv1.ApplyingReason, message: "Cluster API has not applied ClusterResourceSet " + name + " yet"}
}

// diagnose finds out what the cluster refuses: Cluster API keeps that to itself.
func (r *Reconciler) diagnose(ctx context.Context, s *scope, st *standing) string {
	const unknown = "Cluster API could not apply all manifests"
	c, err := r.Clusters.GetUncachedClient(ctx, st.key(s))
	if err != nil {
		return unknown + ": there is no connection to the cluster"
	}
	for _, o := range st.rendered.Objects {
		_, err := c.RESTMapper().RESTMapping(o.GroupKind(), o.Version)
		if apimeta.IsNoMatchError(err) {
			return fmt.Sprintf("%s: the cluster does not know its kind: the add-on that brings the CRD belongs into dependsOn", o)
		}
	}
	rendered, err := r.full(ctx, s, st, render.Round(st.secret))
	if err != nil {
		return unknown
	}
	for _, key := range slices.Sorted(maps.Keys(rendered.Data)) {
		objects, err := manifest.Parse(rendered.Data[key])
		if err != nil {
			continue
		}
		for _, obj := range objects {
			err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.DryRunAll, client.FieldOwner(fieldManager), client.ForceOwnership)
			if err != nil {
				return fmt.Sprintf("%s %s is refused: %s", obj.GetKind(), obj.GetName(), secretless(obj, err))
			}
		}
	}
	return unknown + "; by now none of them is refused"
}

// secretless is the text of an error, unless it may quote what is secret.
func secretless(obj *unstructured.Unstructured, err error) string {
	if obj.GetKind() == "Secret" {
		return "see the log of Cluster API's manager"
	}
	return err.Error()
}

// unreachable words an error of the connection to a workload cluster.
func unreachable(err error) error {
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "There is no connection to the cluster")
	}
	return fmt.Errorf("connecting to the cluster: %w", err)
}
