package main

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/host"
)

// process is a process of a run.
type process struct {
	target
	// since is the time of its start.
	since  time.Time
	parent int
	// inner is its PID in its container. It is the PID of a process without container.
	inner int
	// workspace is the namespace and name of its workspace.
	workspace string
	// run is the run's ID, and pod the name of the run's pod. Only runners have them.
	run, pod string
	// command are the arguments of a tool, changes reports whether it applies or
	// destroys, and dir is its working directory.
	command string
	changes bool
	dir     string
}

// name identifies a tool in the journal.
func (p process) name() string { return fmt.Sprintf("%d@%d", p.inner, p.started) }

// processList are the processes of all runs. An init is the first process of a
// container, and the parent of its runner.
type processList struct{ inits, runners, tools, providers []process }

// toolName is the name of the tool's processes, and providerName that of its providers, which the
// kernel truncates.
const (
	toolName     = "tofu"
	providerName = "terraform-provi"
)

// processes returns the processes of the environment's runs.
func (w *harness) processes() processList {
	var list processList
	all, err := procfs.AllProcs()
	if err != nil {
		return list
	}
	for _, proc := range all {
		// A process may exit while it is read.
		comm, err := proc.Comm()
		if err != nil {
			continue
		}
		switch comm {
		// In a container, the init process starts the runner as /proc/self/exe.
		case "runner", "exe":
			p, ok := w.runner(proc)
			switch {
			case ok && p.inner == 1:
				list.inits = append(list.inits, p)
			case ok:
				list.runners = append(list.runners, p)
			}
		case toolName:
			if p, ok := w.tool(proc); ok {
				list.tools = append(list.tools, p)
			}
		case providerName:
			if p, ok := w.tool(proc); ok {
				list.providers = append(list.providers, p)
			}
		}
	}
	// A process between fork and exec still has the name of its parent.
	list.tools = slices.DeleteFunc(list.tools, func(p process) bool {
		return slices.ContainsFunc(list.tools, func(other process) bool { return other.pid == p.parent })
	})
	return list
}

// newProcess returns a process that has not exited.
func newProcess(proc procfs.Proc) (process, bool) {
	id, err := newTarget(proc.PID)
	if err != nil {
		return process{}, false
	}
	stat, err := proc.Stat()
	if err != nil {
		return process{}, false
	}
	status, err := proc.NewStatus()
	if err != nil || len(status.NSpids) == 0 {
		return process{}, false
	}
	since, err := stat.StartTime()
	if err != nil {
		return process{}, false
	}
	return process{target: id, since: time.UnixMilli(int64(since * 1000)), parent: stat.PPID, inner: int(status.NSpids[len(status.NSpids)-1])}, true
}

func (w *harness) runner(proc procfs.Proc) (process, bool) {
	arguments, err := proc.CmdLine()
	if err != nil {
		return process{}, false
	}
	p, ok := newProcess(proc)
	own, namespace := false, ""
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
	if !ok || !own {
		return process{}, false
	}
	// A run is named after its workspace and its number.
	p.workspace = namespace + "/" + p.run[:max(0, strings.LastIndex(p.run, "-r"))]
	environment, err := proc.Environ()
	for _, variable := range environment {
		if name, found := strings.CutPrefix(variable, "POD_NAME="); found {
			p.pod = name
		}
	}
	return p, err == nil
}

func (w *harness) tool(proc procfs.Proc) (process, bool) {
	cwd, err := proc.Cwd()
	if err != nil {
		return process{}, false
	}
	below, found := strings.CutPrefix(cwd, filepath.Join(w.workDir(), "workspaces")+"/")
	path := strings.Split(below, "/")
	if !found || len(path) < 2 {
		return process{}, false
	}
	// A process that is exiting has no arguments any more.
	arguments, err := proc.CmdLine()
	if err != nil || len(arguments) == 0 {
		return process{}, false
	}
	p, ok := newProcess(proc)
	p.workspace, p.dir = path[0]+"/"+path[1], cwd
	p.command = strings.Join(arguments, " ")
	p.changes = slices.Contains(arguments, "apply") || slices.Contains(arguments, "destroy")
	return p, ok
}

// runProcesses are the processes of one run. Each may be nil.
type runProcesses struct{ init, runner, tool, provider *process }

