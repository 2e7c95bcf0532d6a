package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cpuTimes is CPU time in seconds, by who used it.
type cpuTimes struct {
	// Manager is the manager itself; without one it is 0.
	Manager float64 `json:"manager"`
	// Tool is the tool, and the runner where there is one.
	Tool      float64 `json:"tool"`
	APIServer float64 `json:"apiServer"`
	Etcd      float64 `json:"etcd"`
}

// add adds what was used between two moments.
func (c *cpuTimes) add(before, after cpuTimes) {
	c.Manager += after.Manager - before.Manager
	c.Tool += after.Tool - before.Tool
	c.APIServer += after.APIServer - before.APIServer
	c.Etcd += after.Etcd - before.Etcd
}

func (c *cpuTimes) divide(n float64) {
	c.Manager /= n
	c.Tool /= n
	c.APIServer /= n
	c.Etcd /= n
}

func (c cpuTimes) total() float64 { return c.Manager + c.Tool + c.APIServer + c.Etcd }

func (c cpuTimes) String() string {
	return fmt.Sprintf("manager %.1f, tool %.1f, API server %.1f, etcd %.1f", c.Manager, c.Tool, c.APIServer, c.Etcd)
}

// cpuOf tells the CPU time used so far: by the children of a process, which are
// the tool or runners, and by the API server. manager is 0 when the tool is run
// by this process itself.
func cpuOf(manager int) (cpuTimes, error) {
	var c cpuTimes
	parent := os.Getpid()
	if manager != 0 {
		parent = manager
		own, err := stat(manager)
		if err != nil {
			return c, err
		}
		c.Manager = float64(own[statUser]+own[statSystem]) / ticks
	}
	own, err := stat(parent)
	if err != nil {
		return c, err
	}
	c.Tool = float64(own[statChildrenUser]+own[statChildrenSystem]) / ticks
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return c, fmt.Errorf("listing processes: %w", err)
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		// A process may end while it is looked at.
		fields, err := stat(pid)
		if err != nil || fields[statParent] != os.Getpid() {
			continue
		}
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue
		}
		used := float64(fields[statUser]+fields[statSystem]) / ticks
		switch strings.TrimSpace(string(name)) {
		case "kube-apiserver":
			c.APIServer += used
		case "etcd":
			c.Etcd += used
		}
	}
	return c, nil
}
