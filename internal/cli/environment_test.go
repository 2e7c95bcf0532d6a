package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/demo"
	"github.com/appthrust/capt/internal/local/environment"
)

// callEnvironment runs captctl and returns its output.
func callEnvironment(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := New(Streams{In: &bytes.Buffer{}, Out: &out, Err: &out})
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEnvironmentCommands_environmentDoesNotExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	out, err := callEnvironment(t, "local", "status", "demo", "--dir", dir)
	g.Expect(Code(err)).To(Equal(1))
	g.Expect(out).To(Equal("demo does not exist in " + dir + "/demo: create it with captctl local up demo --dir " + dir + "\n"))
	_, err = callEnvironment(t, "local", "env", "demo", "--dir", dir)
	g.Expect(err).To(MatchError("environment demo does not exist in " + dir + "/demo: create it with captctl local up demo --dir " + dir))
	out, err = callEnvironment(t, "local", "status", "demo", "--dir", dir, "-o", "json")
	g.Expect(Code(err)).To(Equal(1))
	var status environment.Status
	g.Expect(json.Unmarshal([]byte(out), &status)).To(Succeed())
	g.Expect(status).To(Equal(environment.Status{Name: "demo", Directory: dir + "/demo"}))
	out, err = callEnvironment(t, "local", "down", "demo", "--dir", dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("does not exist"))
}

// The output of env is evaluated by a shell.
func TestEnv_quotesPaths(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "it's a $HOME; `dir`")
	_, err := callEnvironment(t, "local", "env", "demo", "--dir", dir)
	g.Expect(err).To(MatchError(ContainSubstring("create it with captctl local up")))
	g.Expect(os.MkdirAll(filepath.Join(dir, "demo"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "demo", "environment.json"), []byte("{}"), 0o600)).To(Succeed())
	out, err := callEnvironment(t, "local", "env", "demo", "--dir", dir)
	g.Expect(err).NotTo(HaveOccurred())
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", out+`printf '%s\n%s' "$KUBECONFIG" "$PATH"`)
	shell.Env = []string{"PATH=/usr/bin"}
	evaluated, err := shell.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(evaluated))
	g.Expect(string(evaluated)).To(Equal(dir + "/demo/kubeconfig\n" + dir + "/demo/bin:/usr/bin"))

	out, err = callEnvironment(t, "local", "env", "demo", "--dir", dir, "-o", "json")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(MatchJSON(fmt.Sprintf(`{"kubeconfig": %q, "bin": %q}`, dir+"/demo/kubeconfig", dir+"/demo/bin")))
}

func TestUp_namesTheCommandThatSetsTheShell(t *testing.T) {
	t.Parallel()
	printed := useEnvironment(newUpCommand(&Options{}), &environment.Environment{Name: "second"})
	NewWithT(t).Expect(printed).To(HaveSuffix(` local env second)"`))
}

func TestDown_asksFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	kept := filepath.Join(dir, "demo", "environment.json")
	g.Expect(os.MkdirAll(filepath.Dir(kept), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(kept, []byte("{}"), 0o600)).To(Succeed())
	_, err := callEnvironment(t, "local", "down", "demo", "--dir", dir)
	g.Expect(err).To(MatchError(ContainSubstring("pass --yes")))
	g.Expect(kept).To(BeAnExistingFile())
}

// The programs and the kubeconfig that the shell uses are removed.
func TestDown_saysHowToLeaveTheEnvironment(t *testing.T) {
	for _, uses := range []bool{true, false} {
		g := NewWithT(t)
		dir := t.TempDir()
		record := filepath.Join(dir, "demo", "environment.json")
		g.Expect(os.MkdirAll(filepath.Dir(record), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(record, []byte("{}"), 0o600)).To(Succeed())
		t.Setenv("KUBECONFIG", "/elsewhere")
		if uses {
			t.Setenv("KUBECONFIG", filepath.Join(dir, "demo", "kubeconfig"))
		}
		out, err := callEnvironment(t, "local", "down", "demo", "--dir", dir, "--yes")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Contains(out, "unset KUBECONFIG; hash -r")).To(Equal(uses), out)
	}
}

func TestEnvironmentCommands_wrongUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   []string
		advice string
	}{
		{[]string{"local", "up", "A", "--dir", "/nowhere"}, "use up to 63 lower-case letters"},
		{[]string{"local", "status", "-o", "yaml"}, "use json"},
	} {
		_, err := callEnvironment(t, test.args...)
		g := NewWithT(t)
		g.Expect(err).To(MatchError(ContainSubstring(test.advice)))
		g.Expect(Code(err)).To(Equal(2))
	}
	_, err := callEnvironment(t, "local", "up", "demo", "--dir", t.TempDir(), "--parts", "/nowhere")
	NewWithT(t).Expect(err).To(MatchError(MatchRegexp("program .* not found in .*: run `make (build|parts)` first")))
}

func TestShowStatus_listsEachPart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out bytes.Buffer
	o := &localCall{Options: &Options{Streams: Streams{Out: &out}}}
	part := func(name string, change func(*controlplane.PartStatus)) environment.Part {
		p := environment.Part{PartStatus: controlplane.PartStatus{Name: name}, Log: "/logs/" + name}
		change(&p.PartStatus)
		return p
	}
	g.Expect(o.showStatus(&environment.Status{
		Name: "demo", Exists: true, KubernetesVersion: "1.37", Endpoint: "https://127.0.0.1:1",
		Parts: []environment.Part{
			part("etcd", func(p *controlplane.PartStatus) { p.PID, p.Running, p.Ready = 7, true, true }),
			part("manager", func(p *controlplane.PartStatus) { p.PID, p.Restarts, p.LastExit = 8, 3, "exit status 1" }),
		},
		Clusters: []environment.Cluster{{Name: "quick", Parts: []environment.Part{
			part("karpenter-kwok", func(p *controlplane.PartStatus) { p.Waiting = "/apis/karpenter.sh/v1/nodepools" }),
		}}},
	}, "")).To(Succeed())
	g.Expect(out.String()).To(Equal(`demo, Kubernetes 1.37, https://127.0.0.1:1: not ready
CLUSTER       PART            PID  STATE                                        RESTARTS  LOG
(management)  etcd            7    ready                                        0         /logs/etcd
(management)  manager         8    exited: exit status 1                        3         /logs/manager
quick         karpenter-kwok  0    waiting for /apis/karpenter.sh/v1/nodepools  0         /logs/karpenter-kwok
`))
}

func TestStepLine_isRedrawnOnlyOnTerminals(t *testing.T) {
	t.Parallel()
	steps := []demo.Progress{
		{Step: "Flux", Pending: "Applying", Took: time.Second},
		{Step: "Flux", Done: true, Took: 2 * time.Second},
	}
	for live, shown := range map[bool]string{
		false: "   2.0 s  Flux\n",
		true:  "\r\x1b[K   1.0 s  Flux … Applying\r\x1b[K   2.0 s  Flux\n",
	} {
		var out bytes.Buffer
		line := &stepLine{out: text.NewPrintable(&out), live: live}
		for _, step := range steps {
			line.report(step)
		}
		NewWithT(t).Expect(out.String()).To(Equal(shown))
	}
}
