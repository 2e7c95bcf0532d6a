package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
	"github.com/appthrust/capt/internal/terraform/served"
)

// isServed is the condition of a script that the engine has started the provider.
const isServed = `[ -n "$PLUGIN_UNIX_SOCKET_DIR" ]`

// starts are the starts of a provider.
type starts struct{ file string }

// served and own return how often the engine and the tool have started it.
func (s starts) served() int { return s.count("served\n") }
func (s starts) own() int    { return s.count("own\n") }

func (s starts) count(line string) int {
	content, _ := os.ReadFile(s.file)
	return strings.Count(string(content), line)
}

// installScript installs a provider for a working directory. It runs the script before the real
// provider.
func installScript(t *testing.T, w *Workdir, script string) starts {
	t.Helper()
	g := NewWithT(t)
	real, err := filepath.EvalSymlinks(filepath.Join(commandtest.Parts(t), "terraform-provider-local"))
	g.Expect(err).NotTo(HaveOccurred(), "run make parts")
	s := starts{file: filepath.Join(t.TempDir(), "starts")}
	installed := t.TempDir()
	installProvider(t, installed, openTofuHost, fmt.Sprintf("#!/bin/sh\nif %s; then echo served; else echo own; fi >> %s\n%s\nexec %s \"$@\"\n", isServed, s.file, script, real))
	w.CLIConfig = filepath.Join(t.TempDir(), "tofurc")
	g.Expect(os.WriteFile(w.CLIConfig, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", installed), 0o600)).To(Succeed())
	return s
}

// serve prepares a working directory and starts its providers until the end of the test.
func serve(t *testing.T, w *Workdir, request *terraform.Request) *Session {
	t.Helper()
	session, err := Prepare(t.Context(), w, request)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	session.ServeProviders(t.Context())
	t.Cleanup(session.StopProviders)
	return session
}

func planOf(t *testing.T, w *Workdir, session *Session) {
	t.Helper()
	_, err := session.Plan(t.Context(), PlanOptions{Out: w.PlanFile()})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// providersIn returns the processes of providers in a directory.
func providersIn(dir string) []int {
	dir, _ = filepath.EvalSymlinks(dir)
	all, _ := procfs.AllProcs()
	var pids []int
	for _, process := range all {
		cwd, err := process.Cwd()
		comm, _ := process.Comm()
		if err == nil && strings.HasPrefix(cwd, dir) && strings.HasPrefix(comm, "terraform-provi") {
			pids = append(pids, process.PID)
		}
	}
	return pids
}

func TestServeProviders_startsAProviderOnceForAllPlans(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, tofu(t))
	starts := installScript(t, w, "")
	session := serve(t, w, inline(localModule))
	g.Expect(starts.served()).To(Equal(1))
	g.Expect(providersIn(w.Dir)).To(HaveLen(1))
	for range 2 {
		planOf(t, w, session)
		shown, err := session.ShowPlan(t.Context(), w.PlanFile())
		g.Expect(err).NotTo(HaveOccurred())
		shown.Close()
	}
	_, err := session.Plan(t.Context(), PlanOptions{Destroy: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(starts.served()+starts.own()).To(Equal(1), log.String())

	session.StopProviders()
	g.Expect(providersIn(w.Dir)).To(BeEmpty())
	session.StopProviders()
	planOf(t, w, session)
	g.Expect(starts.own()).NotTo(BeZero())
	g.Expect(log.String()).NotTo(ContainSubstring("provider "+openTofuHost), "nothing failed")
}

// An apply survives the engine, and so must its providers.
func TestServeProviders_doesNotServeAnApply(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, tofu(t))
	starts := installScript(t, w, "")
	session := serve(t, w, inline(localModule))
	planOf(t, w, session)
	g.Expect(starts.own()).To(BeZero(), log.String())
	_, err := session.Apply(t.Context(), w.PlanFile(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(localStateOf(t, w, session).Resources).To(Equal(1))
	g.Expect(starts.own()).NotTo(BeZero(), log.String())
	g.Expect(providersIn(w.Dir)).To(BeEmpty())
	planOf(t, w, session)
	g.Expect(starts.served()).To(Equal(1))
}

func TestServeProviders_leavesToTheTool(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *Workdir, r *terraform.Request){
		"two configurations": func(_ *testing.T, _ *Workdir, r *terraform.Request) {
			r.Module.Content += "provider \"local\" {}\nprovider \"local\" {\n  alias = \"other\"\n}\n"
		},
		// The tool takes both for the same provider.
		"another spelling of its source": func(_ *testing.T, _ *Workdir, r *terraform.Request) {
			r.Module.Content = strings.ReplaceAll(r.Module.Content, "\"hashicorp/local\"", "\"registry.opentofu.org:443/hashicorp/local\"") +
				"provider \"local\" {}\nprovider \"local\" {\n  alias = \"other\"\n}\n"
		},
		"a log that the user wants to see": func(_ *testing.T, _ *Workdir, r *terraform.Request) {
			r.Env = map[string]string{"TF_LOG_PROVIDER": "error"}
		},
		"a provider that the user replaces": func(_ *testing.T, _ *Workdir, r *terraform.Request) {
			r.Env = map[string]string{"TF_REATTACH_PROVIDERS": "{}"}
		},
		"a provider that is elsewhere": func(_ *testing.T, _ *Workdir, r *terraform.Request) {
			r.Env = map[string]string{"TF_DATA_DIR": dataDir}
		},
		"what the user turns off": func(_ *testing.T, _ *Workdir, r *terraform.Request) {
			r.Env = map[string]string{served.Env: "off"}
		},
		"what the operator turns off": func(t *testing.T, _ *Workdir, _ *terraform.Request) { t.Setenv(served.Env, "off") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, _ := workdir(t, tofu(t))
			starts := installScript(t, w, "")
			request := inline(localModule)
			change(t, w, request)
			planOf(t, w, serve(t, w, request))
			g.Expect(starts.served()).To(BeZero())
		})
	}
}

// The tool refuses such a provider as well.
func TestServeProviders_comparesChecksums(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, tofu(t))
	starts := installScript(t, w, "")
	session, err := Prepare(t.Context(), w, inline(localModule))
	g.Expect(err).NotTo(HaveOccurred())
	program := filepath.Join(session.Root, dataDir, "providers", openTofuHost, localProvider, localVersion, platform, localProgram)
	content, err := os.ReadFile(program)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(program, append(content, "# Changed.\n"...), 0o755)).To(Succeed())
	session.ServeProviders(t.Context())
	defer session.StopProviders()
	g.Expect(starts.served()).To(BeZero())
	_, err = session.Plan(t.Context(), PlanOptions{})
	g.Expect(err).To(MatchError(ContainSubstring("does not match any of the checksums")))
}

func TestServeProviders_leavesAProviderThatEndedToTheTool(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, tofu(t))
	starts := installScript(t, w, "")
	session := serve(t, w, inline(localModule))
	pids := providersIn(w.Dir)
	g.Expect(pids).To(HaveLen(1))
	g.Expect(syscall.Kill(pids[0], syscall.SIGKILL)).To(Succeed())
	g.Eventually(func() []int { return providersIn(w.Dir) }).Should(BeEmpty())
	planOf(t, w, session)
	g.Expect(starts.own()).NotTo(BeZero())
	g.Expect(log.String()).To(ContainSubstring("Provider registry.opentofu.org/hashicorp/local ended"))
}

