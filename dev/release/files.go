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

const changelogFile = "CHANGELOG.md"

// stamps are the places that contain the version of CAPT.
var stamps = []struct {
	path    string
	pattern *regexp.Regexp
	// text replaces the pattern. %s is the version without v.
	text string
}{
	{revision.VersionFile, regexp.MustCompile(`(?s)^.*$`), "v%s\n"},
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
	current, err := revision.Version(r.root)
	if err != nil {
		return err
	}
	if isEarlier(r.tag(), current) {
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

// isEarlier reports whether a version precedes the current one. Development versions
// (-dev) precede and follow every pre-release of the same version.
func isEarlier(next, current string) bool {
	nextBase, _, _ := strings.Cut(next, "-")
	currentBase, _, _ := strings.Cut(current, "-")
	if order := semver.Compare(nextBase, currentBase); order != 0 {
		return order < 0
	}
	if strings.HasSuffix(next, "-dev") || strings.HasSuffix(current, "-dev") {
		return semver.Prerelease(current) == "" && next != current
	}
	return semver.Compare(next, current) < 0
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
// change is committed, the version, its series and the changelog are those of the
// release, and the tag, if there is one, is this commit of the main branch.
func (r *release) check(ctx context.Context) error {
	if err := revision.RequireClean(ctx, r.root); err != nil {
		return err
	}
	if err := errors.Join(revision.RequireVersion(r.root, r.version), revision.RequireSeries(r.root, r.version)); err != nil {
		return err
	}
	if _, err := r.notes(); err != nil {
		return err
	}
	return r.checkTag(ctx)
}

// mainBranch is the branch that releases are made from.
const mainBranch = "refs/remotes/origin/main"

// checkTag returns an error if the tag is another commit, or one that is not on the main
// branch. Without a tag nothing is checked, unless it is required.
func (r *release) checkTag(ctx context.Context) error {
	tagged, err := revision.Git(ctx, r.root, "for-each-ref", "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)", "refs/tags/"+r.tag())
	if err != nil {
		return err
	}
	commit, err := r.head(ctx)
	if err != nil {
		return err
	}
	switch tagged = strings.TrimSpace(tagged); {
	case tagged == "" && r.tagged:
		return fmt.Errorf("tag %s does not exist: merge the release, tag the commit on main, and push the tag", r.tag())
	case tagged == "":
		return nil
	case tagged != commit:
		return fmt.Errorf("tag %s is commit %s, but %s is checked out", r.tag(), tagged, commit)
	}
	if _, err := revision.Git(ctx, r.root, "merge-base", "--is-ancestor", commit, mainBranch); err != nil {
		return fmt.Errorf("commit %s of tag %s is not on origin/main: merge it first, or run git fetch origin (%w)", commit, r.tag(), err)
	}
	return nil
}
