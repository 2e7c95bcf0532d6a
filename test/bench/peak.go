package main

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// tools are the programs of a run, by the name that the kernel keeps, which is short.
var tools = []string{"runner", "tofu", "terraform-provi"}

// sampleInterval is how often memory is sampled.
const sampleInterval = 50 * time.Millisecond

// peak samples the memory of all tools that this process and its children have started.
type peak struct {
	stop    chan struct{}
	sampler sync.WaitGroup
	bytes   uint64
}

func startPeak() *peak {
	p := &peak{stop: make(chan struct{})}
	p.sampler.Go(func() {
		ticker := time.NewTicker(sampleInterval)
		defer ticker.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-ticker.C:
				p.bytes = max(p.bytes, toolMemory())
			}
		}
	})
	return p
}

// perRun ends the sampling and returns the peak, divided by the runs at a time, in MiB.
func (p *peak) perRun() float64 {
	close(p.stop)
	p.sampler.Wait()
	return float64(p.bytes) / parallelism / (1 << 20)
}

// toolMemory returns the memory of the tools. Pages that processes share count once.
func toolMemory() uint64 {
	// Processes that end while they are read count as nothing.
	processes, err := procfs.AllProcs()
	if err != nil {
		return 0
	}
	parents, names := map[int]int{}, map[int]string{}
	for _, process := range processes {
		if stat, err := process.Stat(); err == nil {
			parents[process.PID], names[process.PID] = stat.PPID, stat.Comm
		}
	}
	var total uint64
	for _, process := range processes {
		if !slices.Contains(tools, names[process.PID]) || !descends(parents, process.PID, os.Getpid()) {
			continue
		}
		if rollup, err := process.ProcSMapsRollup(); err == nil {
			total += rollup.Pss
		}
	}
	return total
}

func descends(parents map[int]int, pid, from int) bool {
	for pid > 1 && pid != from {
		pid = parents[pid]
	}
	return pid == from
}
