package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// pinnedPlatforms are the platforms whose releases have a checksum in releases.sum.
var pinnedPlatforms = []string{"linux/amd64", "linux/arm64"}

// pinReleases writes the checksums of the published programs of the current versions to
// a file. It downloads from the origin, verifies signatures, and keeps lines only for
// what it cannot reach.
func (s store) pinReleases(ctx context.Context, progress io.Writer, parts []part, file string) error {
	kept := map[string]string{}
	for line := range strings.Lines(committed) {
		words := strings.Fields(line)
		kept[strings.Join(words[:3], " ")] = strings.TrimSpace(line)
	}
	var lines []string
	for _, p := range parts {
		if releases[p.name] == nil {
			continue
		}
		for _, platform := range pinnedPlatforms {
			s.goos, s.goarch, _ = strings.Cut(platform, "/")
			pin, err := s.pin(p)
			if err != nil {
				return err
			}
			key := checksumKey(p.name, pin.version, s.goos, s.goarch)
			sum, err := s.seeRelease(ctx, releases[p.name].fill(pin.version, s.goos, s.goarch))
			switch {
			case err == nil:
				lines = append(lines, key+" sha256:"+sum+" origin")
			case kept[key] != "":
				fmt.Fprintf(progress, "parts: %s: %v: its line is kept\n", key, err)
				lines = append(lines, kept[key])
			default:
				fmt.Fprintf(progress, "parts: %s: %v: not pinned\n", key, err)
			}
		}
	}
	slices.Sort(lines)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// seeRelease returns the checksum of a published file. A signature is verified.
func (s store) seeRelease(ctx context.Context, r release) (string, error) {
	file, remove, err := temporary(s.cache)
	if err != nil {
		return "", err
	}
	defer remove()
	if err := s.net.fetch(ctx, r.url, file); err != nil {
		return "", err
	}
	var sum [sha256.Size]byte
	sum, text, err := sumOf(file)
	if err != nil || r.signed == nil {
		return text, err
	}
	return text, s.authenticate(ctx, r, sum, text)
}
