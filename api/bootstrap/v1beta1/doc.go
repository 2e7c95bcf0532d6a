// Package v1beta1 holds the kinds of bootstrap.cluster.x-k8s.io/v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1beta1
