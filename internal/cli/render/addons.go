package render

import (
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
	addonrender "github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// addons renders add-ons for the cluster that was named.
func (r *renderer) addons() {
	found := all[*addonsv1.CAPTAddon](r)
	if len(found) == 0 {
		return
	}
	if r.Cluster == "" {
		r.note("add-ons are rendered for one cluster: name it by --cluster, with its Terraform outputs by --outputs")
		return
	}
	for _, addon := range found {
		r.addon(addon)
	}
}

// addon shows the ClusterResourceSet of an add-on and its Secret, whose texts
// are shown as such.
func (r *renderer) addon(addon *addonsv1.CAPTAddon) {
	in := addonrender.Input{
		Addon: addon, Connection: r.Outputs, Sources: map[string]map[string][]byte{},
		Cluster: addonrender.Cluster{Name: r.Cluster, Namespace: addon.Namespace, KubernetesVersion: r.version(addon.Namespace)},
	}
	for _, m := range addon.Spec.Manifests {
		if m.Inline != "" {
			continue
		}
		data, found := r.source(addon.Namespace, m)
		if !found {
			r.note("CAPTAddon %s: where its manifests %s come from is not among the given manifests", addon.Name, m.Name)
			return
		}
		in.Sources[m.Name] = data
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
		shown, err := veiled(text)
		r.problem(addon, err)
		secret.StringData[key] = shown
	}
	r.out.Objects = append(r.out.Objects, addonrender.ResourceSet(addon, r.Cluster), secret)
}

// veiled is the text of manifests without the values of Secrets among them.
func veiled(text []byte) (string, error) {
	objects, err := manifest.Parse(text)
	if err != nil {
		return "", fmt.Errorf("reading what was rendered: %w", err)
	}
	var shown strings.Builder
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
			return "", fmt.Errorf("writing what was rendered: %w", err)
		}
		shown.WriteString("---\n")
		shown.Write(document)
	}
	return shown.String(), nil
}

// version is the Kubernetes version of the cluster, if it is given.
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

// source is the content of the ConfigMap or Secret with manifests.
func (r *renderer) source(namespace string, m addonsv1.ManifestSource) (map[string][]byte, bool) {
	data := map[string][]byte{}
	switch {
	case m.ConfigMapRef != nil:
		found := find[*corev1.ConfigMap](r, namespace, m.ConfigMapRef.Name)
		if found == nil {
			return nil, false
		}
		for key, text := range found.Data {
			data[key] = []byte(text)
		}
	case m.SecretRef != nil:
		found := find[*corev1.Secret](r, namespace, m.SecretRef.Name)
		if found == nil {
			return nil, false
		}
		for key, text := range found.StringData {
			data[key] = []byte(text)
		}
		maps.Copy(data, found.Data)
	}
	return data, true
}
