package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"
)

// tree is the content of a layer: files by their names, without a leading slash.
type tree map[string]file

// file is a regular file, a directory or a symbolic link.
type file struct {
	kind byte
	mode int64
	time time.Time
	// link is the target of a symbolic link.
	link string
	// content is that of a regular file, unless it is read from source.
	content []byte
	source  string
}

func (t tree) add(name string, content []byte, at time.Time) {
	t[name] = file{kind: tar.TypeReg, mode: 0o644, content: content, time: at}
}

func (t tree) addProgram(name, source string, at time.Time) {
	t[name] = file{kind: tar.TypeReg, mode: 0o755, source: source, time: at}
}

func (t tree) addDirectory(name string, mode int64, at time.Time) {
	t[name] = file{kind: tar.TypeDir, mode: mode, time: at}
}

func (t tree) addLink(name, target string, at time.Time) {
	t[name] = file{kind: tar.TypeSymlink, mode: 0o777, link: target, time: at}
}

// addParents adds the directories of all files that are missing.
func (t tree) addParents(at time.Time) {
	for _, name := range t.names() {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, found := t[dir]; !found {
				t.addDirectory(dir, 0o755, at)
			}
		}
	}
}

func (t tree) names() []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// write writes a tar archive. Equal trees result in equal archives.
func (t tree) write(w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, name := range t.names() {
		if err := t[name].write(archive, name); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return archive.Close()
}

// open returns the tar archive.
func (t tree) open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(t.write(w)) }()
	return r, nil
}

func (f file) write(archive *tar.Writer, name string) error {
	header := &tar.Header{
		Typeflag: f.kind, Name: name, Mode: f.mode, ModTime: f.time.UTC().Truncate(time.Second), Linkname: f.link, Format: tar.FormatPAX,
	}
	switch f.kind {
	case tar.TypeDir:
		header.Name += "/"
	case tar.TypeReg:
		content, size, err := f.open()
		if err != nil {
			return err
		}
		defer content.Close()
		header.Size = size
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = io.Copy(archive, content)
		return err
	}
	return archive.WriteHeader(header)
}

func (f file) open() (io.ReadCloser, int64, error) {
	if f.source == "" {
		return io.NopCloser(bytes.NewReader(f.content)), int64(len(f.content)), nil
	}
	source, err := os.Open(f.source)
	if err != nil {
		return nil, 0, err
	}
	info, err := source.Stat()
	if err != nil {
		source.Close()
		return nil, 0, err
	}
	return source, info.Size(), nil
}
