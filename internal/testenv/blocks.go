package testenv

import (
	"regexp"
	"slices"
	"strings"
)

var blockMarker = regexp.MustCompile("(?m)^ *<!-- run: ([a-z-]+) -->\n( *)```(?:sh|bash)\n((?s:.*?))\n *```$")

// Blocks returns the command blocks of a page of the documentation that are marked as run
// by one of the scenarios, in their order and without their indentation.
func Blocks(page string, scenarios ...string) []string {
	var found []string
	for _, match := range blockMarker.FindAllStringSubmatch(page, -1) {
		if slices.Contains(scenarios, match[1]) {
			found = append(found, strings.ReplaceAll("\n"+match[3], "\n"+match[2], "\n"))
		}
	}
	return found
}
