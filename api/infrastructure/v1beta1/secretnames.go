package v1beta1

import (
	"slices"
	"strings"
)

// reservedPrefixes start the names of the Secrets that CAPT and Helm create.
var reservedPrefixes = []string{
	"capt-run-", "capt-plan-", "capt-snapshot-", "capt-rescue-", "capt-module-", "capt-input-", "capt-output-", "capt-token-",
	"tfstate-", "sh.helm.release.",
}

// reservedNames are the names of single Secrets that CAPT creates.
var reservedNames = []string{"capt-seal-key", "capt-serving-cert"}

// clusterSuffixes end the names of the Secrets that Cluster API finds by the name of a
// cluster.
var clusterSuffixes = []string{"-kubeconfig", "-ca", "-etcd", "-sa", "-proxy", "-apiserver-etcd-client"}

// IsReservedSecretName reports whether a Secret of this name belongs to CAPT's engine: no
// user's object may choose it.
func IsReservedSecretName(name string) bool {
	return slices.Contains(reservedNames, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// IsClusterSecretName reports whether Cluster API reads a Secret of this name for a
// cluster: its kubeconfig, certificates and keys.
func IsClusterSecretName(name string) bool {
	return slices.ContainsFunc(clusterSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}
