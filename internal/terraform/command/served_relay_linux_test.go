package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host/sandbox"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

// The processes of workspaces that run side by side have the same user, and a sandbox does not
// limit which sockets they use.
func TestRelay_isOfNoUseForOthers(t *testing.T) {
	g := NewWithT(t)
	w, dir := sandboxed(t, tofu(t))
	installScript(t, w, "")
	session := serve(t, w, inline(localModule))

	connection := session.served.Connect(t.Context(), []string{"plan"}, session.env)
	defer connection.Close()
	g.Expect(connection.Files).To(HaveLen(1))
	tool := exec.Command("sleep", "600")
	tool.Env, tool.ExtraFiles = append(session.env, connection.Env...), connection.Files
	g.Expect(session.sandbox.Start(tool)).To(Succeed())
	t.Cleanup(func() { _ = tool.Process.Kill(); _ = tool.Wait() })
	connection.Allow(tool.Process.Pid)

	own := filepath.Join(dir, "workspaces", "b")
	g.Expect(os.MkdirAll(own, 0o700)).To(Succeed())
	attacked := func(files []*os.File) string {
		var out bytes.Buffer
		attacker := exec.Command("/proc/self/exe")
		attacker.Env, attacker.ExtraFiles = append(os.Environ(), roleEnv+"=attacker", argumentEnv+"="+dir), files
		attacker.Dir, attacker.Stdout, attacker.Stderr = own, &out, &out
		g.Expect((sandbox.Rules{Hidden: []string{dir}, Visible: []string{own}}).Start(attacker)).To(Succeed())
		g.Expect(attacker.Wait()).To(Succeed(), out.String())
		return out.String()
	}
	g.Expect(attacked(nil)).To(Equal("attacked\n"))
	g.Expect(attacked(connection.Files)).To(Equal("attacked\n"), "it is not the tool, even if it has the socket")

	unprotected := exec.Command(filepath.Join(commandtest.Parts(t), "terraform-provider-local"))
	unprotected.Env = slices.Concat(session.env, []string{
		"TF_PLUGIN_MAGIC_COOKIE=d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2", "PLUGIN_PROTOCOL_VERSIONS=5,6",
		"PLUGIN_UNIX_SOCKET_DIR=" + session.RunDir,
	})
	out, err := unprotected.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(unprotected.Start()).To(Succeed())
	t.Cleanup(func() { _ = unprotected.Process.Kill(); _ = unprotected.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(attacked(nil)).To(ContainSubstring("can use plain "+session.RunDir), "the attack works where nothing prevents it")
}

func TestRelay_letsOneProcessIn(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, tofu(t))
	installScript(t, w, "")
	session := serve(t, w, inline(localModule))
	for pid, want := range map[int]bool{os.Getpid(): true, os.Getppid(): false} {
		connection := session.served.Connect(t.Context(), []string{"plan"}, session.env)
		g.Expect(connection.Files).To(HaveLen(1))
		connection.Allow(pid)
		conn, err := net.Dial("unix", fmt.Sprint("/proc/self/fd/", connection.Files[0].Fd()))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answers(conn)).To(Equal(want))
		connection.Close()
	}
}

// A run that was killed leaves nothing behind, and its pod must not wait for its providers.
func TestServeProviders_endWithTheEngine(t *testing.T) {
	for name, create := range map[string]func(t *testing.T) *Workdir{
		"with a sandbox": func(t *testing.T) *Workdir { w, _ := sandboxed(t, tofu(t)); return w },
		"without":        func(t *testing.T) *Workdir { w, _ := workdir(t, tofu(t)); return w },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := create(t)
			installScript(t, w, "")
			argument, err := json.Marshal(engineArgument{
				Tool: w.Tool.Path, Dir: w.Dir, PluginCache: w.PluginCache, CLIConfig: w.CLIConfig, Hidden: w.Hidden, Request: inline(localModule),
			})
			g.Expect(err).NotTo(HaveOccurred())
			engine := exec.Command("/proc/self/exe")
			engine.Env = append(os.Environ(), roleEnv+"=engine", argumentEnv+"="+string(argument))
			engine.Stderr = os.Stderr
			out, err := engine.StdoutPipe()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(engine.Start()).To(Succeed())
			g.Expect(bufio.NewReader(out).ReadString('\n')).To(Equal("serving\n"))
			g.Expect(providersIn(w.Dir)).To(HaveLen(1))
			g.Expect(engine.Process.Kill()).To(Succeed())
			_ = engine.Wait()
			g.Eventually(func() []int { return providersIn(w.Dir) }).Should(BeEmpty())
		})
	}
}

// The tool starts a provider that crashed again, so that the errors are those that users know.
func TestServeProviders_reportsAProviderThatCrashes(t *testing.T) {
	g := NewWithT(t)
	test, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	request := inline(localModule)
	request.Env, request.SecretEnv = map[string]string{"TOKEN": "canary-secret"}, []string{"TOKEN"}

	w, log := workdir(t, tofu(t))
	crash := "export " + roleEnv + "=provider; exec " + test
	starts := installScript(t, w, "if "+isServed+"; then "+crash+"; fi")
	planOf(t, w, serve(t, w, request))
	g.Expect(starts.served()).To(Equal(1))
	g.Expect(starts.own()).NotTo(BeZero())
	g.Expect(log.String()).To(And(ContainSubstring("panic: crashed with"), ContainSubstring("Running the command once more"), Not(ContainSubstring("canary-secret"))))

	errorOf := func(serves bool) string {
		w, _ := workdir(t, tofu(t))
		installScript(t, w, crash)
		session, err := Prepare(t.Context(), w, request)
		g.Expect(err).NotTo(HaveOccurred())
		if serves {
			session.ServeProviders(t.Context())
			defer session.StopProviders()
		}
		_, err = session.Plan(t.Context(), PlanOptions{})
		g.Expect(err).To(HaveOccurred())
		// The tool says first which of several schemas it could not read, by chance.
		_, cause, found := strings.Cut(err.Error(), ": Plugin did not respond")
		g.Expect(found).To(BeTrue(), "%v", err)
		return cause
	}
	g.Expect(errorOf(true)).To(Equal(errorOf(false)))
}
