//go:build !linux

package sandbox

import "os/exec"

// Check returns ErrUnavailable: only Linux has a sandbox.
func Check() error { return ErrUnavailable }

// Start returns ErrUnavailable.
func (Rules) Start(*exec.Cmd) error { return ErrUnavailable }

// Check returns ErrUnavailable.
func (Rules) Check() error { return ErrUnavailable }
