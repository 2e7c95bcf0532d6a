package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
)

// cpuTimes is CPU time in seconds, by process.
type cpuTimes struct {
	// Manager is the time of the manager, or 0 without one.
	Manager float64 `json:"manager"`
	// Tool is the time of the tool and of the runner, if there is one.
	Tool      float64 `json:"tool"`
	APIServer float64 `json:"apiServer"`
	Etcd      float64 `json:"etcd"`
}

// add adds the difference of two samples.
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

// cpuOf returns the CPU time so far of the manager's children, which are the tool and
// runners, and of the API server. manager is 0 if this process runs the tool itself.
func cpuOf(manager int) (cpuTimes, error) {
	var c cpuTimes
	parent := os.Getpid()
	if manager != 0 {
		parent = manager
		own, err := stat(manager)
		if err != nil {
			return c, err
		}
		c.Manager = own.CPUTime()
	}
	own, err := stat(parent)
	if err != nil {
		return c, err
	}
	c.Tool = float64(own.CUTime+own.CSTime) / ticks
	children, err := childrenOf(os.Getpid())
	for _, child := range children {
		switch child.Comm {
		case "kube-apiserver":
			c.APIServer += child.CPUTime()
		case "etcd":
			c.Etcd += child.CPUTime()
		}
	}
	return c, err
}

// ticks is the number of clock ticks of /proc per second.
const ticks = 100

// requestRates are requests to the API server, by verb and resource.
type requestRates map[string]float64

func (r requestRates) divide(n float64) {
	for what := range r {
		r[what] = math.Round(r[what]/n*100) / 100
	}
}

// String lists the requests of an apply, the most frequent first.
func (r requestRates) String() string {
	var parts []string
	total := 0.0
	for _, what := range slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Compare(r[b], r[a]) }) {
		total += r[what]
		if r[what] >= 0.5 {
			parts = append(parts, fmt.Sprintf("%.1f %s", r[what], what))
		}
	}
	return fmt.Sprintf("%.1f: %s", total, strings.Join(parts, ", "))
}

// account adds the CPU time and the requests of a turn to the totals.
func (h *harness) account(ctx context.Context, total *cpuTimes, rates requestRates, manager int, turn func() error) error {
	requestsBefore, err := h.requests(ctx)
	if err != nil {
		return err
	}
	before, err := cpuOf(manager)
	if err != nil {
		return err
	}
	if err := turn(); err != nil {
		return err
	}
	after, err := cpuOf(manager)
	if err != nil {
		return err
	}
	total.add(before, after)
	requestsAfter, err := h.requests(ctx)
	for what, n := range difference(requestsBefore, requestsAfter) {
		rates[what] += float64(n)
	}
	return err
}
