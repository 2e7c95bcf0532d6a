package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// output is an image with its name in a registry and what refers to it.
type output struct {
	tag          name.Tag
	built        *built
	attestations []v1.Image
}

// names are the annotations by which containerd and other tools know the name of an
// image in a layout.
func names(tag name.Tag) map[string]string {
	return map[string]string{"org.opencontainers.image.ref.name": tag.Name(), "io.containerd.image.name": tag.Name()}
}

// writeLayout replaces a directory with an OCI layout of images and their attestations.
func writeLayout(dir string, outputs []output) error {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(partial) }()
	to, err := layout.Write(partial, empty.Index)
	if err != nil {
		return err
	}
	for _, o := range outputs {
		if err := to.AppendIndex(o.built.index, layout.WithAnnotations(names(o.tag))); err != nil {
			return fmt.Errorf("writing image %s: %w", o.tag, err)
		}
		for _, a := range o.attestations {
			if err := to.AppendImage(a); err != nil {
				return fmt.Errorf("writing an attestation of %s: %w", o.tag, err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

// writeArchive writes the image of one platform as a tar archive of an OCI layout, for
// `ctr images import`, `podman load` and `docker load`.
func writeArchive(path string, tag name.Tag, image v1.Image) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), "layout-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := to.AppendImage(image, layout.WithAnnotations(names(tag))); err != nil {
		return err
	}
	files := tree{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		files[inside] = file{kind: tar.TypeReg, mode: 0o644, source: path, time: time.Unix(0, 0)}
		return err
	})
	if err != nil {
		return err
	}
	files.addParents(time.Unix(0, 0))
	archive, err := os.Create(path + ".partial")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := errors.Join(files.write(archive), archive.Close()); err != nil {
		return err
	}
	return os.Rename(archive.Name(), path)
}

func archiveName(o output, platform v1.Platform) string {
	return fmt.Sprintf("%s_%s.tar", o.built.name, strings.ReplaceAll(platform.String(), "/", "_"))
}
