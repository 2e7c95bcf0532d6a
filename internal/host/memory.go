package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryPeak returns the most memory that this control group has used, and its limit. The
// limit is 0 if there is none.
func MemoryPeak() (peak, limit int64) { return memoryPeak("/sys/fs/cgroup") }

// MemoryLimit returns the memory limit of this control group, or 0 if there is none.
func MemoryLimit() int64 {
	_, limit := MemoryPeak()
	return limit
}

// unlimited is less than what version 1 of control groups reports without a limit.
const unlimited = 1 << 60

// memoryPeak returns the whole limit as the peak if that is unknown.
func memoryPeak(root string) (peak, limit int64) {
	for _, files := range []struct{ limit, peak string }{
		{"memory.max", "memory.peak"},
		{"memory/memory.limit_in_bytes", "memory/memory.max_usage_in_bytes"},
	} {
		limit := readNumber(filepath.Join(root, files.limit))
		if limit <= 0 || limit > unlimited {
			continue
		}
		if peak := readNumber(filepath.Join(root, files.peak)); peak > 0 {
			return peak, limit
		}
		return limit, limit
	}
	return 0, 0
}

// readNumber returns the number in a file, or 0 if it has none.
func readNumber(path string) int64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	number, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0
	}
	return number
}
