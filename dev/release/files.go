package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/appthrust/capt/dev/revision"
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
	if err := revision.RequireClean(ctx, r.root, managed()...); err != nil {
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
	if err := revision.RequireClean(ctx, r.root); err != nil {
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
