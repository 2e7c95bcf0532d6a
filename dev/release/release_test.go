package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMoveUnreleased(t *testing.T) {
	const head = "# Changelog\n\n## [Unreleased]\n"
	for name, tc := range map[string]struct{ given, want, err string }{
		"the first release":       {head + "\n### Added\n\n- x\n", head + "\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- x\n", ""},
		"another release":         {head + "\n- y\n\n## [0.1.0] - 2025\n\n- x\n", head + "\n## [0.2.0] - 2026-01-02\n\n- y\n\n## [0.1.0] - 2025\n\n- x\n", ""},
		"repeated":                {head + "\n## [0.2.0] - 2026\n\n- x\n", head + "\n## [0.2.0] - 2026\n\n- x\n", ""},
		"changes after it":        {head + "\n- y\n\n## [0.2.0] - 2026\n\n- x\n", "", "move them, or release another version"},
		"nothing to release":      {head + "\n## [0.1.0] - 2025\n\n- x\n", "", "no changes"},
		"another format":          {"# Changes\n", "", `no section "## [Unreleased]"`},
		"a version with a suffix": {head + "\n- x\n\n## [0.2.0-rc.1] - 2025\n", head + "\n## [0.2.0] - 2026-01-02\n\n- x\n\n## [0.2.0-rc.1] - 2025\n", ""},
	} {
		g := NewWithT(t)
		got, err := moveUnreleased(tc.given, "0.2.0", "2026-01-02")
		if tc.err != "" {
			g.Expect(err).To(MatchError(ContainSubstring(tc.err)), name)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(got).To(Equal(tc.want), name)
	}
}

// tree is a repository with the files that a release changes.
type tree struct {
	*WithT
	t   *testing.T
	dir string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	r := &tree{NewWithT(t), t, t.TempDir()}
	r.write("internal/version/VERSION", "v0.1.0-dev\n")
	r.write("config/manager/kustomization.yaml", "images:\n- name: ghcr.io/appthrust/capt\n  newTag: latest\n")
	r.write("charts/capt/Chart.yaml", "name: capt\nversion: 0.0.0\nappVersion: v0.0.0\n")
	r.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- x\n")
	r.write("metadata.yaml", "releaseSeries:\n- {major: 0, minor: 1}\n- {major: 0, minor: 2}\n")
	r.write(".gitignore", "dist/\n")
	r.git("init", "-q", "-b", "main")
	r.commit()
	return r
}

// prepare makes the working tree that of a release.
func (r *tree) prepare(version string) {
	r.succeed("version", version)
	r.succeed("changelog", version)
	r.commit()
}

// tag creates an annotated tag of the current commit, which is on the main branch.
func (r *tree) tag(name string) {
	r.git("tag", "-am", "x", name)
	r.git("update-ref", mainBranch, "HEAD")
}

// build writes the files of a release, as make build-installer does.
func (r *tree) build(version string) {
	commit := strings.TrimSpace(r.git("rev-parse", "HEAD"))
	r.write("dist/images/release.json", fmt.Sprintf(`{"version": "v%s", "commit": %q, "images": {"ghcr.io/appthrust/capt:v%s": "sha256:0"}}`, version, commit, version))
	for _, name := range required {
		r.write(filepath.Join("dist", name), "kind: "+name)
	}
	r.succeed("seal", version)
}

func (r *tree) write(path, content string) {
	path = filepath.Join(r.dir, path)
	r.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	r.Expect(os.WriteFile(path, []byte(content), 0o644)).To(Succeed())
}

func (r *tree) read(path string) string {
	content, err := os.ReadFile(filepath.Join(r.dir, path))
	r.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func (r *tree) git(args ...string) string {
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	r.Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

func (r *tree) commit() { r.git("add", "."); r.git("commit", "-qm", "x") }

func (r *tree) run(args ...string) (string, error) {
	var out bytes.Buffer
	err := run(r.t.Context(), append([]string{"-root", r.dir, "-date", "2026-01-02"}, args...), &out)
	return out.String(), err
}

func (r *tree) succeed(args ...string) string {
	out, err := r.run(args...)
	r.Expect(err).NotTo(HaveOccurred())
	return out
}

func TestVersion_isWrittenEverywhere(t *testing.T) {
	r := newTree(t)
	r.Expect(r.succeed("-dry-run", "version", "0.2.0")).To(ContainSubstring("internal/version/VERSION: would be changed"))
	r.Expect(r.git("status", "--porcelain")).To(BeEmpty())
	for range 2 {
		r.succeed("version", "0.2.0")
		r.Expect(r.read("internal/version/VERSION")).To(Equal("v0.2.0\n"))
		r.Expect(r.read("config/manager/kustomization.yaml")).To(ContainSubstring("\n  newTag: v0.2.0\n"))
		r.Expect(r.read("charts/capt/Chart.yaml")).To(Equal("name: capt\nversion: 0.2.0\nappVersion: v0.2.0\n"))
	}
	r.succeed("changelog", "0.2.0")
	r.commit()
	r.succeed("check", "0.2.0")
	_, err := r.run("version", "0.1.9")
	r.Expect(err).To(MatchError("version v0.1.9 is earlier than the current one, v0.2.0"))
	_, err = r.run("check", "0.2.1")
	r.Expect(err).To(MatchError(ContainSubstring("run make update-version VERSION=0.2.1")))
}

func TestSteps_refuseADirtyTree(t *testing.T) {
	for _, step := range []string{"version", "changelog", "check", "seal", "github"} {
		for _, dryRun := range []string{"-dry-run=false", "-dry-run"} {
			r := newTree(t)
			r.write("main.go", "package x")
			_, err := r.run(dryRun, step, "0.2.0")
			r.Expect(err).To(MatchError(ContainSubstring("changes that are not committed (main.go): commit or stash them")), step)
		}
	}
}

func TestRun_explainsItsUse(t *testing.T) {
	r := newTree(t)
	for _, args := range [][]string{{}, {"version", "1.0.0", "x"}} {
		_, err := r.run(args...)
		r.Expect(err).To(MatchError(HavePrefix("usage: ")))
	}
	_, err := r.run("publish", "1.0.0")
	r.Expect(err).To(MatchError(ContainSubstring(`step "publish" is unknown`)))
}

func TestIsEarlier(t *testing.T) {
	for next, currents := range map[string]map[string]bool{
		"v0.2.0":         {"v0.2.0-dev": false, "v0.2.0-rc.1": false, "v0.2.0": false, "v0.2.1": true, "v0.3.0-dev": true},
		"v0.2.0-alpha.1": {"v0.2.0-dev": false, "v0.1.0": false, "v0.2.0-beta.1": true, "v0.2.0": true, "v0.2.1-dev": true},
		"v0.2.0-dev":     {"v0.2.0-rc.1": false, "v0.1.9": false, "v0.2.0": true, "v0.2.0-dev": false},
		"v0.2.0-rc.2":    {"v0.2.0-rc.1": false, "v0.2.0-rc.10": true},
	} {
		for current, want := range currents {
			NewWithT(t).Expect(isEarlier(next, current)).To(Equal(want), "%s after %s", next, current)
		}
	}
}

func TestCheck_refusesAnUnknownSeries(t *testing.T) {
	r := newTree(t)
	r.prepare("0.3.0")
	_, err := r.run("check", "0.3.0")
	r.Expect(err).To(MatchError(ContainSubstring("metadata.yaml has no releaseSeries for 0.3.0")))
}

func TestCheck_requiresTheTagOfTheCommitOnMain(t *testing.T) {
	r := newTree(t)
	r.prepare("0.2.0")
	r.succeed("check", "0.2.0")
	_, err := r.run("-tagged", "check", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("tag v0.2.0 does not exist")))
	r.git("tag", "v0.2.0")
	_, err = r.run("check", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("is not on origin/main")))
	r.git("update-ref", mainBranch, "HEAD~1")
	_, err = r.run("check", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("is not on origin/main")))
	r.git("update-ref", mainBranch, "HEAD")
	r.succeed("-tagged", "check", "0.2.0")
	r.write("new.go", "package x")
	r.commit()
	_, err = r.run("check", "0.2.0")
	r.Expect(err).To(MatchError(MatchRegexp("tag v0.2.0 is commit [0-9a-f]{40}, but [0-9a-f]{40} is checked out")))
}

