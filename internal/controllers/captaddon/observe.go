package captaddon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// observe returns an error unless all objects exist in the workload cluster and
// are ready.
func (r *Reconciler) observe(ctx context.Context, s *scope, in *installation) error {
	c, err := r.Clusters.GetClient(ctx, in.key(s))
	health := r.Clusters.GetHealthCheckingState(ctx, in.key(s))
	if err != nil {
		if errors.Is(err, clustercache.ErrClusterNotConnected) && in.wasReady() && health.LastProbeTime.IsZero() {
			// The manager has just started, and nothing is known to have changed.
			return nil
		}
		return connectionError(err)
	}
	if err := checkProbes(health, s.now); err != nil {
		return err
	}
	o := &observer{r: r, c: c, cluster: in.key(s)}
	for _, object := range in.rendered.Objects {
		if err := o.checkObject(ctx, in.rendered, object); err != nil {
			return err
		}
	}
	if in.rendered.Release != nil {
		if err := o.checkRelease(ctx, in.rendered.Release); err != nil {
			return err
		}
	}
	for _, check := range s.addon.Spec.Readiness {
		if !isWatchedForReadiness(check) {
			s.requeue(readinessInterval)
		}
		if err := o.checkReadiness(ctx, check); err != nil {
			return err
		}
	}
	return nil
}

const (
	// readinessInterval is the interval at which objects that are not watched are read.
	readinessInterval = 30 * time.Second
	// readinessPage and readinessPages limit how many of them are read at once, and in all.
	readinessPage, readinessPages = 20, 50
)

// isWatchedForReadiness reports whether the objects of a readiness check are watched. A
// watch has all objects of a kind in memory, and the author of an add-on chooses the kind:
// others, such as Pods and Events, are read when they are needed.
func isWatchedForReadiness(check addonsv1.ReadinessCheck) bool {
	gvk := schema.FromAPIVersionAndKind(check.APIVersion, check.Kind)
	switch gvk.Group {
	case "":
		return false
	case "apps":
		return gvk.Kind == "Deployment" || gvk.Kind == "DaemonSet" || gvk.Kind == "StatefulSet"
	default:
		return isWatched(gvk)
	}
}

// checkProbes returns a fault if a cluster does not respond. Its objects can
// still be read from the cache.
func checkProbes(state clustercache.HealthCheckingState, now time.Time) error {
	if state.ConsecutiveFailures == 0 || now.Sub(state.LastProbeSuccessTime) < probeFailure {
		return nil
	}
	return fault.WaitFor(probeInterval, addonsv1.WaitingForControlPlaneReason,
		"Workload cluster has been unreachable since %s", state.LastProbeSuccessTime.UTC().Format(time.RFC3339))
}

// observer reads a workload cluster from the cache, and watches what it reads.
type observer struct {
	r       *Reconciler
	c       client.Client
	cluster client.ObjectKey
	// unwatched reports that c reads from the API server, and nothing is watched.
	unwatched bool
}

// isWatched reports whether objects of a kind are watched: workloads, CRDs,
// Secrets and custom resources. Others, such as roles, are not checked, but they
// are applied again together with those.
func isWatched(gvk schema.GroupVersionKind) bool {
	switch gvk.Group {
	case "":
		return gvk.Kind == "Secret"
	case "apps", "apiextensions.k8s.io":
		return true
	case "batch", "policy", "autoscaling":
		return false
	default:
		return !strings.HasSuffix(gvk.Group, ".k8s.io")
	}
}

// checkObject checks one applied object. The HelmRelease is left to
// checkRelease.
func (o *observer) checkObject(ctx context.Context, rendered *rendering, object render.Object) error {
	if !isWatched(object.GroupVersionKind) || object.Kind == "HelmRelease" {
		return nil
	}
	obj, err := o.get(ctx, object)
	if err != nil {
		return err
	}
	return checkContent(rendered, object, obj)
}

// checkContent returns a problem if the cache is behind, if a Secret was changed, or if
// an object that reports its readiness is not ready.
func checkContent(rendered *rendering, object render.Object, obj *unstructured.Unstructured) error {
	if rendered.isOutdated(object, obj) {
		return &problem{reason: addonsv1.ApplyingReason, message: object.String() + " was applied, and its change has not been observed yet"}
	}
	if isChanged(rendered.Secrets[object], obj) {
		return &problem{reason: addonsv1.DriftedReason, message: object.String() + " was changed", drifted: true}
	}
	if object.Group == "apps" || object.Group == "apiextensions.k8s.io" {
		return checkHealth(render.Check(obj, ""))
	}
	return nil
}

// isChanged reports whether a Secret has another value than the content. Keys that the
// content does not have belong to others: applying the content does not remove them.
func isChanged(digests map[string]string, secret *unstructured.Unstructured) bool {
	if len(digests) == 0 {
		return false
	}
	live := render.DataDigests(secret)
	for key, digest := range digests {
		if live[key] != digest {
			return true
		}
	}
	return false
}

// checkRelease checks the Helm release and its workloads.
func (o *observer) checkRelease(ctx context.Context, desired *render.Release) error {
	hr, err := o.get(ctx, render.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		Namespace:        desired.Namespace, Name: desired.Name,
	})
	if err != nil {
		return err
	}
	if suspended, _, err := unstructured.NestedBool(hr.Object, "spec", "suspend"); err == nil && suspended {
		return fault.Wait(addonsv1.NotReadyReason, "HelmRelease %s/%s is suspended: set its spec.suspend to false", desired.Namespace, desired.Name)
	}
	if err := checkHealth(render.CheckRelease(hr, desired)); err != nil {
		return err
	}
	for _, workload := range render.Inventory(hr) {
		obj, err := o.get(ctx, workload)
		if err != nil {
			return err
		}
		if err := checkHealth(render.Check(obj, "")); err != nil {
			return err
		}
	}
	return nil
}

