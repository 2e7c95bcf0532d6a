package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/appthrust/capt/dev/revision"
)

const unreleased = "## [Unreleased]"

// section matches the heading of a release.
var section = regexp.MustCompile(`(?m)^## \[[^\]]+\].*$`)

// updateChangelog moves the changes that are not released to a section of the release.
func (r *release) updateChangelog(ctx context.Context) error {
	if err := revision.RequireClean(ctx, r.root, managed()...); err != nil {
		return err
	}
	content, err := r.read(changelogFile)
	if err != nil {
		return err
	}
	updated, err := moveUnreleased(content, r.version, r.date)
	if err != nil {
		return err
	}
	return r.write(changelogFile, content, updated)
}

// moveUnreleased returns the changelog with the section of a release.
func moveUnreleased(changelog, version, date string) (string, error) {
	changes, found := sectionOf(changelog, "Unreleased")
	if !found {
		return "", fmt.Errorf("%s has no section %q", changelogFile, unreleased)
	}
	_, released := sectionOf(changelog, version)
	switch {
	case released && changes == "":
		return changelog, nil
	case released:
		return "", fmt.Errorf("%s has a section of %s and changes that are not released: move them, or release another version", changelogFile, version)
	case changes == "":
		return "", fmt.Errorf("%s has no changes in %q", changelogFile, unreleased)
	}
	heading := fmt.Sprintf("%s\n\n## [%s] - %s", unreleased, version, date)
	return strings.Replace(changelog, unreleased, heading, 1), nil
}

// sectionOf returns the text below the heading of a version.
func sectionOf(changelog, version string) (text string, found bool) {
	for _, at := range section.FindAllStringIndex(changelog, -1) {
		if !strings.HasPrefix(changelog[at[0]:], "## ["+version+"]") {
			continue
		}
		text = changelog[at[1]:]
		if next := section.FindStringIndex(text); next != nil {
			text = text[:next[0]]
		}
		return strings.TrimSpace(text), true
	}
	return "", false
}

// notes returns the changes of the release.
func (r *release) notes() (string, error) {
	content, err := r.read(changelogFile)
	if err != nil {
		return "", err
	}
	text, found := sectionOf(content, r.version)
	if !found {
		return "", fmt.Errorf("%s has no section of %s: run make update-changelog VERSION=%s and commit", changelogFile, r.version, r.version)
	}
	return text, nil
}
