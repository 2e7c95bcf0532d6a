package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a compressed layer in a file. go-containerregistry's own layers compress
// their content each time it is read.
type layer struct {
	path         string
	diffID, hash v1.Hash
	size         int64
}

// newLayer returns the layer of a tree. The compressed layer is kept in the cache,
// because most layers do not change between builds.
func newLayer(t tree, cache string) (v1.Layer, error) {
	digest := sha256.New()
	if err := t.write(digest); err != nil {
		return nil, err
	}
	l := &layer{diffID: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(digest.Sum(nil))}}
	// The result of a compression depends on the version of Go.
	l.path = filepath.Join(cache, l.diffID.Hex+"-"+runtime.Version()+".tar.gz")
	if _, err := os.Stat(l.path); errors.Is(err, os.ErrNotExist) {
		if err := compress(t, l.path); err != nil {
			return nil, fmt.Errorf("compressing a layer: %w", err)
		}
	}
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("reading a layer: %w", err)
	}
	defer file.Close()
	l.hash, l.size, err = v1.SHA256(file)
	return l, err
}

// compress writes the file atomically.
func compress(t tree, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(path), "partial-*")
	if err != nil {
		return err
	}
	defer os.Remove(partial.Name())
	defer partial.Close()
	z := gzip.NewWriter(partial)
	if err := errors.Join(t.write(z), z.Close(), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), path)
}

// Digest implements v1.Layer.
func (l *layer) Digest() (v1.Hash, error) { return l.hash, nil }

// DiffID implements v1.Layer.
func (l *layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size implements v1.Layer.
func (l *layer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (l *layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed implements v1.Layer.
func (l *layer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed implements v1.Layer.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{z, file}, nil
}
