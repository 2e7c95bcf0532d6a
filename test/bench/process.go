package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory is the memory of a process, in MiB.
type memory struct {
	// now is the resident memory, anonymous excludes pages of the program's file,
	// which the system can drop at any time, and peak is the maximum.
	now, anonymous, peak float64
}

// memory returns the memory of the manager.
func (m *managerProcess) memory() (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return memory{}, fmt.Errorf("reading the manager's memory: %w", err)
	}
	var found memory
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			found.now = kib / 1024
		case "RssAnon:":
			found.anonymous = kib / 1024
		case "VmHWM:":
			found.peak = kib / 1024
		}
	}
	return found, nil
}

// Fields of /proc/PID/stat after the name, counted from 0.
const (
	statParent         = 1
	statChildrenPage   = 8
	statUser           = 11
	statSystem         = 12
	statChildrenUser   = 13
	statChildrenSystem = 14
)

// ticks is the number of clock ticks of /proc per second.
const ticks = 100

// cpu returns the CPU time of the manager itself, in seconds.
func (m *managerProcess) cpu() (float64, error) {
	fields, err := stat(m.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	return float64(fields[statUser]+fields[statSystem]) / ticks, nil
}

// children returns the number of the manager's child processes: those that exist, and
// one more if any has exited. Every process has page faults, which are added to its
// parent when it exits.
func (m *managerProcess) children() (int, error) {
	pid := m.cmd.Process.Pid
	own, err := stat(pid)
	if err != nil {
		return 0, err
	}
	count := 0
	if own[statChildrenPage] > 0 {
		count++
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	for _, dir := range dirs {
		other, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		// A process may end while it is read.
		if fields, err := stat(other); err == nil && fields[statParent] == pid {
			count++
		}
	}
	return count, nil
}

// stat returns the fields of /proc/PID/stat after the name. Fields that are not
// numbers are 0.
func stat(pid int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("reading process %d: %w", pid, err)
	}
	_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(" "))
	var numbers []int
	for field := range strings.FieldsSeq(string(rest)) {
		n, _ := strconv.Atoi(field)
		numbers = append(numbers, n)
	}
	if len(numbers) <= statChildrenSystem {
		return nil, errors.New("reading a process: unexpected format")
	}
	return numbers, nil
}
