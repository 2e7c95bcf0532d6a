package chart

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// Load returns a chart from a directory or a .tgz archive.
func Load(path string) (*Chart, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading a chart: %w", err)
	}
	var c *Chart
	if info.IsDir() {
		c, err = loadDirectory(path)
	} else {
		err = withFile(path, func(file io.Reader) error {
			c, err = unpack(file)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading chart %s: %w", path, err)
	}
	return c, nil
}

func loadDirectory(root string) (*Chart, error) {
	collected := &collector{files: files{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isRelevant(name) {
			return err
		}
		return withFile(filepath.Join(root, filepath.FromSlash(name)), func(file io.Reader) error { return collected.add(name, file) })
	})
	if err != nil {
		return nil, err
	}
	return assemble(collected.files, &manifest.Budget{})
}

func withFile(path string, read func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// readLimited reads everything. It fails if there are more than limit bytes.
func readLimited(from io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, tooLarge(limit)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("larger than %d MiB", limit>>20)
}
