package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/terraform/record"
)

// process is a process of a run.
type process struct {
	pid, parent int
	// workspace is the namespace and name of its workspace.
	workspace string
	// run is the run's ID. Only runners have one.
	run string
}

// processes returns the environment's runners and its OpenTofu processes.
func (w *harness) processes() (runners, tools []process) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, nil
	}
	for _, proc := range all {
		// A process may exit while it is read.
		comm, err := proc.Comm()
		if err != nil {
			continue
		}
		switch comm {
		case "runner":
			if p, ok := w.runner(proc); ok {
				runners = append(runners, p)
			}
		case "tofu":
			if p, ok := w.tool(proc); ok {
				tools = append(tools, p)
			}
		}
	}
	// A process between fork and exec still has the name of its parent.
	tools = slices.DeleteFunc(tools, func(p process) bool {
		return slices.ContainsFunc(tools, func(other process) bool { return other.pid == p.parent })
	})
	return runners, tools
}

func (w *harness) runner(proc procfs.Proc) (process, bool) {
	arguments, err := proc.CmdLine()
	if err != nil {
		return process{}, false
	}
	p, own, namespace := process{pid: proc.PID}, false, ""
	for _, argument := range arguments {
		name, value, _ := strings.Cut(argument, "=")
		switch name {
		case "--namespace":
			namespace = value
		case "--run":
			p.run = value
		case "--work-dir":
			own = value == w.workDir()
		}
	}
	// A run is named after its workspace and its number.
	p.workspace = namespace + "/" + p.run[:max(0, strings.LastIndex(p.run, "-r"))]
	return p, own
}

func (w *harness) tool(proc procfs.Proc) (process, bool) {
	cwd, err := proc.Cwd()
	if err != nil {
		return process{}, false
	}
	below, found := strings.CutPrefix(cwd, filepath.Join(w.workDir(), "workspaces")+"/")
	parts := strings.Split(below, "/")
	if !found || len(parts) < 2 {
		return process{}, false
	}
	if _, err := record.ProcessStartTime(proc.PID); err != nil {
		return process{}, false
	}
	stat, err := proc.Stat()
	if err != nil {
		return process{}, false
	}
	return process{pid: proc.PID, parent: stat.PPID, workspace: parts[0] + "/" + parts[1]}, true
}

// guard checks that no workspace has two tools at the same time.
type guard struct {
	mu    sync.Mutex
	found map[string]string
}

// scanInterval is how often the machine's processes are scanned.
const scanInterval = 60 * time.Millisecond

func (g *guard) watch(ctx context.Context, w *harness) {
	for sleep(ctx, scanInterval) {
		_, tools := w.processes()
		first := map[string]int{}
		for _, tool := range tools {
			if other, two := first[tool.workspace]; two {
				g.add(tool.workspace, other, tool.pid)
			}
			first[tool.workspace] = tool.pid
		}
	}
}

func (g *guard) add(workspace string, one, other int) {
	// The list was not read at one point in time, so both must still be running.
	for _, pid := range []int{one, other} {
		if _, err := record.ProcessStartTime(pid); err != nil {
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == nil {
		g.found = map[string]string{}
	}
	if _, known := g.found[workspace]; !known {
		g.found[workspace] = fmt.Sprintf("two tools (%d and %d) worked at the same time", one, other)
	}
}

// of returns the violations of a workspace.
func (g *guard) of(workspace string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if text, found := g.found[workspace]; found {
		return []string{text}
	}
	return nil
}
