package captaddon

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// renderData reads the sources of the add-on and renders it for a cluster, including the manifests.
func (r *Reconciler) renderData(ctx context.Context, s *scope, in *installation, round int) (*render.Rendered, error) {
	sources := &sourceReader{live: r.Live, addon: s.addon}
	input := render.Input{
		Addon: s.addon, Cluster: in.renderCluster(), Round: round, Sources: map[string]map[string][]byte{}, ChartSecrets: map[string]map[string][]byte{},
	}
	if render.NeedsConnection(s.addon) {
		name, err := render.ConnectionSecretName(s.addon, input.Cluster)
		if err != nil {
			return nil, err
		}
		input.Connection, err = sources.connection(ctx, name)
		if err := in.tolerate(s.addon, err); err != nil {
			return nil, err
		}
	}
	for _, m := range s.addon.Spec.Manifests {
		var err error
		switch {
		case m.ConfigMapRef != nil:
			input.Sources[m.Name], err = sources.configMap(ctx, s.sources(), m.ConfigMapRef.Name)
		case m.SecretRef != nil:
			input.Sources[m.Name], err = sources.secret(ctx, s.sources(), m.SecretRef.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range render.ChartSecretNames(s.addon) {
		var err error
		if input.ChartSecrets[name], err = sources.secret(ctx, s.sources(), name); err != nil {
			return nil, err
		}
	}
	return render.Render(input)
}

// sourceReader reads what an add-on is rendered from, and ends when that is too much.
type sourceReader struct {
	live  client.Reader
	addon *addonsv1.CAPTAddon
	size  int
}

// connection returns the outputs of the connection Secret. Only those that the add-on uses have a
// value.
func (r *sourceReader) connection(ctx context.Context, name string) (map[string][]byte, error) {
	data, err := secretData(ctx, r.live, r.addon.Namespace, name, addonsv1.WaitingForConnectionSecretReason)
	if err != nil {
		return nil, err
	}
	for key := range data {
		if !render.UsesOutput(r.addon, key) {
			data[key] = nil
		}
	}
	return r.add("Secret "+name, data)
}

func (r *sourceReader) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	data, err := secretData(ctx, r.live, namespace, name, addonsv1.SourceNotFoundReason)
	if err != nil {
		return nil, err
	}
	return r.add("Secret "+name, data)
}

func (r *sourceReader) configMap(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	var configMap corev1.ConfigMap
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap); err != nil {
		return nil, reconcile.WaitIfNotFound(err, addonsv1.SourceNotFoundReason, "ConfigMap "+name, "")
	}
	return r.add("ConfigMap "+name, object.ConfigMapData(&configMap))
}

// entrySize is what an entry needs beside its key and value.
const entrySize = 64

// add returns the data of an object, or a fault if there is too much of it.
func (r *sourceReader) add(name string, data map[string][]byte) (map[string][]byte, error) {
	for key, value := range data {
		r.size += len(key) + len(value) + entrySize
	}
	if r.size > render.MaxSources {
		return nil, fault.Stall(addonsv1.TooLargeReason, "Add-on %s: with %s, it is made of more than %d KiB, the limit: split it into two add-ons with dependsOn, or remove keys that it does not need",
			r.addon.Name, name, render.MaxSources>>10)
	}
	return data, nil
}

func secretData(ctx context.Context, live client.Reader, namespace, name, reason string) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, reconcile.WaitIfNotFound(err, reason, "Secret "+name, "")
	}
	return secret.Data, nil
}
