// Package quickstart tests `make quickstart`: real Cluster API, CAPT and OpenTofu, and
// a cluster with real Flux and Karpenter.
package quickstart
