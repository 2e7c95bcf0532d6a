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

// memory is what a process has in memory, in MiB.
type memory struct {
	// now is all of it; anonymous leaves out the pages of the program's own
	// file, which the system can drop at any time. peak is the most it had.
	now, anonymous, peak float64
}

// memory returns what the manager has in memory.
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

// ticks is how many clock ticks of /proc make a second.
const ticks = 100

// cpu returns the CPU time of the manager itself, in seconds.
func (m *managerProcess) cpu() (float64, error) {
	fields, err := stat(m.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	return float64(fields[statUser]+fields[statSystem]) / ticks, nil
}

// children counts the manager's processes: those that exist, and one more if
// any has ever ended. A process cannot live without touching memory, and what
// it touched is added to its parent's account when it ends.
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

// stat returns the numbers of /proc/PID/stat that follow the name. What is no
// number is 0.
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
		return nil, errors.New("reading a process: unexpected form")
	}
	return numbers, nil
}
