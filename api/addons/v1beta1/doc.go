// Package v1beta1 holds the kinds of addons.cluster.x-k8s.io/v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=addons.cluster.x-k8s.io
package v1beta1
