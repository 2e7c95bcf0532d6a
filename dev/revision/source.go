package revision

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Source is the commit that programs, images and manifests are built from.
type Source struct {
	// Version is that of all programs, with a leading v.
	Version string
	Commit  string
	// Time is that of the commit, and of everything that has no time of its own.
	Time time.Time
	// Dirty is the list of files that differ from the commit.
	Dirty string
}

// ReadSource describes a working tree. SOURCE_DATE_EPOCH overrides the time of the commit.
func ReadSource(ctx context.Context, root string) (Source, error) {
	var s Source
	var err error
	if s.Version, err = Version(root); err != nil {
		return s, err
	}
	log, err := Git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(log), " ")
	s.Commit = commit
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("reading the time of the commit (SOURCE_DATE_EPOCH): %w", err)
	}
	s.Time = time.Unix(unix, 0).UTC()
	if s.Dirty, err = Git(ctx, root, "status", "--porcelain"); err != nil {
		return s, err
	}
	return s, nil
}

// Description returns the commit, and whether the working tree differs from it.
func (s Source) Description() string {
	if s.Dirty != "" {
		return s.Commit + "-dirty"
	}
	return s.Commit
}
