package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// user is the unprivileged user that the image runs as.
const user = 65532

// epoch is the modification time of every file, so that equal files result in equal
// images.
var epoch = time.Unix(0, 0).UTC()

// image is the content of an archive.
type image struct {
	tag        string
	entrypoint string
	files      []file
}

// file is a program of the image.
type file struct{ target, source string }

// write writes the archive atomically.
func (i image) write(out string) error {
	layer, err := os.CreateTemp(filepath.Dir(out), "layer-*")
	if err != nil {
		return fmt.Errorf("creating the layer: %w", err)
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest := sha256.New()
	if err := i.writeLayer(io.MultiWriter(layer, digest)); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("measuring the layer: %w", err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the layer: %w", err)
	}
	partial := out + ".partial"
	defer os.Remove(partial)
	archive, err := os.Create(partial)
	if err != nil {
		return fmt.Errorf("creating the archive: %w", err)
	}
	defer archive.Close()
	if err := i.writeArchive(archive, layer, size, hex.EncodeToString(digest.Sum(nil))); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := os.Rename(partial, out); err != nil {
		return fmt.Errorf("renaming the archive: %w", err)
	}
	return nil
}

func (i image) writeLayer(w io.Writer) error {
	t := tar.NewWriter(w)
	for _, dir := range i.directories() {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode, ModTime: epoch}); err != nil {
			return fmt.Errorf("writing %s: %w", dir, err)
		}
	}
	// Git and ssh look up their user.
	passwd := fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\ncapt:x:%d:%d:capt:/tmp:/sbin/nologin\n", user, user)
	if err := addBytes(t, "etc/passwd", []byte(passwd)); err != nil {
		return err
	}
	for _, f := range i.files {
		if err := f.add(t); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("writing the layer: %w", err)
	}
	return nil
}

// directories returns every directory of the image, parents first.
func (i image) directories() []string {
	seen := map[string]bool{"etc/": true, "tmp/": true}
	for _, f := range i.files {
		for dir := path.Dir(f.target); dir != "."; dir = path.Dir(dir) {
			seen[dir+"/"] = true
		}
	}
	list := make([]string, 0, len(seen))
	for dir := range seen {
		list = append(list, dir)
	}
	slices.Sort(list)
	return list
}

func (f file) add(t *tar.Writer) error {
	source, err := os.Open(f.source)
	if err != nil {
		return fmt.Errorf("reading a program: %w", err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("reading a program: %w", err)
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.target, Mode: 0o755, Size: info.Size(), ModTime: epoch}); err != nil {
		return fmt.Errorf("writing %s: %w", f.target, err)
	}
	if _, err := io.Copy(t, source); err != nil {
		return fmt.Errorf("writing %s: %w", f.target, err)
	}
	return nil
}

func addBytes(t *tar.Writer, name string, content []byte) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: epoch}); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if _, err := t.Write(content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// writeArchive writes layer, configuration and manifest.
func (i image) writeArchive(w io.Writer, layer io.Reader, size int64, diffID string) error {
	config := map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": epoch,
		"config": map[string]any{
			"User":       fmt.Sprintf("%d:%d", user, user),
			"Env":        []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			"Entrypoint": slices.DeleteFunc([]string{i.entrypoint}, func(s string) bool { return s == "" }),
			"WorkingDir": "/",
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + diffID}},
		"history": []map[string]any{{"created": epoch, "created_by": "image"}},
	}
	configText, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	sum := sha256.Sum256(configText)
	configName, layerName := hex.EncodeToString(sum[:])+".json", diffID+".tar"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{i.tag}, "Layers": []string{layerName},
	}})
	if err != nil {
		return fmt.Errorf("encoding the manifest: %w", err)
	}
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: layerName, Mode: 0o644, Size: size, ModTime: epoch}); err != nil {
		return fmt.Errorf("writing the layer: %w", err)
	}
	if _, err := io.Copy(t, layer); err != nil {
		return fmt.Errorf("writing the layer: %w", err)
	}
	if err := addBytes(t, configName, configText); err != nil {
		return err
	}
	if err := addBytes(t, "manifest.json", manifest); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}
