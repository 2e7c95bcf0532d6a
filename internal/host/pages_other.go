//go:build !linux

package host

// ReleasePages does nothing on this operating system.
func ReleasePages() error { return nil }