func (r runProcesses) none() bool { return r.init == nil && r.runner == nil && r.tool == nil }

// of returns the processes of the current run of a workspace.
func (l processList) of(workspace string) runProcesses {
	find := func(in []process) *process {
		if i := slices.IndexFunc(in, func(p process) bool { return p.workspace == workspace }); i >= 0 {
			return &in[i]
		}
		return nil
	}
	return runProcesses{init: find(l.inits), runner: find(l.runners), tool: find(l.tools), provider: find(l.providers)}
}

// runProcesses returns the processes of the current run.
func (a *actor) runProcesses() runProcesses { return a.processes().of(a.workspace()) }

// guard checks that no workspace has two tools at the same time, and records when each
// run was started.
type guard struct {
	mu    sync.Mutex
	found map[string]string
	// runs are the runs of each workspace, by ID and time of their start.
	runs map[string]map[startedRun]bool
	// kills are the times at which tools of a workspace were killed.
	kills map[string][]time.Time
}

func (g *guard) recordKill(workspace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kills == nil {
		g.kills = map[string][]time.Time{}
	}
	g.kills[workspace] = append(g.kills[workspace], time.Now())
}

// wasKilled reports whether a tool of a workspace was killed in a period.
func (g *guard) wasKilled(workspace string, from, to time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.kills[workspace], func(at time.Time) bool { return !at.Before(from) && at.Before(to) })
}

// startedRun is a run. Runs of two workspaces of the same name may have the same ID.
type startedRun struct {
	id    string
	since time.Time
}

// scanInterval is how often the machine's processes are scanned.
const scanInterval = 60 * time.Millisecond

func (g *guard) watch(ctx context.Context, w *harness) {
	for sleep(ctx, scanInterval) {
		list := w.processes()
		g.record(list.runners)
		for one, other := range list.conflicts() {
			g.add(list, one, other)
		}
	}
}

// conflicts returns the tools that must not work at the same time: those of one workspace.
func (l processList) conflicts() iter.Seq2[process, process] {
	return func(yield func(process, process) bool) {
		for i, one := range l.tools {
			for _, other := range l.tools[i+1:] {
				if one.workspace == other.workspace && !yield(one, other) {
					return
				}
			}
		}
	}
}

func (g *guard) record(runners []process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs == nil {
		g.runs = map[string]map[startedRun]bool{}
	}
	for _, p := range runners {
		if g.runs[p.workspace] == nil {
			g.runs[p.workspace] = map[startedRun]bool{}
		}
		g.runs[p.workspace][startedRun{p.run, p.since}] = true
	}
}

// runAt returns the last run of a workspace that was started before a time, or an empty
// string.
func (g *guard) runAt(workspace string, at time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var last startedRun
	for run := range g.runs[workspace] {
		if !run.since.After(at) && run.since.After(last.since) {
			last = run
		}
	}
	return last.id
}

// add adds two tools of one workspace.
func (g *guard) add(list processList, one, other process) {
	// The list was not read at one point in time, so both must still be running.
	for _, p := range []process{one, other} {
		if started, err := host.ProcessStartTime(p.pid); err != nil || started != p.started || !isTool(p) {
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == nil {
		g.found = map[string]string{}
	}
	if _, known := g.found[one.workspace]; !known {
		g.found[one.workspace] = fmt.Sprintf("two tools worked at the same time at %s: %s, and %s", time.Now().Format(time.TimeOnly), list.describe(one), list.describe(other))
	}
}

// describe names a tool, its command and its run.
func (l processList) describe(tool process) string {
	text := fmt.Sprintf("%s (%s)", tool.name(), tool.command)
	if i := slices.IndexFunc(l.runners, func(p process) bool { return p.pid == tool.parent }); i >= 0 {
		runner := l.runners[i]
		return strings.TrimSpace(fmt.Sprintf("%s of run %s %s", text, runner.run, runner.pod))
	}
	return text + " without a runner"
}

// isTool reports whether a process has the name of the tool, and its parent has not. A
// process between fork and exec has the name of its parent, which may be missing in the
// list of processes.
func isTool(p process) bool {
	return commandOf(p.pid) == toolName && commandOf(p.parent) != toolName
}

// commandOf returns the name of a process, or nothing if it has exited.
func commandOf(pid int) string {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	name, err := proc.Comm()
	if err != nil {
		return ""
	}
	return name
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
