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

// observe looks in the workload cluster whether everything is there and ready.
func (r *Reconciler) observe(ctx context.Context, s *scope, st *standing) error {
	c, err := r.Clusters.GetClient(ctx, st.key(s))
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		if st.was.Ready != nil && *st.was.Ready && r.Clusters.GetHealthCheckingState(ctx, st.key(s)).LastProbeTime.IsZero() {
			// The manager has only just begun: nothing is known to have changed.
			return nil
		}
		return unreachable(err)
	}
	if err != nil {
		return unreachable(err)
	}
	if err := silent(r.Clusters.GetHealthCheckingState(ctx, st.key(s)), s.now); err != nil {
		return err
	}
	w := &witness{r: r, c: c, cluster: st.key(s)}
	for _, o := range st.rendered.Objects {
		if err := w.part(ctx, st, o); err != nil {
			return err
		}
	}
	if st.rendered.Release != nil {
		if err := w.release(ctx, st.rendered.Release); err != nil {
			return err
		}
	}
	for _, check := range s.addon.Spec.Readiness {
		if err := w.check(ctx, check); err != nil {
			return err
		}
	}
	return nil
}

// silent reports whether a cluster does not respond, although what is known of it
// from before can still be read.
func silent(state clustercache.HealthCheckingState, now time.Time) error {
	if state.ConsecutiveFailures == 0 || now.Sub(state.LastProbeSuccessTime) < probeFailure {
		return nil
	}
	return fault.WaitFor(probeInterval, addonsv1.WaitingForControlPlaneReason,
		"The cluster has not answered since %s", state.LastProbeSuccessTime.UTC().Format(time.RFC3339))
}

// witness reads a workload cluster from memory and has changes wake the
// controller.
type witness struct {
	r       *Reconciler
	c       client.Client
	cluster client.ObjectKey
}

// watched reports whether objects of a kind are watched: what runs, what makes
// kinds, what is secret, and the objects of such kinds. The rest, such as roles,
// is applied again with them.
func watched(gvk schema.GroupVersionKind) bool {
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

// part checks one object that was applied.
func (w *witness) part(ctx context.Context, st *standing, o render.Object) error {
	if !watched(o.GroupVersionKind) || o.Kind == "HelmRelease" {
		return nil
	}
	obj, err := w.get(ctx, o)
	if err != nil {
		return err
	}
	if want, secret := st.rendered.Secrets[o]; secret && want != render.DataDigest(obj) {
		return &problem{reason: addonsv1.DriftedReason, message: o.String() + " was changed", drifted: true}
	}
	if o.Group == "apps" || o.Group == "apiextensions.k8s.io" {
		return healthy(render.Check(obj, ""))
	}
	return nil
}

// release checks the Helm release and what it consists of.
func (w *witness) release(ctx context.Context, want *render.Release) error {
	hr, err := w.get(ctx, render.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		Namespace:        want.Namespace, Name: want.Name,
	})
	if err != nil {
		return err
	}
	if suspended, _, err := unstructured.NestedBool(hr.Object, "spec", "suspend"); err == nil && suspended {
		return fault.Wait(addonsv1.NotReadyReason, "HelmRelease %s/%s is suspended: resume it by setting spec.suspend to false", want.Namespace, want.Name)
	}
	if err := healthy(render.CheckRelease(hr, want)); err != nil {
		return err
	}
	for _, o := range render.Inventory(hr) {
		obj, err := w.get(ctx, o)
		if err != nil {
			return err
		}
		if err := healthy(render.Check(obj, "")); err != nil {
			return err
		}
	}
	return nil
}

// check evaluates a readiness check.
func (w *witness) check(ctx context.Context, check addonsv1.ReadinessCheck) error {
	gvk := schema.FromAPIVersionAndKind(check.APIVersion, check.Kind)
	if check.Name != "" {
		obj, err := w.get(ctx, render.Object{GroupVersionKind: gvk, Namespace: check.Namespace, Name: check.Name})
		if err != nil {
			return notDrifted(err)
		}
		return healthy(render.Check(obj, check.Condition))
	}
	selector, err := metav1.LabelSelectorAsSelector(check.Selector)
	if err != nil {
		return fault.Stall(addonsv1.InvalidManifestReason, "A selector of readiness cannot be read: %w", err)
	}
	if err := w.watch(ctx, gvk); err != nil {
		return notDrifted(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := w.c.List(ctx, list, client.InNamespace(check.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return fmt.Errorf("listing %s: %w", gvk.Kind, err)
	}
	if len(list.Items) == 0 {
		return &problem{reason: addonsv1.NotReadyReason, message: fmt.Sprintf("No %s with the labels %s exists", gvk.Kind, selector)}
	}
	for i := range list.Items {
		if err := healthy(render.Check(&list.Items[i], check.Condition)); err != nil {
			return err
		}
	}
	return nil
}

// notDrifted is for what a check names: it may never have been there.
func notDrifted(err error) error {
	if p, found := errors.AsType[*problem](err); found {
		return &problem{reason: addonsv1.NotReadyReason, message: p.message}
	}
	return err
}

func healthy(h render.Health) error {
	if h.Ready {
		return nil
	}
	return &problem{reason: h.Reason, message: h.Message, failed: h.Failed && h.Reason == addonsv1.ReleaseStalledReason}
}

// get reads an object. One that is not there has gone.
func (w *witness) get(ctx context.Context, o render.Object) (*unstructured.Unstructured, error) {
	if err := w.watch(ctx, o.GroupVersionKind); err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(o.GroupVersionKind)
	err := w.c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, obj)
	switch {
	case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
		return nil, &problem{reason: addonsv1.DriftedReason, message: o.String() + " is missing", drifted: true}
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", o, err)
	}
	return obj, nil
}

// watch has changes of a kind wake the add-ons of the cluster.
func (w *witness) watch(ctx context.Context, gvk schema.GroupVersionKind) error {
	if _, err := w.c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		if apimeta.IsNoMatchError(err) {
			return &problem{reason: addonsv1.DriftedReason, message: fmt.Sprintf("the kind %s is missing", gvk.Kind), drifted: true}
		}
		return fmt.Errorf("looking for kind %s: %w", gvk.Kind, err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(gvk)
	err := w.r.Clusters.Watch(ctx, w.cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: "captaddon-" + strings.ToLower(gvk.GroupKind().String()), Watcher: w.r.watcher, Kind: kind,
		EventHandler: handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []ctrl.Request {
			return w.r.ofClusterName(ctx, w.cluster)
		}),
		Predicates: []predicate.Predicate{changed()},
	}))
	if err != nil {
		return unreachable(err)
	}
	return nil
}

// changed lets through what can change the readiness of an object.
func changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*unstructured.Unstructured)
		after, ok2 := e.ObjectNew.(*unstructured.Unstructured)
		if !ok || !ok2 {
			return true
		}
		return before.GetGeneration() != after.GetGeneration() || !equality.Semantic.DeepEqual(before.Object["status"], after.Object["status"]) ||
			!equality.Semantic.DeepEqual(before.Object["data"], after.Object["data"]) ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
	}}
}