func TestVersion_comesFromTheEnvironment(t *testing.T) {
	r := newTree(t)
	t.Setenv("VERSION", "0.2.0")
	r.succeed("version")
	r.Expect(r.read("internal/version/VERSION")).To(Equal("v0.2.0\n"))
	t.Setenv("VERSION", "0.2.0; id")
	_, err := r.run("check")
	r.Expect(err).To(MatchError(ContainSubstring("is not a semantic version")))
}

// The text of a variable must not become part of a recipe, nor be expanded by make.
func TestMake_doesNotExecuteTheVersion(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	version := `0.2.0";touch ` + marker + `;"$(shell touch ` + marker + ")`touch " + marker + "`"
	for _, target := range []string{"check-release", "update-version", "update-changelog", "docker-buildx", "build-installer", "push-images", "push-chart", "create-github-release"} {
		for _, where := range []string{"argument", "environment"} {
			cmd := exec.Command("make", "-C", "../..", target, "DRY_RUN=1")
			if where == "argument" {
				cmd.Args = append(cmd.Args, "VERSION="+version)
			} else {
				cmd.Env = append(os.Environ(), "VERSION="+version)
			}
			out, err := cmd.CombinedOutput()
			g := NewWithT(t)
			g.Expect(err).To(HaveOccurred(), "%s accepts the %s %s", target, where, version)
			g.Expect(string(out)).To(ContainSubstring("is not a semantic version"), "%s with the %s %s", target, where, version)
			g.Expect(marker).NotTo(BeAnExistingFile(), "%s executes the %s %s", target, where, version)
		}
	}
}

