package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite_isReproducible(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("not really"), 0o700); err != nil {
		t.Fatal(err)
	}
	img := image{tag: "example.com/thing:v1", entrypoint: "/usr/local/bin/program", files: []file{{target: "usr/local/bin/program", source: program}}}
	first, second := filepath.Join(dir, "first.tar"), filepath.Join(dir, "second.tar")
	for _, out := range []string{first, second} {
		if err := img.write(out); err != nil {
			t.Fatal(err)
		}
	}
	one, two := read(t, first), read(t, second)
	if !bytes.Equal(one, two) {
		t.Fatal("the same files gave two images")
	}

	files := untar(t, one)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != img.tag || len(manifest[0].Layers) != 1 {
		t.Fatalf("unexpected manifest: %s", files["manifest.json"])
	}
	var config struct {
		Config struct{ User string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	sum := sha256.Sum256(layer)
	if config.RootFS.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("the configuration names another layer: %v", config.RootFS.DiffIDs)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("the image runs as %q", config.Config.User)
	}
	if got := untar(t, layer)["usr/local/bin/program"]; string(got) != "not really" {
		t.Errorf("the program is %q", got)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = content
	}
}
