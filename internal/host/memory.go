package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit returns the memory limit of this control group, or 0 if there is none.
func MemoryLimit() int64 { return memoryLimit("/sys/fs/cgroup") }

// unlimited is less than what version 1 of control groups reports without a limit.
const unlimited = 1 << 60

func memoryLimit(root string) int64 {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		if limit := readNumber(filepath.Join(root, file)); limit > 0 && limit <= unlimited {
			return limit
		}
	}
	return 0
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