func TestSeal_refusesFilesOfAnotherBuild(t *testing.T) {
	r := newTree(t)
	r.prepare("0.2.0")
	_, err := r.run("seal", "0.1.9")
	r.Expect(err).To(MatchError(ContainSubstring("the version of the working tree is v0.2.0, not v0.1.9")))
	refused := func(want string) {
		t.Helper()
		out, err := r.run("-dry-run", "github", "0.2.0")
		r.Expect(err).To(MatchError(ContainSubstring(want)))
		r.Expect(out).To(ContainSubstring("would be created"))
	}
	refused("dist/release.json is missing: run make build-installer VERSION=0.2.0")
	r.build("0.2.0")
	r.succeed("-dry-run", "github", "0.2.0")
	r.write("dist/notes.txt", "x")
	r.write("dist/install.yaml", "kind: other")
	refused("files of dist have changed since they were built (install.yaml, notes.txt)")
	r.Expect(os.Remove(filepath.Join(r.dir, "dist/notes.txt"))).To(Succeed())
	r.build("0.2.0")
	r.Expect(os.Remove(filepath.Join(r.dir, "dist/metadata.yaml"))).To(Succeed())
	refused("dist/metadata.yaml is missing")
	r.build("0.2.0")
	r.write("new.go", "package x")
	r.commit()
	refused("dist contains v0.2.0 of commit ")
	// The images are those of the earlier commit.
	r.Expect(r.succeed("seal", "0.2.0")).To(ContainSubstring("run make docker-buildx VERSION=0.2.0 before a release"))
	refused("contains no images of commit")
}

// hub is GitHub's API for releases, as far as a release uses it.
type hub struct {
	url     string
	commit  string
	release map[string]any
	assets  map[string]string
	writes  int
	// lost is the name of a file whose content is not what was sent.
	lost string
	// published is what the release contained when it was published.
	published []string
}

