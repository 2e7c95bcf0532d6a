package main

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// memory is the memory of a process, in MiB.
type memory struct {
	// now is the resident memory, anonymous excludes pages of the program's file,
	// which the system can drop at any time, and peak is the maximum.
	now, anonymous, peak float64
}

// memory returns the memory of the manager.
func (m *manager) memory() (memory, error) {
	proc, err := procfs.NewProc(m.PID())
	if err != nil {
		return memory{}, fmt.Errorf("reading the manager's memory: %w", err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return memory{}, fmt.Errorf("reading the manager's memory: %w", err)
	}
	mib := func(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
	return memory{now: mib(status.VmRSS), anonymous: mib(status.RssAnon), peak: mib(status.VmHWM)}, nil
}

// cpu returns the CPU time of the manager itself, in seconds.
func (m *manager) cpu() (float64, error) {
	own, err := stat(m.PID())
	return own.CPUTime(), err
}

// children returns the number of the manager's child processes: those that exist, and
// one more if any has exited. Every process has page faults, which are added to its
// parent when it exits.
func (m *manager) children() (int, error) {
	pid := m.PID()
	own, err := stat(pid)
	if err != nil {
		return 0, err
	}
	count := 0
	if own.CMinFlt > 0 {
		count++
	}
	existing, err := childrenOf(pid)
	return count + len(existing), err
}

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
