package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const (
	program   = "#!/bin/sh\necho stand-in v1.3.2, published\n"
	published = "stand-in v1.3.2, published"
	compiled  = "stand-in v1.3.2, compiled"
)

// publisher serves releases of a stand-in program, which can also be compiled.
type publisher struct {
	t      *testing.T
	server *httptest.Server
	store  store
	part   part
	// files are the published files by path.
	files map[string]http.HandlerFunc

	mutex    sync.Mutex
	requests []string
}

func content(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func sumText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// newPublisher publishes the program of a release at its address on the mirror.
func newPublisher(t *testing.T, r release, published string) *publisher {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH"))
	p := &publisher{t: t, files: map[string]http.HandlerFunc{}}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		p.mutex.Lock()
		p.requests = append(p.requests, request.URL.Path)
		p.mutex.Unlock()
		if serve := p.files[request.URL.Path]; serve != nil {
			serve(w, request)
			return
		}
		http.NotFound(w, request)
	}))
	t.Cleanup(p.server.Close)
	modules := writeSource(t, map[string]string{
		"m/go.mod":       "module example.com/m\n\ngo 1.26.0\n\nrequire example.com/thing v1.3.2\n\nreplace example.com/thing => ./thing\n",
		"m/go.sum":       "",
		"m/thing/go.mod": "module example.com/thing\n",
		"m/main.go":      "package main\n\nfunc main() { println(\"" + compiled + "\") }\n",
	})
	p.part = part{name: "stand-in", module: "m", pkg: "example.com/m", versionOf: "example.com/thing", versionArgs: []string{"version"}}
	p.store = store{modules: modules, cache: t.TempDir(), goos: runtime.GOOS, goarch: runtime.GOARCH, sums: checksums{}}
	p.store.net = newDownloader(p.server.URL)
	releases[p.part.name] = &r
	t.Cleanup(func() { delete(releases, p.part.name) })
	p.serve(r.url, content(published))
	return p
}

func (p *publisher) serve(address string, with http.HandlerFunc) {
	p.files["/"+strings.TrimPrefix(address, "https://")] = with
}

// pin adds the checksum of a text to those of the store.
func (p *publisher) pin(text string) {
	p.store.sums[checksumKey(p.part.name, "v1.3.2", p.store.goos, p.store.goarch)] = sumText(text)
}

// provide provides the program and returns what it prints and the progress.
func (p *publisher) provide(ctx context.Context) (prints, progress string) {
	p.t.Helper()
	link := filepath.Join(p.t.TempDir(), "bin")
	var log bytes.Buffer
	if err := p.store.provide(ctx, &log, []part{p.part}, link); err != nil {
		p.t.Fatalf("%v\n%s", err, &log)
	}
	out, err := exec.CommandContext(p.t.Context(), filepath.Join(link, p.part.name)).CombinedOutput()
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), log.String()
}

func (p *publisher) expect(progressHas ...string) func(want string) {
	p.t.Helper()
	return func(want string) {
		p.t.Helper()
		prints, progress := p.provide(p.t.Context())
		if prints != want {
			p.t.Errorf("the program prints %q, want %q:\n%s", prints, want, progress)
		}
		for _, text := range progressHas {
			if !strings.Contains(progress, text) {
				p.t.Errorf("the progress does not have %q:\n%s", text, progress)
			}
		}
	}
}

// left returns the downloads and programs in the cache besides compiled ones.
func (p *publisher) left() []string {
	p.t.Helper()
	var all []string
	for _, pattern := range []string{"download-*", "*/*-release-*/*", "*/*/*.partial*"} {
		found, err := filepath.Glob(filepath.Join(p.store.cache, pattern))
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

func tarGz(t *testing.T, entries ...*tar.Header) string {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for _, header := range entries {
		text := "other"
		if strings.HasSuffix(header.Name, "/tool") || header.Name == "tool" {
			text = program
		}
		if header.Typeflag == tar.TypeReg {
			header.Size, header.Mode = int64(len(text)), 0o755
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := archive.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func zipped(t *testing.T) string {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for name, text := range map[string]string{"README": "other", "d/tool": program} {
		w, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}
