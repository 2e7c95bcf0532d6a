package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/appthrust/capt/dev/image/debian"
)

// lockFile pins the packages of the images.
const lockFile = "image/debian.lock"

// writeLock pins the current packages of all architectures.
func writeLock(ctx context.Context, source debian.Source, out string) error {
	lock := debian.Lock{Release: debianRelease, Packages: map[string][]debian.Package{}}
	for _, architecture := range architectures {
		packages, date, err := source.Resolve(ctx, architecture, runnerPackages, installedPackages)
		if err != nil {
			return err
		}
		lock.Packages[architecture] = slices.DeleteFunc(packages, func(p debian.Package) bool { return slices.Contains(omittedPackages, p.Name) })
		if date.After(lock.Date) {
			lock.Date = date
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

// outdated returns the packages that lack a security update which another architecture
// has, because Debian has not built it yet.
func outdated(lock debian.Lock, architecture string) []string {
	updated := map[string]string{}
	for _, packages := range lock.Packages {
		for _, p := range packages {
			if p.Archive == securityArchive {
				updated[p.Name] = p.Version
			}
		}
	}
	var list []string
	for _, p := range lock.Packages[architecture] {
		if newer := updated[p.Name]; newer != "" && p.Archive != securityArchive && p.Version != newer {
			list = append(list, fmt.Sprintf("%s %s (others have %s)", p.Name, p.Version, newer))
		}
	}
	return list
}
