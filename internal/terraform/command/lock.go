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
	for _, match := range lockField.FindAllStringSubmatch(paragraph, -1) {
		switch value := match[2]; match[1] {
		case "ID":
			info.ID = value
		case "Path":
			info.Path = value
		case "Operation":
			info.Operation = value
		case "Who":
			info.Who = value
		case "Version":
			info.Version = value
		case "Created":
			info.Created = value
		case "Info":
			info.Info = value
		}
	}
	if info.ID == "" {
		return nil
	}
	return info
}
