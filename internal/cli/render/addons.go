package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	addonrender "github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// addons renders the add-ons for Options.Cluster.
func (r *renderer) addons() {
	found := all[*addonsv1.CAPTAddon](r)
	if len(found) == 0 {
		return
	}
	if r.Cluster == "" {
		r.note("add-ons are rendered for one cluster: pass its name with --cluster and its Terraform outputs with --outputs")
		return
	}
	for _, addon := range found {
		r.addon(addon)
	}
}

// addon renders the ClusterResourceSet of an add-on and its Secret. The content of the
// Secret is readable, and the values of Secrets in it are masked.
func (r *renderer) addon(addon *addonsv1.CAPTAddon) {
	in := addonrender.Input{
		Addon: addon, Connection: r.Outputs, Sources: map[string]map[string][]byte{}, ChartSecrets: map[string]map[string][]byte{},
		Cluster: addonrender.Cluster{Name: r.Cluster, Namespace: addon.Namespace},
	}
	if cluster := find[*clusterv1.Cluster](r, addon.Namespace, r.Cluster); cluster != nil {
		in.Cluster = addonrender.ClusterOf(cluster, nil)
	}
	in.Cluster.KubernetesVersion = r.version(addon.Namespace)
	for _, m := range addon.Spec.Manifests {
		if m.Inline != "" {
			continue
		}
		data, found := r.source(addon.Namespace, m)
		if !found {
			r.note("the source of manifests %[2]s of CAPTAddon %[1]s is not among the manifests", addon.Name, m.Name)
			return
		}
		in.Sources[m.Name] = data
	}
	for _, name := range addonrender.ChartSecretNames(addon) {
		data, found := r.source(addon.Namespace, addonsv1.ManifestSource{SecretRef: &infrav1.LocalReference{Name: name}})
		if !found {
			r.note("Secret %[2]s of the chart of CAPTAddon %[1]s is not among the manifests", addon.Name, name)
			return
		}
		in.ChartSecrets[name] = data
	}
	rendered, err := addonrender.Render(in)
	if err != nil {
		if stalled, found := fault.AsStalled(err); found {
			err = errors.New(stalled.Message())
		}
		r.out.Problems = append(r.out.Problems, Problem{Object: addon, Message: err.Error()})
		return
	}
	secret := addonrender.Secret(addon, r.Cluster, rendered, 0, time.Time{})
	secret.Annotations, secret.Data, secret.StringData = nil, nil, map[string]string{}
	for key, text := range rendered.Data {
		masked, err := maskSecrets(text)
		r.problem(addon, err)
		secret.StringData[key] = masked
	}
	r.out.Objects = append(r.out.Objects, addonrender.ResourceSet(addon, r.Cluster), secret)
}

// maskSecrets returns manifests with the values of Secrets masked.
func maskSecrets(text []byte) (string, error) {
	objects, err := manifest.Parse(text)
	if err != nil {
		return "", fmt.Errorf("reading the rendered add-on: %w", err)
	}
	var masked strings.Builder
	for _, obj := range objects {
		if obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1" {
			values := map[string]any{}
			for _, field := range []string{"data", "stringData"} {
				keys, _ := obj.Object[field].(map[string]any)
				for key := range keys {
					values[key] = "(sensitive)"
				}
				delete(obj.Object, field)
			}
			obj.Object["stringData"] = values
		}
		document, err := yaml.Marshal(obj.Object)
		if err != nil {
			return "", fmt.Errorf("writing the rendered add-on: %w", err)
		}
		masked.WriteString("---\n")
		masked.Write(document)
	}
	return masked.String(), nil
}

// version returns the Kubernetes version of the cluster, or an empty string if the
// cluster is not among the manifests.
func (r *renderer) version(namespace string) string {
	cluster := find[*clusterv1.Cluster](r, namespace, r.Cluster)
	if cluster == nil {
		return ""
	}
	if plane := find[*controlplanev1.CAPTControlPlane](r, namespace, cluster.Spec.ControlPlaneRef.Name); plane != nil {
		return plane.Spec.Version
	}
	return cluster.Spec.Topology.Version
}

// source returns the content of the ConfigMap or Secret with manifests.
func (r *renderer) source(namespace string, m addonsv1.ManifestSource) (map[string][]byte, bool) {
	switch {
	case m.ConfigMapRef != nil:
		if found := find[*corev1.ConfigMap](r, namespace, m.ConfigMapRef.Name); found != nil {
			return object.ConfigMapData(found), true
		}
	case m.SecretRef != nil:
		if found := find[*corev1.Secret](r, namespace, m.SecretRef.Name); found != nil {
			return SecretData(found), true
		}
	}
	return nil, false
}

// SecretData returns the data of a Secret as the API server would store it.
func SecretData(secret *corev1.Secret) map[string][]byte {
	data := map[string][]byte{}
	maps.Copy(data, secret.Data)
	for key, text := range secret.StringData {
		data[key] = []byte(text)
	}
	return data
}

// Outputs parses Terraform outputs: the manifest of a connection Secret, the output of
// terraform output -json, or a plain map. The values have the form of a connection
// Secret: strings are unquoted, others are JSON.
func Outputs(text []byte) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := yaml.Unmarshal(text, &secret); err == nil && secret.Kind == "Secret" {
		return SecretData(&secret), nil
	}
	var values map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &values); err != nil || values == nil {
		return nil, errors.New("the outputs are not a mapping: pass a connection Secret, or the output of terraform output -json")
	}
	outputs := map[string][]byte{}
	for name, raw := range values {
		var printed struct {
			Value     json.RawMessage `json:"value"`
			Sensitive *bool           `json:"sensitive"`
		}
		// Terraform prints the field sensitive for every output.
		if err := json.Unmarshal(raw, &printed); err == nil && printed.Sensitive != nil {
			raw = printed.Value
		}
		value, err := secretValue(raw)
		if err != nil {
			return nil, fmt.Errorf("reading output %s: %w", name, err)
		}
		outputs[name] = value
	}
	return outputs, nil
}

// secretValue returns a JSON value in the form of a connection Secret.
func secretValue(raw json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return []byte(text), nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
