package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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
	r.write(".gitignore", "dist/\n")
	r.git("init", "-q", "-b", "main")
	r.commit()
	return r
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
	for _, step := range []string{"version", "changelog", "check", "github"} {
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
	for _, args := range [][]string{{}, {"version"}, {"version", "1.0.0", "x"}} {
		_, err := r.run(args...)
		r.Expect(err).To(MatchError(HavePrefix("usage: ")))
	}
	_, err := r.run("publish", "1.0.0")
	r.Expect(err).To(MatchError(ContainSubstring(`step "publish" is unknown`)))
}

// hub is GitHub's API for releases, as far as a release uses it.
type hub struct {
	release map[string]any
	assets  map[string]string
	posts   int
}

func (h *hub) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	switch path := request.URL.Path; {
	case request.Header.Get("Authorization") != "Bearer t":
		w.WriteHeader(http.StatusUnauthorized)
	case request.Method == http.MethodGet && strings.HasSuffix(path, "/releases/tags/v0.2.0"):
		if h.release == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.answer(w)
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/releases"):
		h.posts++
		h.release = map[string]any{}
		_ = json.Unmarshal(body, &h.release)
		h.answer(w)
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/releases/7/assets"):
		h.posts++
		h.assets[request.URL.Query().Get("name")] = string(body)
		_, _ = w.Write([]byte("{}"))
	case request.Method == http.MethodDelete:
		h.posts++
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func (h *hub) answer(w http.ResponseWriter) {
	h.release["id"] = 7
	var assets []any
	for name, content := range h.assets {
		assets = append(assets, map[string]any{"id": 1, "name": name, "size": len(content), "state": "uploaded"})
	}
	h.release["assets"] = assets
	_ = json.NewEncoder(w).Encode(h.release)
}

func TestGitHub_createsAReleaseOnce(t *testing.T) {
	r := newTree(t)
	r.Expect(r.succeed("-dry-run", "github", "0.2.0")).To(And(ContainSubstring("First: the version of the working tree is v0.1.0-dev"), ContainSubstring("First: dist/install.yaml is missing")))
	r.succeed("version", "0.2.0")
	r.succeed("changelog", "0.2.0")
	r.commit()
	_, err := r.run("github", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("install.yaml is missing: run make build-installer VERSION=0.2.0")))
	for _, name := range required {
		r.write(filepath.Join("dist", name), "kind: "+name)
	}
	r.Expect(r.succeed("-dry-run", "github", "0.2.0")).To(And(ContainSubstring("Release v0.2.0 of commit "), ContainSubstring("  metadata.yaml\n"), ContainSubstring("\n- x")))
	t.Setenv("GITHUB_TOKEN", "")
	_, err = r.run("github", "0.2.0")
	r.Expect(err).To(MatchError(ContainSubstring("GITHUB_TOKEN is missing")))

	h := &hub{assets: map[string]string{}}
	server := httptest.NewServer(h)
	defer server.Close()
	t.Setenv("GITHUB_TOKEN", "t")
	t.Setenv("GITHUB_API_URL", server.URL)
	r.succeed("github", "0.2.0")
	r.Expect(h.release).To(And(HaveKeyWithValue("tag_name", "v0.2.0"), HaveKeyWithValue("body", "- x"), HaveKeyWithValue("prerelease", false)))
	r.Expect(h.assets).To(HaveLen(len(required) + 1))
	r.Expect(h.assets["checksums.txt"]).To(ContainSubstring("  install.yaml\n"))
	posts := h.posts
	r.Expect(r.succeed("github", "0.2.0")).To(ContainSubstring("install.yaml: uploaded before"))
	r.Expect(h.posts).To(Equal(posts), "nothing is done twice")
	h.assets["install.yaml"] = "incomplete"
	r.succeed("github", "0.2.0")
	r.Expect(h.assets["install.yaml"]).To(Equal("kind: install.yaml"))
}
