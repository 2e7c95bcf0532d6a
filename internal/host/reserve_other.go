//go:build !linux

package host

import "os"

// Reserve does nothing: only Linux runs workspaces.
func Reserve(*os.File, int64) error { return nil }
