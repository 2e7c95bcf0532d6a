package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/dev/revision"
)

const (
	// checksumsFile has the SHA-256 sums of the other files.
	checksumsFile = "checksums.txt"
	// signatureFile is the signature of checksumsFile. It covers all files.
	signatureFile = "checksums.txt.sigstore.json"
	// imagesFile is the description of the images that were built, below dist/images.
	imagesFile = "images/" + revision.RecordFile
)

// publicRegistry is the registry of releases.
const publicRegistry = "ghcr.io/appthrust"

// required are the files without which a release cannot be installed.
var required = []string{
	"install.yaml", "infrastructure-components.yaml", "control-plane-components.yaml", "bootstrap-components.yaml",
	"addon-components.yaml", "metadata.yaml",
}

// seal ends a build: it records what the files in the directory of the release were built
// from, and their checksums. Files that are added or changed afterwards are not published.
func (r *release) seal(ctx context.Context) error {
	if err := errors.Join(revision.RequireClean(ctx, r.root), revision.RequireVersion(r.root, r.version)); err != nil {
		return err
	}
	commit, err := r.head(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.root, r.dist)
	sealed := revision.Record{Version: r.tag(), Commit: commit}
	images, err := revision.ReadRecord(filepath.Join(dir, imagesFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.printf("%s has no images: run make docker-buildx VERSION=%s before a release", r.dist, r.version)
	case err != nil:
		return err
	case images.Version != sealed.Version || images.Commit != sealed.Commit:
		r.printf("%s/images contains %s of commit %s: run make docker-buildx VERSION=%s before a release", r.dist, images.Version, images.Commit, r.version)
	default:
		sealed.Go, sealed.Images = images.Go, images.Images
	}
	if err := sealed.Write(filepath.Join(dir, revision.RecordFile)); err != nil {
		return err
	}
	sums, err := checksumsOf(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, checksumsFile), sums, 0o644); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	return nil
}

// assets returns the names of the files to publish and their SHA-256 sums, after it has
// checked that they were built from this commit, and not changed since.
func (r *release) assets(ctx context.Context) (map[string]string, error) {
	dir := filepath.Join(r.root, r.dist)
	rebuild := fmt.Sprintf("run make build-installer VERSION=%s", r.version)
	sealed, err := revision.ReadRecord(filepath.Join(dir, revision.RecordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %s", filepath.Join(r.dist, revision.RecordFile), rebuild)
	}
	if err != nil {
		return nil, err
	}
	commit, err := r.head(ctx)
	if err != nil {
		return nil, err
	}
	if sealed.Version != r.tag() || sealed.Commit != commit {
		return nil, fmt.Errorf("%s contains %s of commit %s, not %s of %s: %s", r.dist, sealed.Version, sealed.Commit, r.tag(), commit, rebuild)
	}
	if len(sealed.Images) == 0 {
		return nil, fmt.Errorf("%s contains no images of commit %s: run make docker-buildx VERSION=%s, then make build-installer VERSION=%s", r.dist, commit, r.version, r.version)
	}
	for image := range sealed.Images {
		if !r.dryRun && !strings.HasPrefix(image, publicRegistry+"/") {
			return nil, fmt.Errorf("%s contains %s, which is not at %s: run make docker-buildx VERSION=%s without REGISTRY", r.dist, image, publicRegistry, r.version)
		}
	}
	for _, name := range required {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("%s is missing: %s", filepath.Join(r.dist, name), rebuild)
		}
	}
	have, err := checksumsOf(dir)
	if err != nil {
		return nil, err
	}
	want, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return nil, fmt.Errorf("reading the checksums: %w", err)
	}
	if changed := differingNames(have, want); len(changed) > 0 {
		return nil, fmt.Errorf("files of %s have changed since they were built (%s): %s", r.dist, strings.Join(changed, ", "), rebuild)
	}
	return addChecksums(dir, parseChecksums(have))
}

func (r *release) head(ctx context.Context) (string, error) {
	commit, err := revision.Git(ctx, r.root, "rev-parse", "HEAD")
	return strings.TrimSpace(commit), err
}

// checksumsOf returns the checksums of the files in a directory, except those that are
// made from them, in the format of sha256sum.
func checksumsOf(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the files of the release: %w", err)
	}
	var text bytes.Buffer
	for _, entry := range entries {
		if name := entry.Name(); entry.Type().IsRegular() && name != checksumsFile && name != signatureFile {
			sum, err := sumOf(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&text, "%s  %s\n", sum, name)
		}
	}
	return text.Bytes(), nil
}

func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a file of the release: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// addChecksums adds the checksums themselves and, if it exists, their signature.
func addChecksums(dir string, sums map[string]string) (map[string]string, error) {
	for _, name := range []string{checksumsFile, signatureFile} {
		sum, err := sumOf(filepath.Join(dir, name))
		if name == signatureFile && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sums[name] = sum
	}
	return sums, nil
}

// parseChecksums returns the sum of each name.
func parseChecksums(text []byte) map[string]string {
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if sum, name, found := strings.Cut(strings.TrimSpace(line), "  "); found {
			sums[name] = sum
		}
	}
	return sums
}

// differingNames returns the names whose checksums differ, or are missing in one list.
func differingNames(a, b []byte) []string {
	first, second := parseChecksums(a), parseChecksums(b)
	var names []string
	for name, sum := range first {
		if second[name] != sum {
			names = append(names, name)
		}
	}
	for name := range second {
		if _, found := first[name]; !found {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
