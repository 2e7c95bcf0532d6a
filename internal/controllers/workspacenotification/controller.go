// Package workspacenotification reconciles WorkspaceNotifications. It derives messages
// from the status of workspaces and add-ons and sends them. What was sent is in the status of the
// notification, so neither a restart nor an outage of the destination loses a message.
package workspacenotification

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacenotifications,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacenotifications/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=captaddons,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// Reconciler reconciles WorkspaceNotifications.
type Reconciler struct {
	Client client.Client
	// Reader reads the Secrets of users. The cache of Client does not contain them.
	Reader client.Reader
	// Metadata watches the metadata of all Secrets.
	Metadata cache.Cache
	// Network restricts the addresses to which messages are sent.
	Network *dial.Policy
	// WatchFilter restricts the controller to objects with this value of the label
	// cluster.x-k8s.io/watch-filter.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now returns the time.
	Now func() time.Time

	// noAddons is set if the API server has no CAPTAddons.
	noAddons bool
	// sending are the namespaces for which messages are being sent: one at a time, so
	// that slow destinations of one namespace do not occupy all workers.
	sending sync.Map
}

// SetupWithManager adds the controller and its watches to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	// Another provider has the kind, and may not be installed.
	_, err := mgr.GetRESTMapper().RESTMapping(addonsv1.GroupVersion.WithKind("CAPTAddon").GroupKind(), addonsv1.GroupVersion.Version)
	if r.noAddons = meta.IsNoMatchError(err); err != nil && !r.noAddons {
		return fmt.Errorf("looking up CAPTAddons: %w", err)
	}
	controllers := ctrl.NewControllerManagedBy(mgr)
	if !r.noAddons {
		controllers.Watches(&addonsv1.CAPTAddon{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(mayNotifyAddon()))
	}
	secret := object.Metadata(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = controllers.
		For(&infrav1.WorkspaceNotification{}, builder.WithPredicates(reconcile.SpecOrMetadataChanged())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(mayNotify())).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(secret), handler.EnqueueRequestsFromMapFunc(r.usersOfSecret))).
		WithOptions(options).
		Named("workspacenotification").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceNotification, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceNotification, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Cluster:     reconcile.NoCluster[*infrav1.WorkspaceNotification],
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.DestinationValidCondition, Run: destinationValid},
			{Condition: infrav1.DeliveredCondition, Run: r.deliver},
		},
		OnTransition: reconcile.Announce[*infrav1.WorkspaceNotification, scope](r.Recorder, transitionEvents),
	}
}

// scope is the data of one reconcile.
type scope struct {
	notification *infrav1.WorkspaceNotification
	// secret is the Secret of the destination, or nil if it does not exist.
	secret *corev1.Secret
	// destination is set by the step that checks it.
	destination *destination
	// pending are the messages to send, the oldest first.
	pending []message
}

func (r *Reconciler) scope(ctx context.Context, notification *infrav1.WorkspaceNotification, _ *clusterv1.Cluster) (*scope, error) {
	s := &scope{notification: notification}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: notification.Namespace, Name: notification.Spec.SecretRef.Name}
	switch err := r.Reader.Get(ctx, key, secret); {
	case err == nil:
		s.secret = secret
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	var err error
	s.pending, err = r.pending(ctx, notification)
	return s, err
}

// transitionEvents announce a destination that does not work, and its recovery.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: []string{infrav1.DestinationValidCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Check"},
		{Conditions: []string{infrav1.DestinationValidCondition}, When: reconcile.Recovers, Action: "Check"},
		{Conditions: []string{infrav1.DeliveredCondition}, Reasons: []string{infrav1.DeliveryFailedReason}, Type: corev1.EventTypeWarning, Action: "Send"},
	},
}
