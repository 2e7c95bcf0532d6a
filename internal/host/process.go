package host

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"
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
// The PID and the start time identify a process until the next boot. The error of a
// process that has exited is os.ErrNotExist, even if it has not been reaped.
func ProcessStartTime(pid int) (int64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return startTime(proc, pid)
}

// startTime is ProcessStartTime with the proc filesystem as a parameter.
func startTime(proc procfs.FS, pid int) (int64, error) {
	process, err := proc.Proc(pid)
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	if stat.State == "Z" || stat.State == "X" {
		return 0, fmt.Errorf("process %d has exited: %w", pid, os.ErrNotExist)
	}
	return int64(stat.Starttime), nil
}
