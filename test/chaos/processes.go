package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/terraform/record"
)

// process is one of this machine.
type process struct {
	pid, parent int
	// workspace is the namespace and name of the workspace that it works for.
	workspace string
	// run is the run's ID, where it is a runner.
	run string
}

// processes returns the environment's runners and its processes of OpenTofu.
func (w *harness) processes() (runners, tools []process) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, nil
	}
	for _, dir := range dirs {
		// A process may end while it is read.
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		switch strings.TrimSpace(string(comm)) {
		case "runner":
			if p, ok := w.runner(dir, pid); ok {
				runners = append(runners, p)
			}
		case "tofu":
			if p, ok := w.tool(dir, pid); ok {
				tools = append(tools, p)
			}
		}
	}
	// A process that is about to become another still has its parent's name.
	tools = slices.DeleteFunc(tools, func(p process) bool {
		return slices.ContainsFunc(tools, func(other process) bool { return other.pid == p.parent })
	})
	return runners, tools
}

func (w *harness) runner(dir string, pid int) (process, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return process{}, false
	}
	p, own, namespace := process{pid: pid}, false, ""
	for argument := range bytes.SplitSeq(text, []byte{0}) {
		name, value, _ := strings.Cut(string(argument), "=")
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

func (w *harness) tool(dir string, pid int) (process, bool) {
	cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
	if err != nil {
		return process{}, false
	}
	below, found := strings.CutPrefix(cwd, filepath.Join(w.workDir(), "workspaces")+"/")
	parts := strings.Split(below, "/")
	if !found || len(parts) < 2 {
		return process{}, false
	}
	if _, err := record.ProcessStartTime(pid); err != nil {
		return process{}, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid, workspace: parts[0] + "/" + parts[1]}
	var state string
	_, _ = fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &p.parent)
	return p, true
}

// guard watches that no workspace has two tools at once.
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
	// Both must still be there: the list was not read in one moment.
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
		g.found[workspace] = fmt.Sprintf("two tools (%d and %d) worked at once", one, other)
	}
}

// of returns what was seen of a workspace.
func (g *guard) of(workspace string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if text, found := g.found[workspace]; found {
		return []string{text}
	}
	return nil
}
