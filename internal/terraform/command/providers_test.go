package command

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

const (
	localProvider = "hashicorp/local"
	openTofuHost  = "registry.opentofu.org"
	localVersion  = "2.9.0"
	localProgram  = "terraform-provider-local_v" + localVersion
	localModule   = `
terraform {
  required_providers { local = { source = "hashicorp/local" } }
}
resource "local_file" "f" {
  filename = "${path.module}/f"
  content  = "hello"
}
`
)

// installProvider writes an installed provider with the real program, or with other
// content, to a directory.
func installProvider(t testing.TB, directory, host, content string) string {
	t.Helper()
	g := NewWithT(t)
	target := filepath.Join(directory, host, localProvider, localVersion, platform)
	g.Expect(os.MkdirAll(target, 0o755)).To(Succeed())
	if content == "" {
		program, err := os.ReadFile(filepath.Join(commandtest.Parts(t), "terraform-provider-local"))
		g.Expect(err).NotTo(HaveOccurred(), "run make parts")
		content = string(program)
	}
	g.Expect(os.WriteFile(filepath.Join(target, localProgram), []byte(content), 0o755)).To(Succeed())
	return target
}

// mirror serves the provider as a network mirror does, and returns the number of
// downloads and the CLI configuration.
func mirror(t testing.TB, host, installed string) (*atomic.Int32, string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	archive, err := os.Create(filepath.Join(dir, "provider.zip"))
	g.Expect(err).NotTo(HaveOccurred())
	z := zip.NewWriter(archive)
	g.Expect(z.AddFS(os.DirFS(installed))).To(Succeed())
	g.Expect(z.Close()).To(Succeed())
	g.Expect(archive.Close()).To(Succeed())

	downloads := &atomic.Int32{}
	mux := http.NewServeMux()
	respond := func(path string, body any) {
		mux.HandleFunc("GET /"+host+"/"+localProvider+"/"+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	respond("index.json", map[string]any{"versions": map[string]any{localVersion: map[string]any{}}})
	respond(localVersion+".json", map[string]any{"archives": map[string]any{platform: map[string]any{"url": "provider.zip"}}})
	mux.HandleFunc("GET /"+host+"/"+localProvider+"/provider.zip", func(w http.ResponseWriter, r *http.Request) {
		downloads.Add(1)
		http.ServeFile(w, r, archive.Name())
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	trust(t, server)
	config := filepath.Join(dir, "tofu.tfrc")
	g.Expect(os.WriteFile(config, fmt.Appendf(nil, "provider_installation {\n  network_mirror {\n    url = %q\n  }\n}\n", server.URL+"/"), 0o600)).To(Succeed())
	return downloads, config
}

// readOnly removes the permission to write from a directory.
func readOnly(t testing.TB, directory string) {
	t.Helper()
	mode := func(dirs os.FileMode) error {
		return filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				err = os.Chmod(path, dirs)
			}
			return err
		})
	}
	NewWithT(t).Expect(mode(0o555)).To(Succeed())
	t.Cleanup(func() { _ = mode(0o755) })
}

func TestProviders_areNeitherDownloadedNorCopied(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		host := openTofuHost
		if version, err := tool.Version(t.Context()); err == nil && version.Product == terraform.ProductTerraform {
			host = "registry.terraform.io"
		}
		providers := t.TempDir()
		installed := installProvider(t, providers, host, "")
		readOnly(t, providers)
		downloads, config := mirror(t, host, installed)
		work := func(providers string) *Workdir {
			w, _ := workdir(t, tool)
			w.PluginCache, w.Providers, w.CLIConfig = filepath.Join(t.TempDir(), "plugins"), providers, config
			return w
		}
		request := inline(localModule)
		request.PluginCache = true

		w := work(providers)
		session, _ := apply(t, w, request)
		g.Expect(downloads.Load()).To(BeZero(), "the first run, without a lock file")
		real, err := filepath.EvalSymlinks(filepath.Join(session.Root, dataDir, "providers", host, localProvider, localVersion, platform))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(real).To(Equal(installed), "it is linked")
		request.LockFile, err = session.LockFile()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(request.LockFile)).To(ContainSubstring(localVersion))

		_, err = Prepare(t.Context(), work(providers), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(downloads.Load()).To(BeZero(), "a later run")
		_, err = Prepare(t.Context(), work(filepath.Join(t.TempDir(), "missing")), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(downloads.Load()).To(BeNumerically(">", 0), "without installed providers")
	})
}

func TestProviders_mustMatchTheLockFile(t *testing.T) {
	g := NewWithT(t)
	real, hostile := t.TempDir(), t.TempDir()
	_, config := mirror(t, openTofuHost, installProvider(t, real, openTofuHost, ""))
	installProvider(t, hostile, openTofuHost, "#!/bin/sh\ntouch "+filepath.Join(t.TempDir(), "executed")+"\n")
	prepare := func(providers string, request *terraform.Request) (*Session, error) {
		w, _ := workdir(t, tofu(t))
		w.PluginCache, w.Providers, w.CLIConfig = filepath.Join(t.TempDir(), "plugins"), providers, config
		return Prepare(t.Context(), w, request)
	}
	request := inline(localModule)
	request.PluginCache = true
	session, err := prepare(real, request)
	g.Expect(err).NotTo(HaveOccurred())
	request.LockFile, err = session.LockFile()
	g.Expect(err).NotTo(HaveOccurred())

	_, err = prepare(hostile, request)
	g.Expect(err).To(MatchError(ContainSubstring("does not match")))
}

func TestLinkProviders(t *testing.T) {
	g := NewWithT(t)
	directory, cache := t.TempDir(), filepath.Join(t.TempDir(), "plugins")
	g.Expect(linkProviders(filepath.Join(directory, "missing"), cache)).To(Succeed())
	g.Expect(cache).NotTo(BeADirectory())

	target := installProvider(t, directory, openTofuHost, "a")
	for _, other := range []string{"registry.opentofu.org/hashicorp/local/2.9.0/plan9_mips", "README/a", "registry.opentofu.org/hashicorp/local/2.8.0"} {
		g.Expect(os.MkdirAll(filepath.Join(directory, other), 0o755)).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(directory, openTofuHost, localProvider, "2.8.0", platform), nil, 0o600)).To(Succeed())
	downloaded := filepath.Join(cache, "registry.opentofu.org/hashicorp/aws/6.0.0", platform)
	g.Expect(os.MkdirAll(downloaded, 0o755)).To(Succeed())
	installed := filepath.Join(directory, "registry.opentofu.org/hashicorp/aws/6.0.0", platform)
	g.Expect(os.MkdirAll(installed, 0o755)).To(Succeed())
	for range 2 {
		g.Expect(linkProviders(directory, cache)).To(Succeed())
	}
	found, err := filepath.Glob(filepath.Join(cache, "*", "*", "*", "*", "*"))
	g.Expect(err).NotTo(HaveOccurred())
	link := filepath.Join(cache, openTofuHost, localProvider, localVersion, platform)
	g.Expect(found).To(ConsistOf(downloaded, link), "other platforms and files are ignored")
	g.Expect(os.Readlink(link)).To(Equal(target))
	g.Expect(filepath.EvalSymlinks(downloaded)).To(Equal(downloaded), "what the tool has downloaded stays")
}
