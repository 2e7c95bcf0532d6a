package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/appthrust/capt/dev/image/debian"
	"github.com/appthrust/capt/dev/revision"
)

const allPlatforms = "linux/amd64,linux/arm64,linux/s390x,linux/ppc64le"

// fakePrograms returns one small program for every platform.
type fakePrograms struct{ path string }

func (f fakePrograms) compile(context.Context, v1.Platform, string) (string, error) {
	return f.path, nil
}

func (f fakePrograms) part(context.Context, v1.Platform, string) (string, error) { return f.path, nil }

func (f fakePrograms) sources(_ context.Context, _ string, modules []debug.Module) (map[string]string, error) {
	dirs := map[string]string{}
	for _, module := range modules {
		dirs[module.Path] = filepath.Dir(f.path)
	}
	return dirs, nil
}

func newProgram(t *testing.T) fakePrograms {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{
		"go.mod": "module example.com/program\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n",
		"LICENSE": "the licence", "NOTICE.txt": "the notice", "licenses.go": "package main\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", "program", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return fakePrograms{path: filepath.Join(dir, "program")}
}

// debFile is a file of a package. A name that ends with a slash is a directory.
type debFile struct{ name, content, link string }

// writeDeb writes a package without compression and returns its checksum.
func writeDeb(t *testing.T, dir, control string, files []debFile) string {
	t.Helper()
	var archive bytes.Buffer
	fmt.Fprintf(&archive, "!<arch>\n%-16s%-12d%-6d%-6d%-8s%-10d`\n2.0\n", "debian-binary", 0, 0, 0, "100644", 4)
	for _, member := range []struct {
		name  string
		files []debFile
	}{
		{"control.tar", []debFile{{name: "./control", content: control}, {name: "./md5sums", content: "sums"}}},
		{"data.tar", files},
	} {
		var body bytes.Buffer
		w := tar.NewWriter(&body)
		for _, f := range member.files {
			header := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: 0o4755, Size: int64(len(f.content)), ModTime: time.Unix(5, 0)}
			if f.link != "" {
				header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
			} else if strings.HasSuffix(f.name, "/") {
				header.Typeflag = tar.TypeDir
			}
			if err := w.WriteHeader(header); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, f.content); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&archive, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", member.name, 0, 0, 0, "100644", body.Len(), body.Bytes())
	}
	sum := sha256.Sum256(archive.Bytes())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, hex.EncodeToString(sum[:])+".deb"), archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}

