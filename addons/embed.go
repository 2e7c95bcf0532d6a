// Package addons holds the built-in add-ons, CAPTAddons that users can read and
// copy, and the matrix of versions that fit together.
package addons

import "embed"

// VersionsFile is the name of the version matrix.
const VersionsFile = "versions.yaml"

// Files holds one CAPTAddon per file, and the version matrix. The manifests of
// other projects that an add-on names by a ConfigMap are not here: make addons
// renders them.
//
//go:embed *.yaml
var Files embed.FS
