package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// BootID returns the ID of the machine's current boot, or an empty string if it is
// unknown.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// ProcessStartTime returns the start time of a process in clock ticks since boot.
// The PID and the start time identify a process until the next boot. The error
// of a process that has exited is os.ErrNotExist, even if it has not been reaped.
func ProcessStartTime(pid int) (int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	started, err := parseStartTime(stat)
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return started, nil
}

// parseStartTime returns the start time in the content of /proc/PID/stat.
func parseStartTime(stat []byte) (int64, error) {
	// Fields after the name, counted from 0.
	const state, startTime = 0, 19
	// The name is in parentheses and may contain any character. The fields after
	// it are numbers, except for the state.
	end := bytes.LastIndex(stat, []byte(") "))
	if end < 0 {
		return 0, errors.New("unexpected format")
	}
	fields := strings.Fields(string(stat[end+len(") "):]))
	if len(fields) <= startTime {
		return 0, errors.New("unexpected format")
	}
	if fields[state] == "Z" {
		return 0, fmt.Errorf("process has exited: %w", os.ErrNotExist)
	}
	return strconv.ParseInt(fields[startTime], 10, 64)
}

// Alive reports whether the process of an identity of this machine and boot
// exists.
func (i *Identity) Alive() bool {
	started, err := ProcessStartTime(i.PID)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	// Any other error does not prove that the process has exited.
	return err != nil || started == i.Started
}