// newBuilder returns a builder of small images for all platforms. Its packages are in
// the cache, so that it needs no network.
func newBuilder(t *testing.T, programs programs) *builder {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	b := &builder{
		programs: programs, cache: t.TempDir(), mirror: "http://invalid.invalid", version: "v1.2.3",
		source:   revision.Source{Version: "v1.2.3", Commit: "0123", Time: time.Unix(1000, 0).UTC()},
		lock:     debian.Lock{Release: "13", Date: time.Unix(2000, 0).UTC(), Packages: map[string][]debian.Package{}},
		progress: io.Discard, pageLock: filepath.Join(t.TempDir(), "package-lock.json"),
	}
	const packages = `{"packages": {
		"": {"version": "0.0.0"}, "node_modules/preact": {"version": "1.2.3"}, "node_modules/@scope/part": {"version": "4.5.6"},
		"node_modules/vite": {"version": "7.8.9", "dev": true}}}`
	if err := os.WriteFile(b.pageLock, []byte(packages), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, architecture := range architectures {
		for _, p := range []struct {
			name, depends string
			files         []debFile
		}{
			{"base-files", "awk", []debFile{
				{name: "./lib", link: "usr/lib"},
				{name: "./usr/lib/os-release", content: "ID=debian"},
				{name: "./usr/games/"},
				{name: "./usr/share/doc/base-files/README", content: "text"},
				{name: "./usr/share/doc/base-files/copyright", content: "licence"},
			}},
			{"busybox-static", "", []debFile{{name: "./bin/busybox", content: "busybox"}}},
			{"ca-certificates", "openssl, debconf | debconf-2.0", []debFile{
				{name: "./usr/share/ca-certificates/mozilla/B.crt", content: "second"},
				{name: "./usr/share/ca-certificates/mozilla/A.crt", content: "first\n"},
			}},
			{"git", "libc6 (>= 2), perl", []debFile{
				{name: "./usr/bin/git", content: "git"},
				{name: "./usr/lib/git-core/git", content: "git"},
				{name: "./usr/lib/git-core/git-svn", content: "perl"},
				{name: "./usr/share/man/man1/git.1.gz", content: "page"},
			}},
			{"libc6", "", []debFile{{name: "./lib/libc.so.6", content: "libc"}}},
			{"openssh-client", "libc6, passwd", []debFile{{name: "./usr/bin/ssh", content: "ssh"}}},
		} {
			control := fmt.Sprintf("Package: %s\nVersion: 1:1-%s\nDepends: %s\n", p.name, architecture, p.depends)
			b.lock.Packages[architecture] = append(b.lock.Packages[architecture], debian.Package{
				Name: p.name, Version: "1:1-" + architecture, Archive: "debian", Path: "pool/" + p.name,
				SHA256: writeDeb(t, filepath.Join(b.cache, "debian"), control, p.files),
			})
		}
	}
	return b
}

func buildAll(t *testing.T, b *builder, registry string) []output {
	t.Helper()
	platforms, err := parsePlatforms(allPlatforms)
	if err != nil {
		t.Fatal(err)
	}
	var outputs []output
	for _, d := range definitions {
		image, err := b.build(t.Context(), d, platforms)
		if err != nil {
			t.Fatal(err)
		}
		o, err := image.output(registry, b)
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, o)
	}
	return outputs
}

func TestBuild_isReproducible(t *testing.T) {
	programs := newProgram(t)
	var digests []string
	for range 2 {
		out := filepath.Join(t.TempDir(), "images")
		outputs := buildAll(t, newBuilder(t, programs), "ghcr.io/appthrust")
		if err := writeLayout(out, outputs); err != nil {
			t.Fatal(err)
		}
		for _, o := range outputs {
			for _, p := range o.built.platforms {
				if err := writeArchive(filepath.Join(out, archiveName(o, p.platform)), o.tag, p.image); err != nil {
					t.Fatal(err)
				}
			}
		}
		digests = append(digests, digestDirectory(t, out))
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds of the same source differ:\n%s\n\n%s", digests[0], digests[1])
	}
}

