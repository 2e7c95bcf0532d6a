// Package v1beta1 holds the kinds of infrastructure.cluster.x-k8s.io/v1beta1:
// clusters, machines, machine pools, and the Terraform workspaces behind them.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
