package command

import "syscall"

// processAttributes gives the tool a process group of its own, so that a
// signal to the engine's group does not reach it as well, and has the kernel
// interrupt it when the engine dies without having stopped it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
}
