package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// stampFile contains the stamp of the inputs of the current output.
const stampFile = ".stamp"

// stamp returns a digest of all inputs. A program is identified by its path, because
// its directory is named after its source.
func (b *builder) stamp() (string, error) {
	digest := sha256.New()
	names, err := b.sources()
	if err != nil {
		return "", err
	}
	files := []string{filepath.Join(b.karpenter, "go.mod"), filepath.Join(b.karpenter, "go.sum")}
	for _, name := range names {
		files = append(files, filepath.Join(b.source, name))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("reading the sources of the add-ons: %w", err)
		}
		fmt.Fprintf(digest, "%s\x00%d\x00%s", name, len(text), text)
	}
	for _, name := range []string{"fluxgen", "charts"} {
		path, err := b.program(name)
		if err != nil {
			return "", err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", fmt.Errorf("finding %s: %w", name, err)
		}
		fmt.Fprintf(digest, "%s\x00", path)
	}
	fmt.Fprintf(digest, "%s\x00", format)
	return fmt.Sprintf("%x", digest.Sum(nil)), nil
}

// format must be changed whenever this program writes another output for the same
// input.
const format = "1"

// current reports whether the output exists and was created from the inputs of the
// stamp.
func (b *builder) current(stamp string) bool {
	text, err := os.ReadFile(filepath.Join(b.out, stampFile))
	if err != nil || string(text) != stamp {
		return false
	}
	names, err := b.sources()
	if err != nil {
		return false
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(b.out, name)); err != nil {
			return false
		}
	}
	charts, err := filepath.Glob(filepath.Join(b.charts, "*.tgz"))
	return err == nil && len(charts) > 0
}

func (b *builder) writeStamp(stamp string) error {
	if err := os.WriteFile(filepath.Join(b.out, stampFile), []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("writing the stamp: %w", err)
	}
	return nil
}
