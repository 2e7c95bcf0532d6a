// Package revision checks what a release is built from: its version, and the commit.
package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// VersionFile has the version of all programs, with a leading v.
const VersionFile = "internal/version/VERSION"

// Version returns the version of a working tree, with a leading v.
func Version(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, VersionFile))
	if err != nil {
		return "", fmt.Errorf("reading the version: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// RequireVersion returns an error unless a version, without v, is that of a working tree.
func RequireVersion(root, version string) error {
	current, err := Version(root)
	if err != nil {
		return err
	}
	if current != "v"+version {
		return fmt.Errorf("the version of the working tree is %s, not v%s: run make update-version VERSION=%s and commit", current, version, version)
	}
	return nil
}

// RequireSeries returns an error unless metadata.yaml has the series of a version, without
// v: clusterctl refuses a version of an unknown series.
func RequireSeries(root, version string) error {
	text, err := os.ReadFile(filepath.Join(root, "metadata.yaml"))
	if err != nil {
		return fmt.Errorf("reading the release series: %w", err)
	}
	var metadata struct {
		ReleaseSeries []struct{ Major, Minor int } `json:"releaseSeries"`
	}
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return fmt.Errorf("parsing metadata.yaml: %w", err)
	}
	for _, series := range metadata.ReleaseSeries {
		if strings.HasPrefix(version, fmt.Sprintf("%d.%d.", series.Major, series.Minor)) {
			return nil
		}
	}
	return fmt.Errorf("metadata.yaml has no releaseSeries for %s: add its major and minor version with the contract", version)
}

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
