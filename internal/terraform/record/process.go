package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// BootID identifies the machine's current boot; empty where it cannot be known.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// ProcessStartTime returns when a process began, in clock ticks since boot.
// Together with the pid it identifies a process for good.
func ProcessStartTime(pid int) (int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	// The name, in parentheses, may hold anything; what follows is plain.
	const startTime = 19
	_, rest, found := bytes.Cut(stat, []byte(") "))
	for i := bytes.LastIndex(rest, []byte(") ")); found && i >= 0; i = bytes.LastIndex(rest, []byte(") ")) {
		rest = rest[i+2:]
	}
	fields := strings.Fields(string(rest))
	if !found || len(fields) <= startTime {
		return 0, fmt.Errorf("reading process %d: unexpected form", pid)
	}
	if fields[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	started, err := strconv.ParseInt(fields[startTime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return started, nil
}

// Alive tells whether the process of an identity of this machine exists.
func (i *Identity) Alive() bool {
	started, err := ProcessStartTime(i.PID)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	// Anything else that keeps us from looking proves nothing.
	return err != nil || started == i.Started
}
