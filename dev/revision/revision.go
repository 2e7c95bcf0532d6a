// Package revision checks what a release is built from: its version, and the commit.
package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// CheckVersion returns an error unless a text is a semantic version without v and
// without build metadata, which no tag of an image can contain.
func CheckVersion(text string) error {
	switch {
	case text == "":
		return errors.New("VERSION is missing: pass VERSION=X.Y.Z, for example VERSION=0.2.0")
	case strings.HasPrefix(text, "v") && semver.IsValid(text):
		return fmt.Errorf("VERSION %q starts with v: write VERSION=%s", text, text[1:])
	case semver.Canonical("v"+text) != "v"+text:
		// Canonical adds missing numbers and drops build metadata.
		return fmt.Errorf("VERSION %q is not a semantic version: write X.Y.Z, for example 0.2.0, or X.Y.Z-rc.1", text)
	default:
		return nil
	}
}

// listed is how many changed files an error names.
const listed = 5

// RequireClean returns an error if files of a working tree, except the given ones, have
// changes that are not committed.
func RequireClean(ctx context.Context, root string, except ...string) error {
	output, err := Git(ctx, root, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
	if err != nil {
		return err
	}
	var changed []string
	for entry := range strings.SplitSeq(strings.TrimRight(output, "\x00"), "\x00") {
		// Two letters of status and a space precede the path.
		if len(entry) > 3 && !slices.Contains(except, entry[3:]) {
			changed = append(changed, entry[3:])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	more := ""
	if len(changed) > listed {
		more = fmt.Sprintf(" and %d more", len(changed)-listed)
		changed = changed[:listed]
	}
	return fmt.Errorf("the working tree has changes that are not committed (%s%s): commit or stash them", strings.Join(changed, ", "), more)
}

// Git returns the output of git in a working tree.
func Git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(output), nil
}
