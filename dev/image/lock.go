package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/appthrust/capt/dev/image/debian"
)

// lockFile pins the packages of the images.
const lockFile = "image/debian.lock"

// locker resolves the packages of architectures in the current indexes of suites.
type locker struct {
	source        debian.Source
	suites        []debian.Suite
	architectures []string
}

// write updates the lock in a file. Other architectures in it stay as they are.
func (l locker) write(ctx context.Context, out string) error {
	lock := debian.Lock{Packages: map[string][]debian.Package{}}
	if text, err := os.ReadFile(out); err == nil {
		if lock, err = debian.ReadLock(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("reading %s: %w", out, err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the lock: %w", err)
	}
	lock.Release = debianRelease
	for _, architecture := range l.architectures {
		universe, err := l.source.Index(ctx, l.suites, architecture)
		if err != nil {
			return err
		}
		if lock.Packages[architecture], err = universe.Resolve(runnerPackages, excludedPackages); err != nil {
			return fmt.Errorf("resolving the packages for %s: %w", architecture, err)
		}
		if universe.Date.After(lock.Date) {
			lock.Date = universe.Date
		}
	}
	var text bytes.Buffer
	if err := lock.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(out, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the lock: %w", err)
	}
	return nil
}

// parseSuites parses a list of ARCHIVE/SUITE.
func parseSuites(list string) ([]debian.Suite, error) {
	var parsed []debian.Suite
	for text := range strings.SplitSeq(list, ",") {
		archive, name, found := strings.Cut(text, "/")
		if !found {
			return nil, fmt.Errorf("suite %q is not of the form ARCHIVE/SUITE", text)
		}
		parsed = append(parsed, debian.Suite{Archive: archive, Name: name})
	}
	return parsed, nil
}

// readLock reads the lock and checks that it has packages for the architectures.
func readLock(path string, wanted []string) (debian.Lock, error) {
	file, err := os.Open(path)
	if err != nil {
		return debian.Lock{}, fmt.Errorf("reading the lock: %w", err)
	}
	defer file.Close()
	lock, err := debian.ReadLock(file)
	if err != nil {
		return lock, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, architecture := range wanted {
		if !slices.Contains(lock.Architectures(), architecture) {
			return lock, fmt.Errorf("%s has no packages for %s: run `make debian-lock`", path, architecture)
		}
	}
	return lock, nil
}

// outdated returns the packages that are older than those of another architecture,
// because the mirror had no consistent index of security updates for theirs.
func outdated(lock debian.Lock, architecture string) []string {
	newest := map[string]debian.Package{}
	for _, packages := range lock.Packages {
		for _, p := range packages {
			if known, found := newest[p.Name]; !found || debian.CompareVersions(p.Version, known.Version) > 0 {
				newest[p.Name] = p
			}
		}
	}
	var list []string
	for _, p := range lock.Packages[architecture] {
		if n := newest[p.Name]; n.Archive != p.Archive && debian.CompareVersions(p.Version, n.Version) < 0 {
			list = append(list, fmt.Sprintf("%s %s (others have %s)", p.Name, p.Version, n.Version))
		}
	}
	return list
}
