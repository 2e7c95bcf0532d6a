package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// semantic matches a version as of semver.org, without v and without build metadata,
// which no tag of an image can contain.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?$`)

func checkVersion(version string) error {
	switch {
	case version == "":
		return errors.New("no version: set VERSION=X.Y.Z, for example VERSION=0.1.0")
	case strings.HasPrefix(version, "v"):
		return fmt.Errorf("VERSION is %s: write it without v, VERSION=%s", version, strings.TrimPrefix(version, "v"))
	case !semantic.MatchString(version):
		return fmt.Errorf("VERSION is %q, which is not of the form X.Y.Z or X.Y.Z-rc.1: see semver.org", version)
	}
	return nil
}

// uncommitted returns the changes of the tree that are not committed, as git prints
// them.
func uncommitted(root string) (string, error) {
	cmd := exec.Command("git", "status", "--porcelain")
	cmd.Dir = root
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("reading the state of the tree: %w: %s", err, problems.String())
	}
	return strings.TrimRight(string(out), "\n"), nil
}
