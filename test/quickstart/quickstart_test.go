package quickstart

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = 4 * time.Minute

// user calls captctl and kubectl.
type user struct {
	*WithT
	t                *testing.T
	captctl, kubectl string
	base             string
}

func newUser(t *testing.T) *user {
	t.Helper()
	if os.Getenv("CAPT_TEST_QUICKSTART") == "" {
		t.Skip("run `make test-quickstart`: the test requires the programs of Flux and Karpenter")
	}
	u := &user{WithT: NewWithT(t), t: t}
	var err error
	u.captctl, err = testenv.Built("captctl")
	u.Expect(err).NotTo(HaveOccurred())
	u.kubectl, err = testenv.Part("kubectl")
	u.Expect(err).NotTo(HaveOccurred())
	u.base, err = os.MkdirTemp("", "capt-quickstart-")
	u.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), u.captctl, "down", "--dir", u.base, "--yes").CombinedOutput()
		if err != nil {
			t.Errorf("stopping the environment: %v: %s", err, out)
		}
		if left := testenv.ProcessesOf(u.base); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		if err := os.RemoveAll(u.base); err != nil {
			t.Error(err)
		}
	})
	return u
}

// up runs the command of make quickstart.
func (u *user) up(args ...string) (string, error) {
	u.t.Helper()
	out, err := exec.CommandContext(u.t.Context(), u.captctl, append([]string{"up", "--demo", "--dir", u.base}, args...)...).CombinedOutput()
	return string(out), err
}

func (u *user) status() *environment.Status {
	u.t.Helper()
	// It exits with 1 while a part is being restarted.
	out, _ := exec.CommandContext(u.t.Context(), u.captctl, "status", "--dir", u.base, "-o", "json").Output()
	status := &environment.Status{}
	u.Expect(json.Unmarshal(out, status)).To(Succeed())
	return status
}

// pids returns the process IDs of the environment and its clusters by name.
func (u *user) pids() map[string]int {
	u.t.Helper()
	status, found := u.status(), map[string]int{}
	for _, part := range status.Parts {
		found[part.Name] = part.PID
	}
	for _, cluster := range status.Clusters {
		for _, part := range cluster.Parts {
			found[cluster.Name+"/"+part.Name] = part.PID
		}
	}
	return found
}

// followHints runs the commands that the output recommends, without a kubectl in PATH,
// and then the example of the README.
func (u *user) followHints(out string) {
	u.t.Helper()
	_, hints, found := strings.Cut(out, "Try next:\n")
	u.Expect(found).To(BeTrue())
	hints, _, found = strings.Cut(hints, "  To delete the cluster")
	u.Expect(found).To(BeTrue())
	hints, browser, hasPage := strings.Cut(hints, "  In the browser (this link works once, captctl local up prints another one):\n")
	if hasPage {
		u.opensPage(strings.TrimSpace(browser))
	}
	u.Expect(hints).NotTo(ContainSubstring("#"), "zsh has no comments")
	hints = commands(hints)
	u.Expect(hints).To(And(ContainSubstring("captctl doctor"), ContainSubstring("get nodes,pods -A")))
	readme := testenv.ReadFile(u.t, "README.md")
	_, example, found := strings.Cut(string(readme), "In another terminal:")
	u.Expect(found).To(BeTrue())
	_, example, _ = strings.Cut(example, "```sh\n")
	example, _, found = strings.Cut(example, "\n```\n")
	u.Expect(found).To(BeTrue())

	// A machine without kubectl.
	path := u.t.TempDir()
	for _, name := range []string{"sh", "bash", "base64", "gzip", "gunzip"} {
		program, err := exec.LookPath(name)
		u.Expect(err).NotTo(HaveOccurred())
		u.Expect(os.Symlink(program, filepath.Join(path, name))).To(Succeed())
	}
	shell := exec.CommandContext(u.t.Context(), "bash", "-euo", "pipefail", "-c", hints+"\n"+example)
	shell.Env = []string{"PATH=" + path, "HOME=" + u.base}
	text, err := shell.CombinedOutput()
	u.Expect(err).NotTo(HaveOccurred(), "%s\n%s", hints, text)
	u.t.Logf("the hints print:\n%s", text)
	u.Expect(string(text)).To(ContainSubstring("hello world"))
}

