package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

const (
	versionFile   = "internal/version/VERSION"
	changelogFile = "CHANGELOG.md"
)

// stamps are the places that contain the version of CAPT.
var stamps = []struct {
	path    string
	pattern *regexp.Regexp
	// text replaces the pattern. %s is the version without v.
	text string
}{
	{versionFile, regexp.MustCompile(`(?s)^.*$`), "v%s\n"},
	{"config/manager/kustomization.yaml", regexp.MustCompile(`(?m)^(  newTag:) .*$`), "$1 v%s"},
	{"charts/capt/Chart.yaml", regexp.MustCompile(`(?m)^(version:) .*$`), "$1 %s"},
	{"charts/capt/Chart.yaml", regexp.MustCompile(`(?m)^(appVersion:) .*$`), "$1 v%s"},
}

// parseVersion returns the version if it is a semantic version.
func parseVersion(text string) (string, error) {
	switch canonical := semver.Canonical("v" + text); {
	case text == "":
		return "", errors.New("VERSION is missing: pass VERSION=X.Y.Z, for example VERSION=0.2.0")
	case strings.HasPrefix(text, "v") && semver.IsValid(text):
		return "", fmt.Errorf("VERSION %q starts with v: write VERSION=%s", text, text[1:])
	case canonical != "v"+text:
		// Canonical adds missing numbers and drops build metadata.
		return "", fmt.Errorf("VERSION %q is not a semantic version: write X.Y.Z, for example 0.2.0, or X.Y.Z-rc.1", text)
	default:
		return text, nil
	}
}

func (r *release) read(path string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.root, path))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return string(content), nil
}

// write replaces a file if its content changes, unless it is a dry run.
func (r *release) write(path, previous, content string) error {
	switch {
	case content == previous:
		r.printf("%s: unchanged", path)
		return nil
	case r.dryRun:
		r.printf("%s: would be changed", path)
		return nil
	}
	if err := os.WriteFile(filepath.Join(r.root, path), []byte(content), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	r.printf("%s: changed", path)
	return nil
}

// updateVersion writes the version into all files that contain it.
func (r *release) updateVersion(ctx context.Context) error {
	if err := r.requireClean(ctx, managed()); err != nil {
		return err
	}
	current, err := r.read(versionFile)
	if err != nil {
		return err
	}
	if current = strings.TrimSpace(current); semver.Compare(r.tag(), current) < 0 {
		return fmt.Errorf("version %s is earlier than the current one, %s", r.tag(), current)
	}
	// A file with several stamps is written once.
	for _, path := range managed() {
		if path == changelogFile {
			continue
		}
		content, err := r.read(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		stamped, err := r.stamp(path, content)
		if err != nil {
			return err
		}
		if err := r.write(path, content, stamped); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) stamp(path, content string) (string, error) {
	for _, stamp := range stamps {
		if stamp.path != path {
			continue
		}
		if !stamp.pattern.MatchString(content) {
			return "", fmt.Errorf("%s has no line that matches %s", path, stamp.pattern)
		}
		content = stamp.pattern.ReplaceAllString(content, fmt.Sprintf(stamp.text, r.version))
	}
	return content, nil
}

// managed returns the files that a release changes.
func managed() []string {
	paths := []string{changelogFile}
	for _, stamp := range stamps {
		if !slices.Contains(paths, stamp.path) {
			paths = append(paths, stamp.path)
		}
	}
	return paths
}

// check returns an error if the working tree is not the source of the release: every
// change is committed, and version and changelog are those of the release.
func (r *release) check(ctx context.Context) error {
	if err := r.requireClean(ctx, nil); err != nil {
		return err
	}
	current, err := r.read(versionFile)
	if err != nil {
		return err
	}
	if current = strings.TrimSpace(current); current != r.tag() {
		return fmt.Errorf("the version of the working tree is %s, not %s: run make update-version VERSION=%s and commit", current, r.tag(), r.version)
	}
	if _, err := r.notes(); err != nil {
		return err
	}
	return nil
}

// requireClean returns an error if files have changes that are not committed, except
// the given ones.
func (r *release) requireClean(ctx context.Context, except []string) error {
	output, err := r.git(ctx, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return err
	}
	var changed []string
	for line := range strings.Lines(output) {
		// Two letters of status precede the path.
		path := strings.Trim(strings.TrimRight(line, "\n")[3:], `"`)
		if !slices.Contains(except, path) {
			changed = append(changed, path)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	more := ""
	if len(changed) > 5 {
		more = fmt.Sprintf(" and %d more", len(changed)-5)
		changed = changed[:5]
	}
	return fmt.Errorf("the working tree has changes that are not committed (%s%s): commit or stash them", strings.Join(changed, ", "), more)
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(output), nil
}
