package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

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
		c, err = loadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading chart %s: %w", path, err)
	}
	return c, nil
}

func loadFile(path string) (*Chart, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := readLimited(file, maxArchive)
	if err != nil {
		return nil, err
	}
	return unpack(data, 0, &manifest.Budget{})
}

func loadDirectory(root string) (*Chart, error) {
	contents := files{}
	total := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() || !isRelevant(name):
			return nil
		}
		data, err := readFile(filepath.Join(root, filepath.FromSlash(name)))
		if total += len(data); err == nil && total > maxFiles {
			err = tooLarge(maxFiles)
		}
		contents[name] = data
		return err
	})
	if err != nil {
		return nil, err
	}
	return assemble(contents, 0, &manifest.Budget{})
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readLimited(file, limitOf(name))
}

// unpack returns the chart of a .tgz archive.
func unpack(data []byte, depth int, budget *manifest.Budget) (*Chart, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("not a .tgz archive: %w", err)
	}
	archive := tar.NewReader(io.LimitReader(zipped, maxFiles))
	contents := files{}
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return assemble(contents, depth, budget)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("the archive is truncated or larger than %d MiB", maxFiles>>20)
		case err != nil:
			return nil, fmt.Errorf("unpacking the archive: %w", err)
		}
		// The first directory has the name of the chart.
		_, name, inDirectory := strings.Cut(path.Clean(header.Name), "/")
		if header.Typeflag != tar.TypeReg || !inDirectory || !isRelevant(name) {
			continue
		}
		if contents[name], err = readLimited(archive, limitOf(name)); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", header.Name, err)
		}
	}
}

// isRelevant reports whether a file describes the chart or its values, or is a
// subchart.
func isRelevant(name string) bool {
	directory, base := path.Split(name)
	switch base {
	case "Chart.yaml", "values.yaml", "values.schema.json":
		return directory == "" || path.Base(path.Dir(path.Clean(directory))) == "charts"
	default:
		return path.Ext(base) == ".tgz" && path.Base(path.Clean(directory)) == "charts"
	}
}

func limitOf(name string) int64 {
	if path.Ext(name) == ".tgz" {
		return maxArchive
	}
	return maxFile
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
