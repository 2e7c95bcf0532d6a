// Package desired computes the desired workspaces of clusters, control planes and
// nodes: the template, its variables and the outputs that must exist. It
// reads nothing from an API server, so controllers and captctl render share it.
package desired
