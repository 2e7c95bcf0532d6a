package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// group is a control group with the memory limit of a container. Its zero value has none.
type group struct {
	path, usage, inactive string
	// outside is the group of the test.
	outside string

	mutex sync.Mutex
	// peak is the largest working set so far, in MiB.
	peak float64
}

// newGroup creates a control group. It returns the zero value where this user cannot.
func newGroup(t *testing.T, limit uint64) *group {
	t.Helper()
	for _, version := range []struct{ controller, root, limit, usage, inactive string }{
		{"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
		{"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
	} {
		path, err := os.MkdirTemp(version.root, "capt-fleet-")
		if err != nil {
			continue
		}
		// The directory has files only if it is a control group.
		file, err := os.OpenFile(filepath.Join(path, version.limit), os.O_WRONLY, 0)
		if err == nil {
			_, err = fmt.Fprint(file, limit)
			_ = file.Close()
		}
		if err != nil {
			_ = os.Remove(path)
			continue
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return &group{
			path: path, usage: filepath.Join(path, version.usage), inactive: version.inactive,
			outside: filepath.Join(version.root, ownGroup(t, version.controller), "cgroup.procs"),
		}
	}
	t.Log("This user cannot create control groups: the memory limit is not enforced")
	return &group{}
}

// ownGroup returns the path of the test's own group below that of a controller.
func ownGroup(t *testing.T, controller string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 && fields[1] == controller {
			return fields[2]
		}
	}
	return "/"
}

func (g *group) exists() bool { return g.path != "" }

// command returns the command that runs a program in the group.
func (g *group) command(program string, args []string) []string {
	if !g.exists() {
		return append([]string{program}, args...)
	}
	return append([]string{"/bin/sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.path, "cgroup.procs"), program}, args...)
}

// outsider writes a program that runs another one in the group of the test: in a cluster, runs
// are pods of their own.
func (g *group) outsider(t *testing.T, program string) string {
	t.Helper()
	if !g.exists() {
		return program
	}
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	text := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\nexec '%s' \"$@\"\n", g.outside, program)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// observe measures the working set until the channel is closed.
func (g *group) observe(done <-chan struct{}) {
	if !g.exists() {
		return
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		g.workingSet()
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}

// workingSet returns what a kubelet measures for a container, in MiB: all memory of the group
// apart from pages of files that were not used lately.
func (g *group) workingSet() float64 {
	if !g.exists() {
		return 0
	}
	usage, _ := os.ReadFile(g.usage)
	stat, _ := os.ReadFile(filepath.Join(g.path, "memory.stat"))
	bytes, _ := strconv.ParseFloat(strings.TrimSpace(string(usage)), 64)
	for line := range strings.Lines(string(stat)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == g.inactive {
			inactive, _ := strconv.ParseFloat(value, 64)
			bytes -= inactive
		}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.peak = max(g.peak, bytes/(1<<20))
	return bytes / (1 << 20)
}

// peakMiB returns the largest working set so far.
func (g *group) peakMiB() float64 {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.peak
}
