// Package crd holds CAPT's CRDs for programs that check manifests without a
// cluster.
package crd

import "embed"

// Bases are the CRDs as they are generated, in the directory bases.
//
//go:embed bases/*.yaml
var Bases embed.FS
