package captaddon

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const fieldManager = "capt-addon"

// request applies the ClusterResourceSet of a cluster and the Secret with its
// content, which Cluster API installs. It is idempotent.
func (r *Reconciler) request(ctx context.Context, s *scope, in *installation, round int) error {
	rendered, err := r.renderData(ctx, s, in, round)
	if err != nil {
		return err
	}
	if err := r.labelCluster(ctx, in); err != nil {
		return err
	}
	annotations, err := r.readPrevious(ctx, s, in, rendered)
	if err != nil {
		return err
	}
	secret := render.Secret(s.addon, in.name, rendered, round, s.now)
	maps.Copy(secret.Annotations, annotations)
	if err := object.Apply(ctx, r.Client, secret, fieldManager); err != nil {
		return err
	}
	resourceSet := render.ResourceSet(s.addon, in.name)
	if in.resourceSet == nil {
		if err := object.Apply(ctx, r.Client, resourceSet, fieldManager); err != nil {
			return err
		}
		in.resourceSet = resourceSet
	}
	secret.Data = nil
	next := *in
	next.secret = secret
	inputs, err := r.inputVersions(ctx, s, &next)
	if err != nil {
		return err
	}
	in.secret, in.rendered = secret, withoutData(rendered, inputs)
	r.renderings.Store(in.renderingKey(s), in.rendered)
	return nil
}

// labelCluster sets the label by which a ClusterResourceSet selects this Cluster
// alone.
func (r *Reconciler) labelCluster(ctx context.Context, in *installation) error {
	if in.cluster.Labels[addonsv1.ClusterLabel] == in.name {
		return nil
	}
	labelled := in.cluster.DeepCopy()
	metav1.SetMetaDataLabel(&labelled.ObjectMeta, addonsv1.ClusterLabel, in.name)
	if err := r.Client.Patch(ctx, labelled, client.MergeFrom(in.cluster)); err != nil {
		return fmt.Errorf("labelling the Cluster: %w", err)
	}
	return nil
}

// ensureApplied applies the rendered content. Cluster API installs it, and this
// controller applies it then, and every change.
func (r *Reconciler) ensureApplied(ctx context.Context, s *scope, in *installation) error {
	if in.previous.AppliedHash != "" && in.previous.AppliedHash == in.rendered.Hash || s.keepsFirstContent(in) {
		return nil
	}
	if in.previous.AppliedHash == "" {
		if err := r.checkInstalled(ctx, s, in); err != nil {
			return err
		}
	}
	if s.addon.Spec.Strategy == addonsv1.StrategyApplyOnce {
		return nil
	}
	return r.applyContent(ctx, s, in)
}

// checkInstalled returns a problem unless Cluster API has installed the add-on. The
// ClusterResourceSetBinding records that; the condition of the ClusterResourceSet does
// not.
func (r *Reconciler) checkInstalled(ctx context.Context, s *scope, in *installation) error {
	var binding clusteraddonsv1.ClusterResourceSetBinding
	if err := r.Client.Get(ctx, in.key(s), &binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the ClusterResourceSetBinding: %w", err)
	}
	name := render.Name(s.addon.Name, in.name)
	switch attempted, applied := appliedByClusterAPI(&binding, name, in.rendered.Hash); {
	case applied:
		return nil
	case attempted:
		return &problem{reason: addonsv1.ApplyFailedReason, message: r.diagnose(ctx, s, in), failed: true}
	default:
		return &problem{reason: addonsv1.ApplyingReason, message: "Cluster API has not applied ClusterResourceSet " + name + " yet"}
	}
}

// appliedByClusterAPI reports whether Cluster API tried to apply the content with
// a hash, and whether it has applied any content. It applies only the first.
func appliedByClusterAPI(binding *clusteraddonsv1.ClusterResourceSetBinding, name, hash string) (attempted, applied bool) {
	for _, set := range binding.Spec.Bindings {
		if set.ClusterResourceSetName != name {
			continue
		}
		for _, resource := range set.Resources {
			if resource.Name == name {
				return resource.Hash == hash, resource.Applied != nil && *resource.Applied
			}
		}
	}
	return false, false
}

// diagnose returns why the workload cluster rejects the content, which Cluster
// API does not report.
func (r *Reconciler) diagnose(ctx context.Context, s *scope, in *installation) string {
	const unknown = "Cluster API could not apply all manifests"
	c, err := r.Clusters.GetUncachedClient(ctx, in.key(s))
	if err != nil {
		return unknown + ": workload cluster is unreachable"
	}
	for _, o := range in.rendered.Objects {
		_, err := c.RESTMapper().RESTMapping(o.GroupKind(), o.Version)
		if apimeta.IsNoMatchError(err) {
			return fmt.Sprintf("%s: its kind is not installed: add the add-on that installs the CRD to dependsOn", o)
		}
	}
	rendered, err := r.renderData(ctx, s, in, render.Round(in.secret))
	if err != nil {
		return unknown
	}
	objects, err := parseData(rendered.Data)
	if err != nil {
		return unknown
	}
	for _, obj := range objects {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.DryRunAll, client.FieldOwner(fieldManager), client.ForceOwnership)
		if err != nil {
			return rejection(obj, err).Error()
		}
	}
	return unknown + "; a dry run now accepts all of them"
}

// withoutSecrets returns the text of an error about an object, unless it may
// quote a secret.
func withoutSecrets(obj *unstructured.Unstructured, err error) string {
	if obj.GetKind() == "Secret" {
		return "see the log of Cluster API's manager"
	}
	return err.Error()
}

// connectionError returns the fault of a workload cluster without a connection,
// and other errors wrapped.
func connectionError(err error) error {
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "Workload cluster is unreachable")
	}
	return fmt.Errorf("connecting to the workload cluster: %w", err)
}
