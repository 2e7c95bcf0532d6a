//go:build unix && !linux

package command

import "syscall"

// processAttributes gives the tool a process group of its own, so that a
// signal to the engine's group does not reach it as well.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
