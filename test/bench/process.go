package main

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// stat returns what the kernel knows about a process.
func stat(pid int) (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return proc.Stat()
}

// childrenOf returns the child processes of a process.
func childrenOf(pid int) ([]procfs.ProcStat, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var children []procfs.ProcStat
	for _, proc := range all {
		// A process may end while it is read.
		if found, err := proc.Stat(); err == nil && found.PPID == pid {
			children = append(children, found)
		}
	}
	return children, nil
}
