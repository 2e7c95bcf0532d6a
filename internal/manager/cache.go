package manager

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// cacheOptions returns the options of the manager's cache. It holds only CAPT's
// own Secrets and Jobs, and only the parts of these Secrets that controllers read.
func cacheOptions(o *Options) cache.Options {
	hasComponent, err := labels.NewRequirement(infrav1.ComponentLabel, selection.Exists, nil)
	utilruntime.Must(err)
	options := cache.Options{
		SyncPeriod:       &o.SyncPeriod,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Label: labels.NewSelector().Add(*hasComponent), Transform: trim},
			&batchv1.Job{}:   {Label: labels.NewSelector().Add(*hasComponent)},
		},
	}
	if o.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return options
}

// trim removes the parts of CAPT's own Secrets that no controller reads.
func trim(in any) (any, error) {
	if secret, ok := in.(*corev1.Secret); ok {
		secret.ManagedFields = nil
		record.Trim(secret)
		if secret.Labels[infrav1.ComponentLabel] == addonsv1.ComponentAddon {
			secret.Data = nil
		}
	}
	return in, nil
}

// clientOptions returns the options of the manager's client. It reads ConfigMaps
// from the API server: they are read once per change, so a cache would only cost
// memory.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{
		DisableFor: []client.Object{&corev1.ConfigMap{}},
	}}
}

// metadataCache watches the metadata of the Secrets and ConfigMaps that users may
// refer to, so that a workspace that waits for one continues as soon as it appears
// or changes. The Secrets of runs and states are excluded: there are many, they
// change all the time, and no object refers to them.
func metadataCache(mgr ctrl.Manager, o *Options) (cache.Cache, error) {
	foreign, err := labels.NewRequirement(infrav1.ComponentLabel, selection.NotIn, append(record.InternalComponents(), addonsv1.ComponentAddon))
	if err != nil {
		return nil, fmt.Errorf("selecting users' objects: %w", err)
	}
	options := cache.Options{
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		HTTPClient: mgr.GetHTTPClient(),
		SyncPeriod: &o.SyncPeriod,
		// ConfigMaps do not have this label, so all of them are selected.
		DefaultLabelSelector: labels.NewSelector().Add(*foreign),
		DefaultTransform: func(in any) (any, error) {
			if obj, ok := in.(*metav1.PartialObjectMetadata); ok {
				obj.ManagedFields, obj.Annotations, obj.Labels, obj.OwnerReferences = nil, nil, nil, nil
			}
			return in, nil
		},
	}
	if o.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return cache.New(mgr.GetConfig(), options)
}
