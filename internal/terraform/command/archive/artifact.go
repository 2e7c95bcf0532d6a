package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/message"
)

const (
	// maxEntries limits the number of files of an artifact, and that of directories.
	maxEntries = 20_000
	// maxName limits the size of a file's name in an error.
	maxName = 256
)

// UnpackArtifact unpacks a compressed tar into an empty directory. It refuses links, as
// Flux does, because they may lead out of the directory.
func UnpackArtifact(content []byte, dir string) error {
	directory, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = directory.Close() }()
	entries, directories := 0, map[string]bool{}
	return each(content, func(header *tar.Header, reader io.Reader) error {
		entries++
		name := filepath.Clean(filepath.FromSlash(header.Name))
		for parent := filepath.Dir(name); !directories[parent] && len(directories) <= maxEntries; parent = filepath.Dir(parent) {
			directories[parent] = true
		}
		if entries > maxEntries || len(directories) > maxEntries {
			return fmt.Errorf("the archive has more than %d files or directories", maxEntries)
		}
		return unpackEntry(directory, name, header, reader)
	})
}

// each calls handle with each entry of a compressed tar. It limits the bytes of the
// archive and the size of the files, because sparse files have few bytes.
func each(archive []byte, handle func(*tar.Header, io.Reader) error) error {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("not a compressed tar: %w", err)
	}
	limited := &io.LimitedReader{R: zip, N: maxContent}
	reader, left := tar.NewReader(limited), int64(maxContent)
	for {
		header, err := reader.Next()
		if err == nil {
			left -= min(header.Size, left+1)
		}
		switch {
		case limited.N == 0 || left < 0:
			return fmt.Errorf("the archive has more than %d MiB", maxContent>>20)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := handle(header, reader); err != nil {
			return fmt.Errorf("%s: %w", message.Truncate(header.Name, maxName), err)
		}
	}
}

func unpackEntry(directory *os.Root, name string, header *tar.Header, content io.Reader) error {
	if !filepath.IsLocal(name) {
		return errors.New("the path is outside the artifact")
	}
	switch header.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		return directory.MkdirAll(name, 0o700)
	case tar.TypeReg:
	default:
		return errors.New("links and devices are not allowed in a module")
	}
	if err := directory.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := directory.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, os.FileMode(header.Mode).Perm()&0o700|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
