package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/archive"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// moduleToken must not be in any file or log after a run.
const moduleToken = "hunter2-token-hunter2"

// trust makes git and the tool trust the certificate of a server.
func trust(t testing.TB, server *httptest.Server) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	NewWithT(t).Expect(os.WriteFile(file, certificate, 0o600)).To(Succeed())
	t.Setenv("GIT_SSL_CAINFO", file)
	t.Setenv("SSL_CERT_FILE", file)
}

// gitServer serves repositories with git's own HTTP server over TLS. It wants a token.
func gitServer(t *testing.T, root string) *httptest.Server {
	t.Helper()
	git, err := exec.LookPath("git")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard}
	return guarded(t, "git", backend)
}

// guarded serves over TLS what needs the token of a user.
func guarded(t *testing.T, user string, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != user || password != moduleToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	trust(t, server)
	return server
}

// expectNowhere fails if a directory has a text in any file.
func expectNowhere(t *testing.T, dir, text string) {
	t.Helper()
	g := NewWithT(t)
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		g.Expect(bytes.Contains(content, []byte(text))).To(BeFalse(), name)
		return err
	})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestPrepare_fetchesFromGitWithAToken(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		child := newBranch(t, `output "v" { value = "child" }`)
		server := gitServer(t, filepath.Dir(child.dir))
		address := func(b *branch) string {
			relative, err := filepath.Rel(filepath.Dir(child.dir), b.dir)
			g.Expect(err).NotTo(HaveOccurred())
			return "git::" + server.URL + "/" + filepath.ToSlash(relative) + "/.git?ref=main"
		}
		root := &branch{g, filepath.Join(filepath.Dir(child.dir), "root")}
		g.Expect(os.Mkdir(root.dir, 0o700)).To(Succeed())
		root.git("init", "-q", "-b", "main")
		revision := root.commit(fmt.Sprintf("module \"child\" { source = %q }\noutput \"v\" { value = module.child.v }\n", address(child)))
		auth := terraform.ModuleAuth{Host: strings.TrimPrefix(server.URL, "https://"), Username: "git", Password: moduleToken}
		request := inline("")
		request.Module = terraform.Module{Source: terraform.SourceRemote, Address: address(root), Auth: []terraform.ModuleAuth{auth}}
		w, log := workdir(t, tool)
		w.Cache = t.TempDir()

		session, applied := apply(t, w, request)

		g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"child"`), "modules of the same host are fetched too")
		g.Expect(session.Content.Revision).To(Equal(revision))
		expectNowhere(t, w.Dir, moduleToken)
		expectNowhere(t, w.Cache, moduleToken)
		g.Expect(log.String()).NotTo(ContainSubstring(moduleToken))
		stored, err := os.ReadFile(w.ArchiveFile())
		g.Expect(err).NotTo(HaveOccurred())
		unpacked := t.TempDir()
		_, err = archive.Unpack(stored, unpacked, archive.ModulesDir)
		g.Expect(err).NotTo(HaveOccurred())
		expectNowhere(t, unpacked, moduleToken)

		wrong := *request
		wrong.Module.Auth = []terraform.ModuleAuth{{Host: auth.Host, Username: "git", Password: "hunter3-wrong-hunter3"}}
		other, log := workdir(t, tool)
		other.Cache = w.Cache
		_, err = Prepare(context.Background(), other, &wrong)
		g.Expect(AsFailure(err)).NotTo(BeNil(), "what was fetched with other credentials is not used")
		g.Expect(err.Error() + log.String()).NotTo(ContainSubstring("hunter3"))
	})
}

func TestPrepare_fetchesVersionsFromARegistryWithAToken(t *testing.T) {
	g := NewWithT(t)
	versions := `{"version":"1.1.0"},{"version":"1.2.0"},{"version":"2.0.0"}`
	var module bytes.Buffer
	zip := gzip.NewWriter(&module)
	packed := tar.NewWriter(zip)
	g.Expect(packed.AddFS(fstest.MapFS{"main.tf": {Data: []byte(`output "v" { value = "registry" }`)}})).To(Succeed())
	g.Expect(packed.Close()).To(Succeed())
	g.Expect(zip.Close()).To(Succeed())
	served := http.NewServeMux()
	served.HandleFunc("/.well-known/terraform.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"modules.v1":"/v1/modules/"}`)
	})
	served.HandleFunc("/v1/modules/team/network/aws/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+moduleToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch strings.TrimPrefix(r.URL.Path, "/v1/modules/team/network/aws/") {
		case "versions":
			_, _ = fmt.Fprintf(w, `{"modules":[{"versions":[%s]}]}`, versions)
		case "1.2.0/download", "1.3.0/download":
			w.Header().Set("X-Terraform-Get", "/module.tgz?archive=tgz")
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	served.HandleFunc("/module.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(module.Bytes()) })
	server := httptest.NewTLSServer(served)
	t.Cleanup(server.Close)
	trust(t, server)
	host := strings.TrimPrefix(server.URL, "https://")
	request := inline("")
	request.Module = terraform.Module{
		Source: terraform.SourceRemote, Address: host + "/team/network/aws", Version: "~> 1.1",
		Auth: []terraform.ModuleAuth{{Host: host, Username: "git", Password: moduleToken}},
	}
	w, log := workdir(t, tofu(t))

	session, err := Prepare(context.Background(), w, request)

	g.Expect(err).NotTo(HaveOccurred(), log.String())
	g.Expect(session.Content.Revision).To(Equal("1.2.0"), "the latest version that the constraint allows")
	expectNowhere(t, w.Dir, moduleToken)

	versions += `,{"version":"1.3.0"}`
	request.Module.Pin = session.Content
	other, _ := workdir(t, tofu(t))
	session, err = Prepare(context.Background(), other, request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(session.Content.Revision).To(Equal("1.2.0"), "the pinned version is fetched")
}

func TestPrepare_givesCredentialsOnlyToTheDownload(t *testing.T) {
	g := NewWithT(t)
	calls := filepath.Join(t.TempDir(), "calls")
	w, _ := workdir(t, scriptedTool(t, `
[ "$1" = version ] || echo "$1${TF_TOKEN_example_com:+ with token}: $*" >> `+calls+`
case "$1" in
get)
  mkdir -p .terraform/modules/capt && echo '# root' > .terraform/modules/capt/main.tf
  echo '{"Modules":[{"Key":"","Dir":"."},{"Key":"capt","Dir":".terraform/modules/capt"}]}' > .terraform/modules/modules.json;;
plan)
  echo 'Error: Module not installed

This module is not yet installed. Run "tofu init" to install all modules.' >&2; exit 1;;
esac
`))
	request := inline("")
	request.InitArgs = []string{"-upgrade", "-var", "a=b", "-get=true", "-backend-config=x=y"}
	request.Backend = terraform.Backend{Type: "s3"}
	request.Module = terraform.Module{
		Source: terraform.SourceRemote, Address: "example.com/team/network/aws",
		Auth: []terraform.ModuleAuth{{Host: "example.com", Username: "git", Password: moduleToken}},
	}

	session, err := Prepare(context.Background(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	// A process of the module may wait for the credentials of a second download.
	_, _ = session.Plan(context.Background(), PlanOptions{})

	content, err := os.ReadFile(calls)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Split(strings.TrimSpace(string(content)), "\n")).To(HaveExactElements(
		"get with token: get -no-color",
		"get with token: get -no-color -update -var a=b",
		And(HavePrefix("init: init "), HaveSuffix(" -get=false -upgrade -var a=b -backend-config=x=y")),
		HavePrefix("plan: plan "),
		HavePrefix("init: init "),
		HavePrefix("plan: plan "),
	))
}

func TestPrepare_hidesCredentialsFromTheModule(t *testing.T) {
	g := NewWithT(t)
	seen := filepath.Join(t.TempDir(), "seen")
	root := newBranch(t, fmt.Sprintf(`
terraform {
  encryption {
    key_provider "external" "spy" {
      command = ["sh", "-c", "env >> %s; find ../.. -path '*/auth/*' >> %[1]s; exit 1"]
    }
    method "aes_gcm" "spy" {
      keys = key_provider.external.spy
    }
    state {
      method = method.aes_gcm.spy
    }
  }
}
`, seen))
	server := gitServer(t, filepath.Dir(root.dir))
	request := inline("")
	request.Backend = terraform.Backend{Type: terraform.BackendLocal}
	request.Module = terraform.Module{
		Source: terraform.SourceRemote, Address: "git::" + server.URL + "/" + filepath.Base(root.dir) + "/.git?ref=main",
		Auth: []terraform.ModuleAuth{{Host: strings.TrimPrefix(server.URL, "https://"), Username: "git", Password: moduleToken}},
	}
	w, _ := workdir(t, tofu(t))

	session, err := Prepare(context.Background(), w, request)
	if err == nil {
		_, err = session.Plan(context.Background(), PlanOptions{})
	}
	g.Expect(err).To(HaveOccurred())

	content, err := os.ReadFile(seen)
	g.Expect(err).NotTo(HaveOccurred(), "the module was executed")
	g.Expect(string(content)).NotTo(ContainSubstring(moduleToken))
	g.Expect(string(content)).NotTo(ContainSubstring("/auth/"))
}

func TestAuthenticate_givesEachHostItsKey(t *testing.T) {
	g := NewWithT(t)
	const key = "-----BEGIN KEY-----\nabc\n-----END KEY-----"
	s := &executor{workingDir: workingDir{RunDir: filepath.Join(t.TempDir(), "it's 100%h")}, auth: []terraform.ModuleAuth{
		{Host: "one.example.com", PrivateKey: key, KnownHosts: "one.example.com ssh-ed25519 AAAA"},
		{Host: "https.example.com", Username: "git", Password: "hunter2"},
		{Host: "two.example.com:2222", PrivateKey: key, KnownHosts: "[two.example.com]:2222 ssh-ed25519 AAAA"},
	}}
	env, remove, err := s.authenticate()
	g.Expect(err).NotTo(HaveOccurred())
	auth := filepath.Join(s.RunDir, "auth")
	var ssh string
	for _, entry := range env {
		if command, found := strings.CutPrefix(entry, "GIT_SSH_COMMAND="); found {
			ssh = command
		}
	}

	// What OpenSSH itself reads from the configuration. Git executes the command in a shell.
	options := func(host string) string {
		out, err := exec.Command("sh", "-c", ssh+" -G "+host).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		// It prints the tokens of some options, and what they stand for in others.
		return strings.ReplaceAll(string(out), "%%", "%")
	}
	safe := And(ContainSubstring("stricthostkeychecking true"), ContainSubstring("batchmode yes"), ContainSubstring("identitiesonly yes"),
		ContainSubstring("identityagent none"), ContainSubstring("globalknownhostsfile /dev/null"))
	for host, i := range map[string]string{"one.example.com": "0", "git@two.example.com -p 2222": "2"} {
		g.Expect(options(host)).To(And(safe, ContainSubstring("identityfile "+auth+"/key-"+i+"\n"), ContainSubstring("userknownhostsfile "+auth+"/known_hosts-"+i+"\n")), host)
		g.Expect(strings.Count(options(host), "identityfile ")).To(Equal(1), host)
	}
	g.Expect(options("https.example.com")).To(And(safe, ContainSubstring("userknownhostsfile /dev/null"), Not(ContainSubstring(auth))), "another host gets no key")
	for _, name := range []string{"key-0", "key-2"} {
		info, err := os.Stat(filepath.Join(auth, name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	}

	remove()
	g.Expect(auth).NotTo(BeADirectory())
}

func TestAuthenticate_givesEachHostItsToken(t *testing.T) {
	g := NewWithT(t)
	s := &executor{workingDir: workingDir{RunDir: t.TempDir()}, auth: []terraform.ModuleAuth{
		{Host: "one.example.com", Username: "git", Password: "first"},
		{Host: "two.example.com:8443", Username: "u", Password: "second"},
		{Host: "oci.example.com", Registries: map[string]terraform.RegistryAuth{"oci.example.com": {Auth: "YTpi"}}},
	}}
	env, remove, err := s.authenticate()
	g.Expect(err).NotTo(HaveOccurred())
	defer remove()
	g.Expect(env).To(ContainElement("TF_TOKEN_one_example_com=first"))
	g.Expect(env).NotTo(ContainElement(HavePrefix("GIT_SSH_COMMAND=")))
	home := filepath.Join(s.RunDir, "auth")
	g.Expect(env).To(ContainElement("HOME=" + home))
	g.Expect(os.ReadFile(filepath.Join(home, ".docker", "config.json"))).To(MatchJSON(`{"auths":{"oci.example.com":{"auth":"YTpi"}}}`))
	for host, want := range map[string]string{
		"one.example.com": "username=git\npassword=first\n", "two.example.com:8443": "username=u\npassword=second\n", "two.example.com": "", "three.example.com": "",
	} {
		git := exec.Command("git", "credential", "fill")
		git.Env = append(env, "PATH="+os.Getenv("PATH"), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=")
		git.Stdin = strings.NewReader("protocol=https\nhost=" + host + "\n\n")
		out, _ := git.Output()
		g.Expect(string(out)).To(HaveSuffix(want), host)
		g.Expect(strings.Contains(string(out), "password")).To(Equal(want != ""), host)
	}
}

// An inline module uses modules of several private hosts.
func TestPrepare_fetchesTheModulesOfAnInlineModule(t *testing.T) {
	g := NewWithT(t)
	var auths []terraform.ModuleAuth
	var certificates []byte
	module := ""
	for _, name := range []string{"one", "two"} {
		child := newBranch(t, fmt.Sprintf("output \"v\" { value = %q }", name))
		server := gitServer(t, filepath.Dir(child.dir))
		auths = append(auths, terraform.ModuleAuth{Host: strings.TrimPrefix(server.URL, "https://"), Username: "git", Password: moduleToken})
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})...)
		module += fmt.Sprintf("module %q { source = %q }\noutput %[1]q { value = module.%[1]s.v }\n", name, "git::"+server.URL+"/"+filepath.Base(child.dir)+"/.git?ref=main")
	}
	g.Expect(os.WriteFile(os.Getenv("GIT_SSL_CAINFO"), certificates, 0o600)).To(Succeed())
	request := inline(module)
	request.Module.Auth = auths
	w, log := workdir(t, tofu(t))
	w.Cache = t.TempDir()

	_, applied := apply(t, w, request)

	for _, name := range []string{"one", "two"} {
		g.Expect(string(applied.Outputs[name].Value)).To(Equal(`"` + name + `"`))
	}
	expectNowhere(t, w.Dir, moduleToken)
	g.Expect(log.String()).NotTo(ContainSubstring(moduleToken))

	without := inline(module)
	other, _ := workdir(t, tofu(t))
	other.Cache = w.Cache
	session, err := Prepare(context.Background(), other, without)
	if err == nil {
		_, err = session.Plan(context.Background(), PlanOptions{})
	}
	g.Expect(AsFailure(err)).NotTo(BeNil(), "another workspace does not get what it cannot fetch")
}

func TestAddGitConfig_keepsWhatIsConfigured(t *testing.T) {
	g := NewWithT(t)
	env := addGitConfig([]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"}, "d.e", "f")
	git := exec.Command("git", "config", "--get-regexp", `^(a|d)\.`)
	git.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
	out, err := git.Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("a.b c\nd.e f\n"))
}
