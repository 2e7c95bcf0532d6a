package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/appthrust/capt/dev/image/debian"
	"github.com/appthrust/capt/dev/revision"
)

// pushTree returns a repository with a lock, and the images that were built of it.
func pushTree(t *testing.T, registry, platforms string) (pushOptions, *builder) {
	t.Helper()
	o := pushOptions{root: t.TempDir(), layout: filepath.Join(t.TempDir(), "images")}
	b := newBuilder(t, newProgram(t))
	o.now = b.lock.Date.Add(lockAge)
	var lock strings.Builder
	if err := b.lock.Write(&lock); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, o.root, map[string]string{
		"internal/version/VERSION": "v1.2.3\n", "dev/image/debian.lock": lock.String(),
		"versions.mk": "GO_VERSION := v" + strings.TrimPrefix(runtime.Version(), "go") + "\n",
	})
	commit(t, o.root)
	source, err := revision.ReadSource(t.Context(), o.root)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parsePlatforms(platforms)
	if err != nil {
		t.Fatal(err)
	}
	image, err := b.build(t.Context(), definitions[0], parsed)
	if err != nil {
		t.Fatal(err)
	}
	result, err := image.output(registry, b)
	if err != nil {
		t.Fatal(err)
	}
	build := buildOptions{out: o.layout}
	if err := build.write(source, []output{result}); err != nil {
		t.Fatal(err)
	}
	return o, b
}

func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func commit(t *testing.T, root string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"}} {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

func (o pushOptions) checked(t *testing.T) error {
	t.Helper()
	images, err := readLayout(o.layout)
	if err != nil {
		t.Fatal(err)
	}
	return o.check(t.Context(), images)
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestPush_refusesIncompleteReleases(t *testing.T) {
	o, _ := pushTree(t, publicRegistry, allPlatforms)
	wantError(t, o.checked(t), "")
	o, _ = pushTree(t, publicRegistry, "linux/amd64,linux/s390x")
	wantError(t, o.checked(t), "capt:v1.2.3 lacks linux/arm64, linux/ppc64le")
	o, _ = pushTree(t, "registry.example.com/private", "linux/amd64")
	wantError(t, o.checked(t), "")
}

func TestPush_refusesImagesOfAnotherTree(t *testing.T) {
	o, _ := pushTree(t, publicRegistry, allPlatforms)
	writeFiles(t, o.root, map[string]string{"versions.mk": "GO_VERSION := v1.2.3\n"})
	wantError(t, o.checked(t), "releases are built with go1.2.3")
	commit(t, o.root)
	wantError(t, o.checked(t), "build them again")
}

func TestPush_refusesPackagesWithoutUpdates(t *testing.T) {
	o, b := pushTree(t, "registry.example.com/private", allPlatforms)
	var text strings.Builder
	newer := b.lock
	newer.Packages = map[string][]debian.Package{}
	for architecture, packages := range b.lock.Packages {
		for _, p := range packages {
			if p.Name == "git" && architecture != "s390x" {
				p.Version, p.Archive = "2:2", "debian-security"
			}
			newer.Packages[architecture] = append(newer.Packages[architecture], p)
		}
	}
	if err := newer.Write(&text); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, o.root, map[string]string{"dev/image/debian.lock": text.String()})
	err := o.checked(t)
	wantError(t, err, "packages for s390x lack updates")
	wantError(t, err, "ALLOW_OUTDATED=1: git 1:1-s390x (others have 2:2)")
	if err != nil && strings.Contains(err.Error(), "amd64") {
		t.Errorf("an architecture with updates is refused: %v", err)
	}
	o.now = o.now.Add(25 * time.Hour)
	wantError(t, o.checked(t), "the packages were pinned 31 days ago")
	o.allowOutdated = true
	wantError(t, o.checked(t), "")
}