// commands returns the commands of hints, which are indented more than their titles.
func commands(hints string) string {
	var lines []string
	for line := range strings.Lines(hints) {
		if command, is := strings.CutPrefix(line, "    "); is {
			lines = append(lines, command)
		}
	}
	return strings.Join(lines, "")
}

// opensPage follows the link to the page.
func (u *user) opensPage(link string) {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, link, nil)
	u.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	u.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	u.Expect(err).NotTo(HaveOccurred())
	u.Expect(response.StatusCode).To(Equal(http.StatusOK), string(page))
	u.Expect(string(page)).To(ContainSubstring("<script"))
}

// isHealthy checks that doctor has nothing to say about the new environment.
func (u *user) isHealthy() {
	u.t.Helper()
	doctor := exec.CommandContext(u.t.Context(), u.captctl, "doctor", "--kubeconfig", u.status().Kubeconfig, "-o", "json")
	out, err := doctor.Output()
	u.Expect(err).NotTo(HaveOccurred(), string(out))
	var found struct {
		Results []struct{ Check, Status, Message string }
	}
	u.Expect(json.Unmarshal(out, &found)).To(Succeed(), string(out))
	u.Expect(found.Results).NotTo(BeEmpty())
	u.Expect(found.Results).To(HaveEach(HaveField("Status", "ok")), string(out))
}

// exposed are the numbers of ports on which programs listen on all interfaces: they have no
// option for it. docs/quickstart.md lists them.
var exposed = map[string]int{"cluster-api": 1, "karpenter-kwok": 2}

// isLocal checks that other machines reach nothing of the environment but what is documented.
func (u *user) isLocal() {
	u.t.Helper()
	listeners, err := testenv.ListenersOf(u.base)
	u.Expect(err).NotTo(HaveOccurred())
	u.Expect(len(listeners)).To(BeNumerically(">", 5), "the programs were found")
	open := map[string]int{}
	for _, listener := range listeners {
		if !listener.Address.IsLoopback() {
			open[listener.Program]++
			u.Expect(open[listener.Program]).To(BeNumerically("<=", exposed[listener.Program]), "%s is open to other machines", listener)
		}
	}
}

func TestQuickstart_createsClusterWithFluxAndKarpenter(t *testing.T) {
	u := newUser(t)
	_, err := u.up("--timeout=8s")
	u.Expect(err).To(HaveOccurred(), "the timeout is too short")

	began := time.Now()
	out, err := u.up()
	u.Expect(err).NotTo(HaveOccurred(), out)
	t.Logf("%s\nall took %s", out, time.Since(began))
	for _, step := range []string{"VPC stand-in", "Control plane", "Flux", "Karpenter", "Node for pending pods", "(Karpenter, default)", "Try next"} {
		u.Expect(out).To(ContainSubstring(step))
	}

	u.followHints(out)
	u.isHealthy()
	u.isLocal()

	before := u.pids()
	out, err = u.up()
	u.Expect(err).NotTo(HaveOccurred(), out)
	u.Expect(u.pids()).To(Equal(before), "running processes are not restarted")

	// Killed processes are restarted.
	for _, victim := range []string{"manager", "charts", "quickstart/helm-controller", "quickstart/karpenter-kwok"} {
		u.Expect(before).To(HaveKey(victim))
		u.Expect(syscall.Kill(before[victim], syscall.SIGKILL)).To(Succeed())
	}
	u.Eventually(func(g Gomega) {
		now := u.pids()
		for _, victim := range []string{"manager", "charts", "quickstart/helm-controller", "quickstart/karpenter-kwok"} {
			g.Expect(now[victim]).NotTo(Equal(before[victim]), victim)
		}
	}).WithTimeout(testTimeout).Should(Succeed())
	out, err = u.up()
	u.Expect(err).NotTo(HaveOccurred(), out)

	status := u.status()
	gone := exec.CommandContext(t.Context(), u.kubectl, "--kubeconfig", status.Kubeconfig, "delete", "cluster", "quickstart", "--timeout", testTimeout.String())
	text, err := gone.CombinedOutput()
	u.Expect(err).NotTo(HaveOccurred(), string(text))
	u.Expect(u.status().Clusters).To(BeEmpty())
}