func (h *hub) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	path := strings.TrimPrefix(request.URL.Path, "/api/v3/repos/appthrust/capt")
	if request.Method != http.MethodGet {
		h.writes++
	}
	switch request.Method + " " + path {
	case "GET /commits/tags/v0.2.0":
		_, _ = io.WriteString(w, h.commit)
	case "GET /releases":
		list := []any{map[string]any{"id": 6, "tag_name": "v0.1.0"}}
		if h.release != nil {
			list = append(list, h.answer())
		}
		_ = json.NewEncoder(w).Encode(list)
	case "POST /releases":
		h.release = map[string]any{}
		_ = json.Unmarshal(body, &h.release)
		_ = json.NewEncoder(w).Encode(h.answer())
	case "PATCH /releases/7":
		_ = json.Unmarshal(body, &h.release)
		h.published = slices.Sorted(maps.Keys(h.assets))
		_ = json.NewEncoder(w).Encode(h.answer())
	case "GET /releases/7/assets":
		_ = json.NewEncoder(w).Encode(h.answer()["assets"])
	case "POST /uploads/7/assets":
		name := request.URL.Query().Get("name")
		h.assets[name] = string(body)
		if name == h.lost {
			h.assets[name] = "lost"
		}
		_, _ = w.Write([]byte("{}"))
	case "DELETE /releases/assets/1":
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func (h *hub) answer() map[string]any {
	h.release["id"] = 7
	h.release["upload_url"] = h.url + "/api/v3/repos/appthrust/capt/uploads/7/assets{?name,label}"
	assets := []any{}
	for name, content := range h.assets {
		assets = append(assets, map[string]any{
			"id": 1, "name": name, "size": len(content), "state": "uploaded", "digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))),
		})
	}
	h.release["assets"] = assets
	return h.release
}

// newHub returns GitHub for a release that is built and tagged.
func newHub(t *testing.T, r *tree) *hub {
	t.Helper()
	r.prepare("0.2.0")
	r.tag("v0.2.0")
	r.build("0.2.0")
	h := &hub{assets: map[string]string{}, commit: strings.TrimSpace(r.git("rev-parse", "HEAD"))}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	t.Setenv("GITHUB_TOKEN", "t")
	t.Setenv("GITHUB_API_URL", server.URL)
	return h
}

func TestGitHub_createsAReleaseOnce(t *testing.T) {
	r := newTree(t)
	h := newHub(t, r)
	r.write("dist/checksums.txt.sigstore.json", "{}")
	r.Expect(r.succeed("-dry-run", "github", "0.2.0")).To(And(ContainSubstring("Release v0.2.0 of commit "), ContainSubstring("  metadata.yaml\n"), ContainSubstring("\n- x")))
	r.Expect(h.writes).To(BeZero())
	r.succeed("github", "0.2.0")
	r.Expect(h.release).To(And(
		HaveKeyWithValue("tag_name", "v0.2.0"), HaveKeyWithValue("body", "- x"), HaveKeyWithValue("prerelease", false), HaveKeyWithValue("draft", false),
	))
	r.Expect(h.published).To(ConsistOf(append([]any{"release.json", "checksums.txt", "checksums.txt.sigstore.json"}, asAny(required)...)...))
	r.Expect(h.assets["checksums.txt"]).To(And(ContainSubstring("  install.yaml\n"), ContainSubstring("  release.json\n")))
	r.Expect(h.assets["release.json"]).To(And(ContainSubstring(h.commit), ContainSubstring("ghcr.io/appthrust/capt:v0.2.0")))
	writes := h.writes
	r.Expect(r.succeed("github", "0.2.0")).To(ContainSubstring("Release v0.2.0 exists"))
	// Each signature of the same checksums is another one.
	r.write("dist/checksums.txt.sigstore.json", "{ }")
	r.Expect(r.succeed("github", "0.2.0")).To(ContainSubstring("Release v0.2.0 exists"))
	h.assets["install.yaml"] = "kind: other.yaml!"
	_, err := r.run("github", "0.2.0")
	r.Expect(err).To(MatchError("release v0.2.0 is published with other files (install.yaml): release another version"))
	r.Expect(h.writes).To(Equal(writes), "a published release is not changed")
}

func asAny(list []string) []any {
	var values []any
	for _, value := range list {
		values = append(values, value)
	}
	return values
}

func TestGitHub_completesADraft(t *testing.T) {
	r := newTree(t)
	h := newHub(t, r)
	h.lost = "metadata.yaml"
	_, err := r.run("github", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("differ from what was uploaded (metadata.yaml)")))
	r.Expect(h.release).To(HaveKeyWithValue("draft", true))
	r.Expect(h.published).To(BeNil())
	h.lost = ""
	// The same size as the real one.
	h.assets["checksums.txt"] = strings.Repeat("x", len(h.assets["checksums.txt"]))
	r.Expect(r.succeed("github", "0.2.0")).To(And(ContainSubstring("install.yaml: uploaded before"), ContainSubstring("metadata.yaml: uploaded\n")))
	r.Expect(h.assets["checksums.txt"]).To(Equal(r.read("dist/checksums.txt")))
	r.Expect(h.release).To(HaveKeyWithValue("draft", false))
}

func TestGitHub_refusesImagesOfAnotherRegistry(t *testing.T) {
	r := newTree(t)
	h := newHub(t, r)
	r.write("dist/images/release.json", strings.ReplaceAll(r.read("dist/images/release.json"), "ghcr.io/appthrust", "example.com/private"))
	r.succeed("seal", "0.2.0")
	r.succeed("-dry-run", "github", "0.2.0")
	_, err := r.run("github", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("dist contains example.com/private/capt:v0.2.0, which is not at ghcr.io/appthrust")))
	r.Expect(h.writes).To(BeZero())
}

func TestGitHub_refusesAnotherCommit(t *testing.T) {
	r := newTree(t)
	h := newHub(t, r)
	h.commit = strings.Repeat("0", 40)
	_, err := r.run("github", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("tag v0.2.0 on GitHub is commit 0000")))
	r.Expect(h.writes).To(BeZero())
	r.git("tag", "-d", "v0.2.0")
	_, err = r.run("github", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("tag v0.2.0 does not exist")))
}

func TestNewClient(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("GITHUB_TOKEN", "")
	_, err := newClient()
	g.Expect(err).To(MatchError(ContainSubstring("GITHUB_TOKEN is missing")))
	t.Setenv("GITHUB_TOKEN", "t")
	// GitHub Actions always sets the first.
	for _, api := range []string{"https://api.github.com", "https://api.github.com/", ""} {
		t.Setenv("GITHUB_API_URL", api)
		client, err := newClient()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(client.BaseURL.String()).To(Equal("https://api.github.com/"))
		g.Expect(client.UploadURL.String()).To(Equal("https://uploads.github.com/"))
	}
}
