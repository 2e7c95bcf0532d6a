package record

import (
	"fmt"
	"strconv"
	"strings"
)

// runNumberSeparator separates the name of the workspace from the number of the run.
const runNumberSeparator = "-r"

// NewRunID returns the ID of a run. It is a valid label value and part of a name.
func NewRunID(workspace string, number int64) string {
	return Shorten(workspace, 45) + runNumberSeparator + strconv.FormatInt(number, 10)
}

// ParseRunID returns the number of a run, and the part of its ID that all runs of the
// workspace share: the name of the workspace, shortened if it is long.
func ParseRunID(id string) (workspace string, number int64, err error) {
	i := strings.LastIndex(id, runNumberSeparator)
	if i < 0 {
		return "", 0, fmt.Errorf("run %q has no number", id)
	}
	number, err = strconv.ParseInt(id[i+len(runNumberSeparator):], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("run %q has no number: %w", id, err)
	}
	return id[:i], number, nil
}

// RunNumber returns the number of a run from its ID.
func RunNumber(id string) (int64, error) {
	_, number, err := ParseRunID(id)
	return number, err
}