// digestDirectory returns the checksum of every file.
func digestDirectory(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		lines = append(lines, fmt.Sprintf("%x %s", sha256.Sum256(content), strings.TrimPrefix(path, dir)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestBuild_containsTheFilesThatProgramsNeed(t *testing.T) {
	outputs := buildAll(t, newBuilder(t, newProgram(t)), "ghcr.io/appthrust")
	for _, test := range []struct {
		image   int
		present map[string]string
		absent  []string
	}{
		{0, map[string]string{
			"manager": "", "etc/ssl/certs/ca-certificates.crt": "first\nsecond\n", "tmp": "", "usr/lib/os-release": "ID=debian",
			"etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\ncapt:x:65532:65532:capt:/tmp:/sbin/nologin\n",
		}, []string{"usr/bin/git", "usr/bin/sh", "usr/local/bin/tofu", "usr/games", "usr/share/ca-certificates"}},
		{1, map[string]string{
			"runner": "", "usr/local/bin/tofu": "", "usr/share/doc/tofu/copyright": "", "usr/share/doc/runner/copyright": "", "usr/bin/git": "git", "usr/bin/ssh": "ssh", "usr/bin/sh": "busybox", "usr/lib/libc.so.6": "libc",
			"usr/lib/git-core/git": "../../bin/git", "lib": "usr/lib", "usr/share/doc/base-files/copyright": "licence",
			"var/lib/dpkg/status.d/git": "Package: git\nVersion: 1:1-s390x\nDepends: libc6 (>= 2), perl\n", "var/lib/dpkg/status.d/git.md5sums": "sums",
			"etc/ssl/certs/ca-certificates.crt": "first\nsecond\n",
		}, []string{"usr/share/doc/base-files/README", "usr/lib/git-core/git-svn", "usr/share/man", "lib/libc.so.6"}},
	} {
		built := outputs[test.image].built
		t.Run(built.name, func(t *testing.T) {
			i := slices.IndexFunc(built.platforms, func(p platformImage) bool { return p.platform.Architecture == "s390x" })
			image := built.platforms[i].image
			if err := validate.Image(image); err != nil {
				t.Error(err)
			}
			files := readFiles(t, image)
			for name, content := range test.present {
				if got, found := files[name]; !found || content != "" && got != content {
					t.Errorf("%s is %q (%v), want %q", name, got, found, content)
				}
			}
			for _, name := range test.absent {
				if _, found := files[name]; found {
					t.Errorf("the image contains %s", name)
				}
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != "65532:65532" || config.Architecture != "s390x" || config.Config.Entrypoint[0] != "/"+built.program {
				t.Errorf("the configuration is %+v", config)
			}
		})
	}
}

// readFiles returns the contents of the files and the targets of the links of an image.
// It fails if a file belongs to a user or has a special mode.
func readFiles(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		archive := tar.NewReader(content)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			if header.Mode&0o6000 != 0 || header.Uid != 0 || header.Gid != 0 {
				t.Errorf("%s has mode %o and owner %d:%d", header.Name, header.Mode, header.Uid, header.Gid)
			}
			files[strings.TrimSuffix(header.Name, "/")] = string(text) + header.Linkname
		}
	}
	return files
}

// written returns what is read of the layout that images are written to.
func written(t *testing.T, outputs []output) []layoutImage {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "images")
	if err := writeLayout(dir, outputs); err != nil {
		t.Fatal(err)
	}
	images, err := readLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	return images
}

func TestPush_pushesPlatformsAndAttestations(t *testing.T) {
	for _, referrers := range []bool{true, false} {
		t.Run(fmt.Sprintf("referrers API %v", referrers), func(t *testing.T) {
			server := httptest.NewServer(registry.New(registry.WithReferrersSupport(referrers), registry.Logger(log.New(io.Discard, "", 0))))
			defer server.Close()
			host := strings.TrimPrefix(server.URL, "http://") + "/appthrust"
			b := newBuilder(t, newProgram(t))
			outputs := buildAll(t, b, host)
			for range 2 {
				if err := push(t.Context(), written(t, outputs)); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range definitions {
				checkPushed(t, host+"/"+d.name+":v1.2.3", d)
			}
			b.source.Time = time.Unix(9000, 0)
			err := push(t.Context(), written(t, buildAll(t, b, host)))
			if err == nil || !strings.Contains(err.Error(), "release another version") {
				t.Errorf("a tag was changed: %v", err)
			}
		})
	}
}

func checkPushed(t *testing.T, reference string, d definition) {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, child := range manifest.Manifests {
		platforms = append(platforms, child.Platform.String())
		var sbom spdx.Document
		readAttestation(t, tag.Digest(child.Digest.String()), sbomType, &sbom)
		checkSBOM(t, sbom, d)
	}
	if strings.Join(platforms, ",") != allPlatforms {
		t.Errorf("%s has platforms %v", reference, platforms)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	var provenance statement
	readAttestation(t, tag.Digest(digest.String()), provenanceType, &provenance)
	if len(provenance.Subject) != 5 || provenance.Subject[0].Digest["sha256"] != digest.Hex {
		t.Errorf("the provenance has subjects %v", provenance.Subject)
	}
	first := provenance.Predicate.BuildDefinition.ResolvedDependencies[0]
	if build := provenance.Predicate.BuildDefinition.BuildType; build != repository+"/tree/0123/dev/image" {
		t.Errorf("the provenance has the build type %s", build)
	}
	if first.Digest["gitCommit"] != "0123" {
		t.Errorf("the provenance names the source %v", first)
	}
}

func readAttestation(t *testing.T, subject name.Digest, artifactType string, into any) {
	t.Helper()
	referrers, err := remote.Referrers(subject)
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Manifests) != 1 {
		t.Fatalf("%s has %d referrers", subject, len(list.Manifests))
	}
	image, err := remote.Image(subject.Digest(list.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.ArtifactType != artifactType {
		t.Errorf("the referrer of %s has type %s", subject, manifest.ArtifactType)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if err := json.NewDecoder(content).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func checkSBOM(t *testing.T, sbom spdx.Document, d definition) {
	t.Helper()
	var urls []string
	for _, p := range sbom.Packages {
		for _, r := range p.PackageExternalReferences {
			urls = append(urls, r.Locator)
		}
	}
	text := strings.Join(urls, "\n")
	for _, want := range []string{
		"pkg:oci/" + d.name + "@sha256%3A", "pkg:deb/debian/ca-certificates@1%3A1-",
		"pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/example.com/program@v1.2.3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the SBOM of %s lacks %s:\n%s", d.name, want, text)
		}
	}
	for _, page := range []string{"pkg:npm/preact@1.2.3", "pkg:npm/%40scope/part@4.5.6"} {
		if strings.Contains(text, page) != (d.name == "capt-ui") {
			t.Errorf("the SBOM of %s lists the wrong packages of the page:\n%s", d.name, text)
		}
	}
	if strings.Contains(text, "pkg:npm/vite") || strings.Contains(text, "pkg:deb/debian/git@") != (d.name == "capt-runner") {
		t.Errorf("the SBOM of %s lists the wrong packages:\n%s", d.name, text)
	}
}

func TestWriteLayout_listsAttestations(t *testing.T) {
	out := filepath.Join(t.TempDir(), "images")
	outputs := buildAll(t, newBuilder(t, newProgram(t)), "ghcr.io/appthrust")
	// A directory of an earlier build is replaced.
	for range 2 {
		if err := writeLayout(out, outputs); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names, types []string
	for _, m := range manifest.Manifests {
		if name := m.Annotations["io.containerd.image.name"]; name != "" {
			names = append(names, name)
		} else {
			types = append(types, m.ArtifactType)
		}
	}
	if want := []string{"ghcr.io/appthrust/capt:v1.2.3", "ghcr.io/appthrust/capt-runner:v1.2.3", "ghcr.io/appthrust/capt-ui:v1.2.3"}; !slices.Equal(names, want) {
		t.Errorf("the layout has images %v", names)
	}
	once := []string{sbomType, sbomType, sbomType, sbomType, provenanceType}
	if want := slices.Concat(once, once, once); !slices.Equal(types, want) {
		t.Errorf("the layout has attestations %v", types)
	}
}

func TestParsePlatforms_refusesOthers(t *testing.T) {
	for _, list := range []string{"", "linux/riscv64", "windows/amd64", "linux/arm64/v8", "linux/amd64,"} {
		if _, err := parsePlatforms(list); err == nil {
			t.Errorf("platforms %q were accepted", list)
		}
	}
}

func TestLock_coversEveryPlatform(t *testing.T) {
	var wanted []string
	for _, architecture := range architectures {
		wanted = append(wanted, architecture)
	}
	lock, err := readLock("debian.lock", wanted)
	if err != nil {
		t.Fatal(err)
	}
	for architecture, packages := range lock.Packages {
		for _, name := range runnerPackages {
			if !slices.ContainsFunc(packages, func(p debian.Package) bool { return p.Name == name && len(p.SHA256) == 64 }) {
				t.Errorf("%s is not pinned for %s", name, architecture)
			}
		}
	}
}

func TestPack_isReproducible(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("not really"), 0o700); err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	for _, name := range []string{"one", "two"} {
		out := filepath.Join(dir, name+".tar")
		err := run(t.Context(), []string{
			"pack", "-tag", "example.com/thing:v1", "-entrypoint", "/usr/local/bin/program",
			"-o", out, "/usr/local/bin/program=" + program,
		})
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same files resulted in two images")
	}
	if !bytes.Contains(archives[0], []byte(`"io.containerd.image.name": "example.com/thing:v1"`)) {
		t.Error("the archive does not name the image")
	}
}

func TestLicences_listsEachTextOnce(t *testing.T) {
	text := string(formatLicences("tofu", map[string][]string{"two": {"example.com/c v1"}, "one\n": {"example.com/b v1", "example.com/a v2"}}))
	line := strings.Repeat("=", 80)
	want := "\n" + line + "\nexample.com/a v2\nexample.com/b v1\n\none\n\n" + line + "\nexample.com/c v1\n\ntwo\n"
	if _, list, _ := strings.Cut(text, "\n"); list != want {
		t.Errorf("got %q, want %q", list, want)
	}
	files := readFiles(t, buildAll(t, newBuilder(t, newProgram(t)), "example.com")[0].built.platforms[0].image)
	if text := files["usr/share/doc/manager/copyright"]; !strings.Contains(text, "the licence") || !strings.Contains(text, "the notice") || strings.Contains(text, "package main") {
		t.Errorf("the licences of the manager are %q", text)
	}
}

// The modules of a real program have licences in the module cache.
func TestToolchain_findsTheSourcesOfModules(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	modules := []debug.Module{{Path: "github.com/appthrust/capt"}, {Path: "golang.org/x/mod", Version: moduleVersion(t, "golang.org/x/mod"), Sum: "h1:x"}}
	dirs, err := (toolchain{root: filepath.Join(root, "dev")}).sources(t.Context(), "manager", modules)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := licenceTexts(dirs["golang.org/x/mod"])
	if err != nil || len(texts) == 0 || !strings.Contains(texts[0], "The Go Authors") {
		t.Errorf("got %q, %v", texts, err)
	}
	if dirs["github.com/appthrust/capt"] == "" {
		t.Error("the main module has no directory")
	}
}

func moduleVersion(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestGoURL_isInLowerCase(t *testing.T) {
	if url := goURL("github.com/KimMachineGun/automemlimit", "v0.7.5"); url != "pkg:golang/github.com/kimmachinegun/automemlimit@v0.7.5" {
		t.Error(url)
	}
}

func TestDependencies_haveDigests(t *testing.T) {
	list := dependencies([]component{{name: "m", purl: "pkg:golang/m@v1", sum: "h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48="}, {name: "p", purl: "pkg:golang/p@v1", sha256: "00"}})
	if got := list[0].Digest["dirHash1"]; got != "2a1bb6127fb481c60f67692e22285fb306f3c6ffe62075e0ccf674d7c3adcb8f" {
		t.Errorf("the digest is %q", got)
	}
	if list[1].Digest != nil {
		t.Errorf("a result has the digest %v", list[1].Digest)
	}
}

func TestWriteAttestations_listsWhatIsSigned(t *testing.T) {
	dir := t.TempDir()
	if err := writeAttestations(dir, buildAll(t, newBuilder(t, newProgram(t)), "ghcr.io/appthrust")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "attestations", "list.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 5*len(definitions) {
		t.Errorf("the list is\n%s", text)
	}
	for _, line := range lines {
		words := strings.Fields(line)
		content, err := os.ReadFile(filepath.Join(dir, "attestations", words[2]))
		if err != nil || !strings.HasPrefix(words[1], "ghcr.io/appthrust/capt") || !strings.Contains(words[1], "@sha256:") {
			t.Errorf("%s: %v", line, err)
		}
		if want := map[string]string{"slsaprovenance1": `"buildDefinition"`, "spdxjson": `"spdxVersion"`}[words[0]]; want == "" || !bytes.Contains(content, []byte(want)) {
			t.Errorf("%s has the wrong content", line)
		}
	}
}
