package chart

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Limits of a chart with all of its subcharts.
const (
	// maxArchives limits the number of archives, and maxPacked their size.
	maxArchives = 200
	maxPacked   = 16 << 20
	// maxFiles limits the size of what they contain. Only a few of the files are kept.
	maxFiles = 64 << 20
	// maxKept limits what is kept: files, their paths, and fileSize for each.
	maxKept  = 4 << 20
	fileSize = 1 << 10
	// maxDepth limits how deep subcharts are nested.
	maxDepth = 4
)

// maxPath limits the length of the path of a file. Others are ignored.
const maxPath = 512

// collector collects the relevant files of a chart. An archive of a subchart is not kept: its
// files are collected as those of a directory.
type collector struct {
	// ended returns an error if collecting must end.
	ended func() error
	files files
	kept  int
	// archives, packed and unpacked count the archives, their bytes, and those of their content.
	archives         int
	packed, unpacked int64
}

func newCollector(ctx context.Context) *collector {
	return &collector{ended: ctx.Err, files: files{}}
}

// unpack collects the files of a .tgz archive. The path is that of its chart, or "".
func (c *collector) unpack(from io.Reader, under string) error {
	if c.archives++; c.archives > maxArchives {
		return fmt.Errorf("the chart has more than %d archives", maxArchives)
	}
	zipped, err := gzip.NewReader(&meter{collector: c, from: from, read: &c.packed, limit: maxPacked})
	if err != nil {
		return fmt.Errorf("not a .tgz archive: %w", err)
	}
	archive := tar.NewReader(&meter{collector: c, from: zipped, read: &c.unpacked, limit: maxFiles})
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && c.files[path.Join(under, "Chart.yaml")] == nil:
			return errNoChart
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the archive is truncated")
		case err != nil:
			return fmt.Errorf("unpacking the archive: %w", err)
		}
		// The first directory has the name of the chart.
		_, name, inDirectory := strings.Cut(path.Clean(header.Name), "/")
		name = path.Join(under, name)
		if header.Typeflag != tar.TypeReg || !inDirectory || !isRelevant(name) {
			continue
		}
		if err := c.add(name, archive); err != nil {
			return err
		}
	}
}

// add collects a relevant file.
func (c *collector) add(name string, from io.Reader) error {
	if isArchive(name) {
		if err := c.unpack(&limited{from: from, left: maxArchive}, name); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		return nil
	}
	data, err := readLimited(from, maxFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if c.kept += fileSize + len(name) + len(data); c.kept > maxKept {
		return fmt.Errorf("the values of the chart and its subcharts have more than %d MiB", maxKept>>20)
	}
	c.files[name] = data
	return nil
}

// meter reads what is counted for the whole chart.
type meter struct {
	*collector

	from  io.Reader
	read  *int64
	limit int64
}

func (m *meter) Read(into []byte) (int, error) {
	if err := m.ended(); err != nil {
		return 0, err
	}
	n, err := m.from.Read(into)
	if *m.read += int64(n); *m.read > m.limit {
		return 0, fmt.Errorf("the archives are %w", tooLarge(m.limit))
	}
	return n, err
}

// limited fails if there is more to read than is left.
type limited struct {
	from io.Reader
	left int64
}

func (l *limited) Read(into []byte) (int, error) {
	n, err := l.from.Read(into)
	if l.left -= int64(n); l.left < 0 {
		return 0, tooLarge(maxArchive)
	}
	return n, err
}

// isRelevant reports whether a file describes the chart, a subchart or their values, or is the
// archive of a subchart.
func isRelevant(name string) bool {
	if len(name) > maxPath {
		return false
	}
	depth, inside := locate(name)
	switch inside {
	case "Chart.yaml", "values.yaml", "values.schema.json":
		return depth <= maxDepth
	default:
		return depth < maxDepth && isArchive(name)
	}
}

// isArchive reports whether a file is the archive of a subchart.
func isArchive(name string) bool {
	_, inside := locate(name)
	return strings.HasPrefix(inside, "charts/") && path.Ext(inside) == ".tgz"
}

// locate returns the depth of the subchart of a file, and the path of the file inside it.
func locate(name string) (depth int, inside string) {
	for inside = name; ; depth++ {
		subchart, found := strings.CutPrefix(inside, "charts/")
		_, rest, isDirectory := strings.Cut(subchart, "/")
		if !found || !isDirectory {
			return depth, inside
		}
		inside = rest
	}
}