// checkReadiness evaluates a readiness check of the add-on.
func (o *observer) checkReadiness(ctx context.Context, check addonsv1.ReadinessCheck) error {
	gvk := schema.FromAPIVersionAndKind(check.APIVersion, check.Kind)
	if !isWatchedForReadiness(check) {
		live, err := o.r.Clusters.GetUncachedClient(ctx, o.cluster)
		if err != nil {
			return connectionError(err)
		}
		o = &observer{r: o.r, c: live, cluster: o.cluster, unwatched: true}
	}
	if check.Name != "" {
		obj, err := o.get(ctx, render.Object{GroupVersionKind: gvk, Namespace: check.Namespace, Name: check.Name})
		if err != nil {
			return notDrifted(err)
		}
		return checkHealth(render.Check(obj, check.Condition))
	}
	selector, err := metav1.LabelSelectorAsSelector(check.Selector)
	if err != nil {
		return fault.Stall(addonsv1.InvalidManifestReason, "A selector of readiness is invalid: %w", err)
	}
	if err := o.watch(ctx, gvk); err != nil {
		return notDrifted(err)
	}
	return o.checkSelected(ctx, gvk, check, selector)
}

// checkSelected checks the objects that a selector selects.
func (o *observer) checkSelected(ctx context.Context, gvk schema.GroupVersionKind, check addonsv1.ReadinessCheck, selector labels.Selector) error {
	options := []client.ListOption{client.InNamespace(check.Namespace), client.MatchingLabelsSelector{Selector: selector}}
	if o.unwatched {
		options = append(options, client.Limit(readinessPage))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	for range readinessPages {
		next := client.Continue(list.GetContinue())
		if err := o.c.List(ctx, list, append(options, next)...); err != nil {
			return fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		// A cache returns everything at once, with a token that it does not accept.
		if err := checkAll(list.Items, check, selector); err != nil || !o.unwatched || list.GetContinue() == "" {
			return err
		}
	}
	return &problem{reason: addonsv1.NotReadyReason, message: fmt.Sprintf("More than %d %s have the labels %s: choose a narrower selector", readinessPage*readinessPages, gvk.Kind, selector)}
}

// checkAll returns a problem unless there are objects and all of them are ready.
func checkAll(items []unstructured.Unstructured, check addonsv1.ReadinessCheck, selector labels.Selector) error {
	if len(items) == 0 {
		return &problem{reason: addonsv1.NotReadyReason, message: fmt.Sprintf("No %s with the labels %s exists", check.Kind, selector)}
	}
	for i := range items {
		if err := checkHealth(render.Check(&items[i], check.Condition)); err != nil {
			return err
		}
	}
	return nil
}

// notDrifted turns the problem of a missing object into one that is not ready:
// what a readiness check names may never have existed.
func notDrifted(err error) error {
	if p, found := errors.AsType[*problem](err); found {
		return &problem{reason: addonsv1.NotReadyReason, message: p.message}
	}
	return err
}

func checkHealth(h render.Health) error {
	if h.Ready {
		return nil
	}
	return &problem{reason: h.Reason, message: h.Message, failed: h.Failed && h.Reason == addonsv1.ReleaseStalledReason}
}

// get reads an object. One that does not exist has drifted.
func (o *observer) get(ctx context.Context, object render.Object) (*unstructured.Unstructured, error) {
	if err := o.watch(ctx, object.GroupVersionKind); err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(object.GroupVersionKind)
	err := o.c.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, obj)
	switch {
	case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
		return nil, &problem{reason: addonsv1.DriftedReason, message: object.String() + " does not exist", drifted: true}
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	return obj, nil
}

// watch makes changes of a kind trigger a reconciliation of the cluster's
// add-ons.
func (o *observer) watch(ctx context.Context, gvk schema.GroupVersionKind) error {
	if _, err := o.c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		if apimeta.IsNoMatchError(err) {
			return &problem{reason: addonsv1.DriftedReason, message: fmt.Sprintf("Kind %s is not installed", gvk.Kind), drifted: true}
		}
		return fmt.Errorf("looking up kind %s: %w", gvk.Kind, err)
	}
	if o.unwatched {
		return nil
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(gvk)
	err := o.r.Clusters.Watch(ctx, o.cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: "captaddon-" + strings.ToLower(gvk.GroupKind().String()), Watcher: o.r.watcher, Kind: kind,
		EventHandler: handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []ctrl.Request {
			return o.r.addonsOfClusterNamed(ctx, o.cluster)
		}),
		Predicates: []predicate.Predicate{predicate.Funcs{UpdateFunc: mayChangeReadiness}},
	}))
	if err != nil {
		return connectionError(err)
	}
	return nil
}

// mayChangeReadiness reports whether an update can change the readiness of an
// object.
func mayChangeReadiness(e event.UpdateEvent) bool {
	previous, ok := e.ObjectOld.(*unstructured.Unstructured)
	current, ok2 := e.ObjectNew.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return true
	}
	return previous.GetGeneration() != current.GetGeneration() ||
		!equality.Semantic.DeepEqual(previous.Object["status"], current.Object["status"]) ||
		!equality.Semantic.DeepEqual(previous.Object["data"], current.Object["data"]) ||
		previous.GetDeletionTimestamp().IsZero() != current.GetDeletionTimestamp().IsZero()
}
