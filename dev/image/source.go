package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
	log, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(log, " ")
	s.commit = commit
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("reading the time of the commit (SOURCE_DATE_EPOCH): %w", err)
	}
	s.time = time.Unix(unix, 0).UTC()
	if s.dirty, err = git(ctx, root, "status", "--porcelain"); err != nil {
		return s, err
	}
	return s, nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if exit, failed := errors.AsType[*exec.ExitError](err); failed {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
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
