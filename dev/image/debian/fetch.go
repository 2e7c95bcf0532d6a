package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// snapshots keeps every version of every package. Mirrors drop a version as soon as the
// next one is released.
const snapshots = "https://snapshot.debian.org/archive"

// Cache downloads packages and keeps them.
type Cache struct {
	Dir    string
	Mirror string
	Client *http.Client
	// Snapshots is the address of the snapshots, by default Debian's.
	Snapshots string
}

// Fetch returns the path of a package's file. A file with another checksum than the
// pinned one is never returned or kept.
func (c Cache) Fetch(ctx context.Context, p Package, date time.Time) (string, error) {
	path := filepath.Join(c.Dir, p.SHA256+".deb")
	if content, err := os.ReadFile(path); err == nil && checksum(content) == p.SHA256 {
		return path, nil
	}
	archive := c.Snapshots
	if archive == "" {
		archive = snapshots
	}
	var failures []error
	for _, url := range []string{
		c.Mirror + "/" + p.Archive + "/" + p.Path,
		archive + "/" + p.Archive + "/" + date.UTC().AddDate(0, 0, 1).Format("20060102T150405Z") + "/" + p.Path,
	} {
		content, err := c.get(ctx, url)
		if err == nil && checksum(content) != p.SHA256 {
			err = fmt.Errorf("%s has checksum %s, but %s is pinned", url, checksum(content), p.SHA256)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		return path, c.keep(path, content)
	}
	return "", fmt.Errorf("downloading package %s: %w", p.Name, errors.Join(failures...))
}

func (c Cache) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: %s", url, resp.Status)
	}
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	return content, nil
}

func (c Cache) keep(path string, content []byte) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	partial, err := os.CreateTemp(c.Dir, "partial-*")
	if err != nil {
		return fmt.Errorf("creating a file in the cache: %w", err)
	}
	defer os.Remove(partial.Name())
	if _, err := partial.Write(content); err != nil {
		return errors.Join(fmt.Errorf("writing to the cache: %w", err), partial.Close())
	}
	if err := partial.Close(); err != nil {
		return fmt.Errorf("writing to the cache: %w", err)
	}
	return os.Rename(partial.Name(), path)
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
