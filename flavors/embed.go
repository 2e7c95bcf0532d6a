// Package flavors holds the templates of clusters that clusterctl and captctl
// generate from. cluster-template.yaml is the one that is taken when none is
// named; it is also called eks.
package flavors

import "embed"

// Files are the templates.
//
//go:embed cluster-template*.yaml
var Files embed.FS
