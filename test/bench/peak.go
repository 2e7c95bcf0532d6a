package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// tools are the programs of a run, by the name that the kernel keeps, which is short.
var tools = []string{"runner", "tofu", "terraform-provi"}

// sampleInterval is how often memory is sampled.
const sampleInterval = 50 * time.Millisecond

// peak samples the memory of the runs of an environment, and keeps that of the largest.
type peak struct {
	dir     string
	stop    func()
	sampler sync.WaitGroup
	bytes   uint64
}

// startPeak samples the runs that this process and its children have started, and those
// in containers of an environment with a directory.
func startPeak(dir string) *peak {
	stop := make(chan struct{})
	p := &peak{dir: dir, stop: sync.OnceFunc(func() { close(stop) })}
	p.sampler.Go(func() {
		ticker := time.NewTicker(sampleInterval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				p.bytes = max(p.bytes, p.largest())
			}
		}
	})
	return p
}

// end ends the sampling and returns the most memory that one run had, in MiB. It can be
// called again.
func (p *peak) end() float64 {
	p.stop()
	p.sampler.Wait()
	return float64(p.bytes) / (1 << 20)
}

// largest returns the memory of the run that has most of it now. Pages that processes
// share, such as those of the tool of two runs, count in equal parts for each of them.
func (p *peak) largest() uint64 {
	// Processes that end while they are read count as nothing.
	all, err := procfs.AllProcs()
	if err != nil {
		return 0
	}
	byPID, processes := map[int]procfs.Proc{}, map[int]process{}
	for _, each := range all {
		if stat, err := each.Stat(); err == nil {
			byPID[each.PID], processes[each.PID] = each, process{parent: stat.PPID, name: stat.Comm}
		}
	}
	var largest uint64
	for _, run := range toolsByRun(processes, func(pid int) bool { return pid == os.Getpid() || p.isShim(byPID[pid]) }) {
		var total uint64
		for _, pid := range run {
			if rollup, err := byPID[pid].ProcSMapsRollup(); err == nil {
				total += rollup.Pss
			}
		}
		largest = max(largest, total)
	}
	return largest
}

// isShim reports whether a process is the parent of a container of the environment. It is
// not a child of this process, but its arguments contain containerd's socket.
func (p *peak) isShim(candidate procfs.Proc) bool {
	name, err := candidate.Comm()
	if err != nil || !strings.HasPrefix(name, "containerd-shim") {
		return false
	}
	args, err := candidate.CmdLine()
	return err == nil && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, p.dir+string(os.PathSeparator)) })
}

// process is what the kernel knows about a process.
type process struct {
	parent int
	name   string
}

// toolsByRun returns the tools of each run below the processes that start runs. A tool that
// no other tool has started begins a run.
func toolsByRun(processes map[int]process, starts func(pid int) bool) [][]int {
	runs := map[int][]int{}
	for pid, p := range processes {
		if !slices.Contains(tools, p.name) {
			continue
		}
		first, at := pid, pid
		for at > 0 && !starts(at) {
			if slices.Contains(tools, processes[at].name) {
				first = at
			}
			at = processes[at].parent
		}
		if at > 0 {
			runs[first] = append(runs[first], pid)
		}
	}
	return slices.Collect(maps.Values(runs))
}