// The credentials of a run may have changed.
func TestServeProviders_doesNotServeAnotherEnvironment(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, tofu(t))
	starts := installScript(t, w, "")
	session := serve(t, w, inline(localModule))
	session.env = append(session.env, "TOKEN=renewed")
	planOf(t, w, session)
	g.Expect(starts.own()).NotTo(BeZero())
	g.Expect(providersIn(w.Dir)).To(BeEmpty())
}

func TestServeProviders_leavesProvidersThatCannotServeToTheTool(t *testing.T) {
	for name, script := range map[string]string{
		"it ends":                    "echo 'cannot serve' >&2; exit 1",
		"it speaks another protocol": "echo '2|5|tcp|x|netrpc|'; sleep 60",
		"it accepts connections without a secret": "unset PLUGIN_CLIENT_CERT",
		"its certificate is not one":              "echo '1|5|unix|nowhere|grpc|eHh4'; sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, log := workdir(t, tofu(t))
			starts := installScript(t, w, "if "+isServed+"; then "+script+"; fi")
			session := serve(t, w, inline(localModule))
			g.Expect(log.String()).To(ContainSubstring("The tool starts provider registry.opentofu.org/hashicorp/local: "))
			if name == "it ends" {
				g.Expect(log.String()).To(ContainSubstring("it ended: cannot serve"))
			}
			planOf(t, w, session)
			g.Expect(starts.own()).NotTo(BeZero())
			g.Expect(providersIn(w.Dir)).To(BeEmpty())
		})
	}
}

// The path of a socket is limited to 107 bytes.
func TestServeProviders_inALongDirectory(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, tofu(t))
	w.Dir = filepath.Join(t.TempDir(), strings.Repeat("long", 40), strings.Repeat("dir", 40))
	starts := installScript(t, w, "")
	planOf(t, w, serve(t, w, inline(localModule)))
	g.Expect(starts.served()).To(Equal(1))
	g.Expect(starts.own()).To(BeZero(), log.String())
}

// Other workspaces execute the providers of the plugin cache.
func TestServeProviders_doNotChangeThePluginCache(t *testing.T) {
	g := NewWithT(t)
	w, dir := sandboxed(t, tofu(t))
	seen := filepath.Join(t.TempDir(), "seen")
	starts := installScript(t, w, fmt.Sprintf("if %s; then (%s); fi", isServed, plant(w, seen)))
	request := inline(localModule)
	request.PluginCache = true
	planOf(t, w, serve(t, w, request))
	g.Expect(starts.served()).To(Equal(1))
	g.Expect(starts.own()).To(BeZero(), "it works in the sandbox")
	g.Expect(seen).To(BeAnExistingFile())
	g.Expect(filepath.Join(dir, "plugins", "planted")).NotTo(BeAnExistingFile())
}
