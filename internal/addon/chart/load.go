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
)

// Load reads a chart from a directory or from a .tgz.
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
	return unpack(data, 0)
}

func loadDirectory(root string) (*Chart, error) {
	contents := files{}
	total := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() || !wanted(name):
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
	return assemble(contents, 0)
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readLimited(file, limitOf(name))
}

// unpack reads a chart from the bytes of a .tgz.
func unpack(data []byte, depth int) (*Chart, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("it is no .tgz: %w", err)
	}
	archive := tar.NewReader(io.LimitReader(zipped, maxFiles))
	contents := files{}
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return assemble(contents, depth)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("the archive breaks off, or holds more than %d MiB", maxFiles>>20)
		case err != nil:
			return nil, fmt.Errorf("unpacking it: %w", err)
		}
		// The first folder has the chart's name.
		_, name, inFolder := strings.Cut(path.Clean(header.Name), "/")
		if header.Typeflag != tar.TypeReg || !inFolder || !wanted(name) {
			continue
		}
		if contents[name], err = readLimited(archive, limitOf(name)); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", header.Name, err)
		}
	}
}

// wanted tells whether a file says something of the values.
func wanted(name string) bool {
	folder, base := path.Split(name)
	switch base {
	case "Chart.yaml", "values.yaml", "values.schema.json":
		return folder == "" || path.Base(path.Dir(path.Clean(folder))) == "charts"
	default:
		return path.Ext(base) == ".tgz" && path.Base(path.Clean(folder)) == "charts"
	}
}

func limitOf(name string) int64 {
	if path.Ext(name) == ".tgz" {
		return maxArchive
	}
	return maxFile
}

// readLimited reads everything, or fails if there is more than limit.
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
	return fmt.Errorf("it holds more than %d MiB", limit>>20)
}
