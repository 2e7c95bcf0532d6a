package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/appthrust/capt/dev/revision"
)

// source is the commit that images are built from.
type source struct {
	// version is that of all programs, with a leading v.
	version string
	commit  string
	// time is that of the commit, and of everything that has no time of its own.
	time time.Time
	// dirty is the list of files that differ from the commit.
	dirty string
}

// readSource describes the work tree. SOURCE_DATE_EPOCH overrides the time of the commit.
func readSource(ctx context.Context, root string) (source, error) {
	var s source
	version, err := os.ReadFile(filepath.Join(root, versionFile))
	if err != nil {
		return s, fmt.Errorf("reading the version: %w", err)
	}
	s.version = strings.TrimSpace(string(version))
	log, err := revision.Git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(log), " ")
	s.commit = commit
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("reading the time of the commit (SOURCE_DATE_EPOCH): %w", err)
	}
	s.time = time.Unix(unix, 0).UTC()
	if s.dirty, err = revision.Git(ctx, root, "status", "--porcelain"); err != nil {
		return s, err
	}
	return s, nil
}

// description returns the commit, and whether the work tree differs from it.
func (s source) description() string {
	if s.dirty != "" {
		return s.commit + "-dirty"
	}
	return s.commit
}

// versionFile has the version of all programs, with a leading v.
const versionFile = "internal/version/VERSION"
