package chart

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Limits of a chart with all of its subcharts.
const (
	// maxArchive limits the size of its archive, and maxUnpacked that of all files in it and in
	// the archives of its subcharts. Only a few of the files are kept.
	maxArchive  = 5 << 20
	maxUnpacked = 64 << 20
	// maxKept limits what is kept: files, their paths, and fileSize for each.
	maxKept  = 4 << 20
	fileSize = 1 << 10
)

// collector collects the relevant files of a chart. An archive of a subchart is not kept: its
// files are collected as those of a directory.
type collector struct {
	files files
	// kept and unpacked count what is limited.
	kept, unpacked int64
}

// unpack collects the files of a .tgz archive. The path is that of its chart, or "".
func (c *collector) unpack(from io.Reader, under string) error {
	zipped, err := gzip.NewReader(from)
	if err != nil {
		return fmt.Errorf("not a .tgz archive: %w", err)
	}
	archive := tar.NewReader(counter{c, zipped})
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
		if err := c.unpack(from, name); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		return nil
	}
	c.kept += fileSize + int64(len(name))
	data, err := io.ReadAll(io.LimitReader(from, maxKept-c.kept+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if c.kept += int64(len(data)); c.kept > maxKept {
		return fmt.Errorf("the values of the chart and its subcharts have more than %d MiB", maxKept>>20)
	}
	c.files[name] = data
	return nil
}

// counter counts the bytes of archives, also those in others.
type counter struct {
	*collector

	from io.Reader
}

func (c counter) Read(into []byte) (int, error) {
	n, err := c.from.Read(into)
	if c.unpacked += int64(n); c.unpacked > maxUnpacked {
		return 0, fmt.Errorf("the archives are %w", tooLarge(maxUnpacked))
	}
	return n, err
}

// maxPath limits the length of the path of a file. Others are ignored.
const maxPath = 512

// isRelevant reports whether a file describes the chart, a subchart or their values, or is the
// archive of a subchart.
func isRelevant(name string) bool {
	if len(name) > maxPath {
		return false
	}
	switch insideSubchart(name) {
	case "Chart.yaml", "values.yaml", "values.schema.json":
		return true
	default:
		return isArchive(name)
	}
}

// isArchive reports whether a file is the archive of a subchart.
func isArchive(name string) bool {
	inside := insideSubchart(name)
	return strings.HasPrefix(inside, "charts/") && path.Ext(inside) == ".tgz"
}

// insideSubchart returns the path of a file inside its innermost chart.
func insideSubchart(name string) string {
	for {
		subchart, found := strings.CutPrefix(name, "charts/")
		_, rest, isDirectory := strings.Cut(subchart, "/")
		if !found || !isDirectory {
			return name
		}
		name = rest
	}
}
