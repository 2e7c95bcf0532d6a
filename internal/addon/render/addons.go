// Package addons turns an add-on and a cluster's Terraform outputs into the
// manifests that the cluster gets. It is pure: it reads nothing and decides by
// its arguments alone.
package render

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// Input is everything that decides what a cluster gets.
type Input struct {
	Addon   *addonsv1.CAPTAddon
	Cluster Cluster
	// Connection are the cluster's Terraform outputs.
	Connection map[string][]byte
	// Sources are the contents of the ConfigMaps and Secrets that manifests are
	// taken from, by the name of the set.
	Sources map[string]map[string][]byte
	// Round makes the same content be applied once more.
	Round int
}

// Cluster is what a manifest can say about the cluster it is for.
type Cluster struct {
	Name, Namespace string
	// KubernetesVersion is empty until the control plane has one.
	KubernetesVersion string
}

// Rendered is what one cluster gets.
type Rendered struct {
	// Data are the manifests by key: Cluster API applies them in the order of
	// the keys.
	Data map[string][]byte
	// Hash is what Cluster API records once it has applied the data.
	Hash string
	// Objects are in the data, in their order.
	Objects []Object
	// Secrets are the digests of the data of Secrets among the objects.
	Secrets map[Object]string
	// Release is set when the add-on has a Helm release.
	Release *Release
}

// Object is the identity of an object in a workload cluster.
type Object struct {
	schema.GroupVersionKind

	Namespace, Name string
}

// String names the object for a person.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// placeholders are the names that have a value in every cluster.
func (c Cluster) placeholders() map[string]string {
	values := map[string]string{
		"WORKSPACE_NAME": c.Name, "CLUSTER_NAME": c.Name, "CLUSTER_NAMESPACE": c.Namespace,
	}
	if c.KubernetesVersion != "" {
		values["KUBERNETES_VERSION"] = c.KubernetesVersion
	}
	return values
}

// SecretName is the name of the Secret with a cluster's Terraform outputs.
func SecretName(addon *addonsv1.CAPTAddon, cluster Cluster) (string, error) {
	name := addonsv1.DefaultConnectionSecret
	if c := addon.Spec.Connection; c != nil && c.SecretName != "" {
		name = c.SecretName
	}
	values := cluster.placeholders()
	resolved, err := placeholder.Expand(name, func(name string) (string, bool) { v, ok := values[name]; return v, ok })
	if err != nil {
		return "", fault.Stall(addonsv1.MissingKeyReason, "connection.secretName: %w", err)
	}
	return resolved, nil
}

// NeedsConnection tells whether an add-on uses Terraform outputs at all.
func NeedsConnection(addon *addonsv1.CAPTAddon) bool {
	return len(demanded(addon)) > 0 || addon.Spec.Helm != nil && len(addon.Spec.Helm.ValuesFrom) > 0
}

// demanded are the outputs that an add-on cannot do without.
func demanded(addon *addonsv1.CAPTAddon) []string {
	if addon.Spec.Connection == nil {
		return nil
	}
	return addon.Spec.Connection.Keys
}

// values are what the placeholders of the add-on stand for. Outputs are there
// only if the add-on names them, so that a manifest says what it depends on.
func (in *Input) values() (map[string]string, error) {
	values := in.Cluster.placeholders()
	for _, key := range demanded(in.Addon) {
		value, found := in.Connection[key]
		if !found {
			return nil, in.missing("connection.keys", key)
		}
		values[key] = string(value)
	}
	if in.Addon.Spec.Helm != nil {
		for _, v := range in.Addon.Spec.Helm.ValuesFrom {
			if value, found := in.Connection[v.ValuesKey]; found {
				values[v.ValuesKey] = string(value)
			} else if v.Default != nil {
				values[v.ValuesKey] = *v.Default
			}
		}
	}
	return values, nil
}

// missing says that the connection Secret has no such key, and which one was
// probably meant. It names keys, never values.
func (in *Input) missing(entry, key string) error {
	secret, err := SecretName(in.Addon, in.Cluster)
	if err != nil {
		return err
	}
	known := slices.Sorted(maps.Keys(in.Connection))
	if near, found := message.Nearest(key, known); found {
		return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s asks for %s, which Secret %s does not have: did you mean %s?", in.Addon.Name, entry, key, secret, near)
	}
	return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s asks for %s, which Secret %s does not have: add an output of that name to the template, or a default; it has %s",
		in.Addon.Name, entry, key, secret, listed(known))
}

func listed(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "no keys"
	case len(names) > most:
		return join(names[:most]) + ", …"
	default:
		return join(names)
	}
}
