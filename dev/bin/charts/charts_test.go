package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	repo "helm.sh/helm/v4/pkg/repo/v1"
)

// writeChart packs a small chart, as Karpenter's module carries its own.
func writeChart(t *testing.T, out string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"chart/.helmignore":          "test.yaml\n",
		"chart/Chart.yaml":           "apiVersion: v2\nname: small\nversion: 0.9.0\nappVersion: 0.9.0\n",
		"chart/values.yaml":          "controller:\n  image:\n    # -- The tag.\n    tag: 0.9.0\n    # -- The digest.\n    digest: sha256:abc\n",
		"chart/test.yaml":            "not: packed\n",
		"chart/templates/empty.yaml": "",
		"crds/things.yaml":           "kind: CustomResourceDefinition\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := load(root, source{name: "small", dir: "chart", crds: "crds", release: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := save(c, out); err != nil {
		t.Fatal(err)
	}
}

func TestLoad_setsReleaseAndCRDs(t *testing.T) {
	dir := t.TempDir()
	writeChart(t, dir)
	c, err := loader.LoadFile(filepath.Join(dir, "small-1.0.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.AppVersion != "1.0.0" {
		t.Errorf("appVersion is %s", c.Metadata.AppVersion)
	}
	if len(c.CRDObjects()) != 1 {
		t.Errorf("%d CRDs, want 1", len(c.CRDObjects()))
	}
	image := c.Values["controller"].(map[string]any)["image"].(map[string]any)
	if image["tag"] != "1.0.0" || image["digest"] != "" {
		t.Errorf("image is %v", image)
	}
	for _, f := range c.Files {
		if f.Name == "test.yaml" {
			t.Error("test.yaml was packed, which .helmignore names")
		}
	}
}

func TestLoad_isReproducible(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	writeChart(t, first)
	writeChart(t, second)
	a, err := os.ReadFile(filepath.Join(first, "small-1.0.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(second, "small-1.0.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the archives differ")
	}
}

func TestSetImage_rejectsValuesWithoutImage(t *testing.T) {
	if _, err := setImage([]byte("replicas: 2\n"), "1.0.0"); err == nil {
		t.Error("values without an image were taken")
	}
}

func TestServe_servesHelmRepositoryAndRegistry(t *testing.T) {
	dir := t.TempDir()
	writeChart(t, dir)
	s := &server{dir: dir, address: "127.0.0.1:0", addressFile: filepath.Join(t.TempDir(), "address"), log: io.Discard}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	address := waitForFile(t, s.addressFile)

	if got := get(t, "http://"+address+"/healthz"); got != "ok\n" {
		t.Errorf("healthz says %q", got)
	}
	indexFile := filepath.Join(t.TempDir(), "index.yaml")
	if err := os.WriteFile(indexFile, []byte(get(t, "http://"+address+"/index.yaml")), 0o644); err != nil {
		t.Fatal(err)
	}
	index, err := repo.LoadIndexFile(indexFile)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := index.Get("small", "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loader.LoadArchive(strings.NewReader(get(t, "http://"+address+"/"+entry.URLs[0]))); err != nil {
		t.Errorf("reading the chart of the Helm repository: %v", err)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(address + "/charts/small:1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if pulled.Chart.Meta.Name != "small" {
		t.Errorf("pulled %q", pulled.Chart.Meta.Name)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestServe_suggestsPackForEmptyDirectory(t *testing.T) {
	err := (&server{dir: t.TempDir(), address: "127.0.0.1:0", log: io.Discard}).run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "charts pack --out") {
		t.Errorf("got %v", err)
	}
}

func waitForFile(t *testing.T, path string) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the address was not written in 30 s")
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s: %s", url, answer.Status, body)
	}
	return string(body)
}
