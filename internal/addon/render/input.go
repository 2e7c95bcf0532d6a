package render

import (
	"cmp"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// Input is everything that the manifests of a cluster depend on.
type Input struct {
	Addon   *addonsv1.CAPTAddon
	Cluster Cluster
	// Connection are the Terraform outputs of the cluster. Those that the add-on does not use need
	// no value.
	Connection map[string][]byte
	// Sources are the contents of the referenced ConfigMaps and Secrets, by the
	// name of the manifest source.
	Sources map[string]map[string][]byte
	// ChartSecrets are the contents of the Secrets of ChartSecretNames, by name.
	ChartSecrets map[string]map[string][]byte
	// Round is part of the output. A higher one makes Cluster API reapply the same
	// content.
	Round int
}

// Cluster contains the fields of a cluster that manifests can refer to.
type Cluster struct {
	Name, Namespace string
	// Workspace is the workspace of the control plane. Empty means that it has the
	// name of the cluster.
	Workspace string
	// ConnectionSecret is the Secret with the outputs of the control plane. Empty
	// means that it has the default name.
	ConnectionSecret string
	// KubernetesVersion is empty until the control plane reports one.
	KubernetesVersion string
	// Labels and Annotations are those of the Cluster, and Variables those of its topology,
	// as JSON.
	Labels, Annotations map[string]string
	Variables           map[string][]byte
}

// ClusterOf returns the fields of a Cluster. The control plane is nil if it is of
// another provider.
func ClusterOf(cluster *clusterv1.Cluster, controlPlane *controlplanev1.CAPTControlPlane) Cluster {
	c := Cluster{
		Name: cluster.Name, Namespace: cluster.Namespace, KubernetesVersion: cluster.Spec.Topology.Version,
		Labels: cluster.Labels, Annotations: cluster.Annotations, Variables: map[string][]byte{},
	}
	for i := range cluster.Spec.Topology.Variables {
		c.Variables[cluster.Spec.Topology.Variables[i].Name] = cluster.Spec.Topology.Variables[i].Value.Raw
	}
	if status := cluster.Status.ControlPlane; status != nil && len(status.Versions) > 0 {
		// Cluster API sorts them, and the oldest one is what add-ons have to support.
		c.KubernetesVersion = status.Versions[0].Version
	}
	if controlPlane == nil {
		return c
	}
	c.ConnectionSecret = controlPlane.Status.ConnectionSecretName
	if ref := controlPlane.Status.WorkspaceRef; ref != nil {
		c.Workspace = ref.Name
	}
	if version := controlPlane.Status.Version; version != "" {
		c.KubernetesVersion = version
	}
	return c
}

// placeholders returns the placeholders that every cluster has, with their
// values.
func (c Cluster) placeholders() map[string]string {
	values := map[string]string{
		"WORKSPACE_NAME": cmp.Or(c.Workspace, c.Name), "CLUSTER_NAME": c.Name, "CLUSTER_NAMESPACE": c.Namespace,
	}
	if c.KubernetesVersion != "" {
		values["KUBERNETES_VERSION"] = c.KubernetesVersion
	}
	return values
}

// ConnectionSecretName returns the name of the Secret with the Terraform outputs
// of a cluster.
func ConnectionSecretName(addon *addonsv1.CAPTAddon, cluster Cluster) (string, error) {
	name := addonsv1.DefaultConnectionSecret
	switch c := addon.Spec.Connection; {
	case c != nil && c.SecretName != "":
		name = c.SecretName
	case cluster.ConnectionSecret != "":
		return cluster.ConnectionSecret, nil
	}
	resolved, err := placeholder.Expand(name, lookup(cluster.placeholders()))
	if err != nil {
		return "", fault.Stall(addonsv1.MissingKeyReason, "connection.secretName: %w", err)
	}
	return resolved, nil
}

func lookup(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, found := values[name]
		return value, found
	}
}

// NeedsConnection reports whether an add-on uses Terraform outputs.
func NeedsConnection(addon *addonsv1.CAPTAddon) bool {
	return len(requiredKeys(addon)) > 0 || addon.Spec.Helm != nil && len(addon.Spec.Helm.ValuesFrom) > 0
}

// RequiresOutput reports whether an add-on cannot be rendered without a Terraform output.
func RequiresOutput(addon *addonsv1.CAPTAddon) bool {
	return len(requiredKeys(addon)) > 0 || addon.Spec.Helm != nil && slices.ContainsFunc(addon.Spec.Helm.ValuesFrom, func(v addonsv1.OutputValue) bool {
		return v.Default == nil && (v.Optional == nil || !*v.Optional)
	})
}

// UsesOutput reports whether an add-on uses a Terraform output.
func UsesOutput(addon *addonsv1.CAPTAddon, key string) bool {
	return slices.Contains(requiredKeys(addon), key) || addon.Spec.Helm != nil &&
		slices.ContainsFunc(addon.Spec.Helm.ValuesFrom, func(v addonsv1.OutputValue) bool { return v.ValuesKey == key })
}

// requiredKeys returns the outputs that must exist.
func requiredKeys(addon *addonsv1.CAPTAddon) []string {
	if addon.Spec.Connection == nil {
		return nil
	}
	return addon.Spec.Connection.Keys
}

// placeholders returns the values of all placeholders. Only outputs that the
// add-on lists are among them, so that the spec names everything a manifest
// depends on.
func (in *Input) placeholders() (map[string]string, error) {
	values, err := in.clusterValues()
	if err != nil {
		return nil, err
	}
	maps.Copy(values, in.Cluster.placeholders())
	for _, key := range requiredKeys(in.Addon) {
		value, found := in.Connection[key]
		if !found {
			return nil, in.missingKey("connection.keys", key)
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

// missingKey returns the fault of a key that the connection Secret does not
// have. It names keys, never values.
func (in *Input) missingKey(entry, key string) error {
	secret, err := ConnectionSecretName(in.Addon, in.Cluster)
	if err != nil {
		return err
	}
	const maxKeys = 12
	known := slices.Sorted(maps.Keys(in.Connection))
	if near, found := message.Nearest(key, known); found {
		return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s refers to key %s, which Secret %s does not have: did you mean %s?", in.Addon.Name, entry, key, secret, near)
	}
	keys := "no keys"
	if len(known) > 0 {
		keys = message.List(known, maxKeys)
	}
	return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s refers to key %s, which Secret %s does not have: add an output of that name to the template, or a default. The Secret has %s",
		in.Addon.Name, entry, key, secret, keys)
}
