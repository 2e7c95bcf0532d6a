package command

import (
	"regexp"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

var lockField = regexp.MustCompile(`(?m)^[\s│]*(ID|Path|Operation|Who|Version|Created|Info):[ \t]*(.*?)[ \t]*$`)

// parseLockInfo parses the "Lock Info:" paragraph of a message. It returns nil if
// there is none.
func parseLockInfo(text string) *terraform.LockInfo {
	_, paragraph, found := strings.Cut(text, "Lock Info:")
	if !found {
		return nil
	}
	info := &terraform.LockInfo{}
	fields := map[string]*string{
		"ID": &info.ID, "Path": &info.Path, "Operation": &info.Operation, "Who": &info.Who,
		"Version": &info.Version, "Created": &info.Created, "Info": &info.Info,
	}
	for _, match := range lockField.FindAllStringSubmatch(paragraph, -1) {
		*fields[match[1]] = match[2]
	}
	if info.ID == "" {
		return nil
	}
	return info
}
