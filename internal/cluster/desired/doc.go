// Package desired computes the workspaces that clusters, control planes and
// nodes want: the template, its variables and the outputs that must exist. It
// reads nothing from an API server, so controllers and captctl render share it.
package desired
