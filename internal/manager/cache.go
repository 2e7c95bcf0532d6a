package manager

import (
	"fmt"
	"slices"

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

// dataComponents are the components of the Secrets whose data controllers compare, in
// addition to those of runs. The controllers have the constants.
var dataComponents = []string{"connection", "kubeconfig", "bootstrap"}

// maxCachedData limits the data of such a Secret. Controllers write a larger one again
// if they cannot compare it.
const maxCachedData = 64 << 10

// components returns the components of all Secrets in the manager's cache.
func components() []string {
	return slices.Concat(record.InternalComponents(), dataComponents, []string{addonsv1.ComponentAddon})
}

// cacheOptions returns the options of the manager's cache. It holds only CAPT's
// own Secrets and Jobs, and only the parts of these Secrets that controllers read.
// Users can create Secrets with any label, so it holds only components that exist, and
// little of each.
func cacheOptions(o *Options) cache.Options {
	hasComponent, err := labels.NewRequirement(infrav1.ComponentLabel, selection.In, components())
	utilruntime.Must(err)
	options := cache.Options{
		SyncPeriod:       &o.SyncPeriod,
		DefaultTransform: strip,
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

// strip removes the metadata that no controller reads, and that repeats the object. Users create
// hundreds of requests, whose annotations may be larger than the rest. Controllers patch what they
// cache, so it stays in the API server.
func strip(in any) (any, error) {
	obj, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	obj.SetManagedFields(nil)
	delete(obj.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	switch in.(type) {
	case *infrav1.WorkspaceApproval, *infrav1.WorkspaceOperation:
		obj.SetAnnotations(nil)
	}
	return in, nil
}

// trim removes the parts of CAPT's own Secrets that no controller reads.
func trim(in any) (any, error) {
	if secret, ok := in.(*corev1.Secret); ok {
		secret.ManagedFields = nil
		record.Trim(secret)
		switch component := secret.Labels[infrav1.ComponentLabel]; {
		case component == addonsv1.ComponentAddon:
			secret.Data = nil
		case slices.Contains(dataComponents, component) && size(secret.Data) > maxCachedData:
			for key := range secret.Data {
				secret.Data[key] = nil
			}
		}
	}
	return in, nil
}

// size returns the number of bytes of data.
func size(data map[string][]byte) int {
	n := 0
	for key, value := range data {
		n += len(key) + len(value)
	}
	return n
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
