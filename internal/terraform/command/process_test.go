package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/terraform"
)

// slowModule creates one resource at once, a second one that takes until the file
// "go" exists, and a third one that depends on the second. Each creation adds a
// line to the file "created".
const slowModule = `
variable "dir" {}
resource "terraform_data" "first" {
  provisioner "local-exec" {
    command = "echo first >> ${var.dir}/created"
  }
}
resource "terraform_data" "slow" {
  input = terraform_data.first.id
  provisioner "local-exec" {
    command = "echo slow >> ${var.dir}/created; for i in $(seq 6000); do [ -e ${var.dir}/go ] && exit 0; sleep 0.1; done"
  }
}
resource "terraform_data" "last" {
  input = terraform_data.slow.id
  provisioner "local-exec" {
    command = "echo last >> ${var.dir}/created"
  }
}
`

func slowRequest(dir string) *terraform.Request {
	request := inline(slowModule)
	request.Variables = values(map[string]string{"dir": dir})
	return request
}

func TestPlan_timesOut(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, tofu(t))
	session, err := Prepare(context.Background(), w, inline(`output "a" { value = 1 }`))
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	_, err = session.Plan(ctx, PlanOptions{})
	g.Expect(AsFailure(err).Outcome()).To(Equal(terraform.OutcomeTimedOut))
}

func TestRun_killsTheProcessGroupAfterTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	script := `trap '' INT; sleep 300 & echo $! > child; wait; wait`
	go func() {
		var content []byte
		for !bytes.HasSuffix(content, []byte("\n")) {
			time.Sleep(10 * time.Millisecond)
			content, _ = os.ReadFile(filepath.Join(dir, "child"))
		}
		cancel()
	}()
	ended, err := call{
		path: "/bin/sh", args: []string{"-c", script}, dir: dir, grace: 100 * time.Millisecond,
		stdout: out, stderr: out, poll: func(bool) {},
	}.run(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ended.interrupted).To(BeTrue())
	g.Expect(ended.killed).To(BeTrue())
	var child int
	content, err := os.ReadFile(filepath.Join(dir, "child"))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = fmt.Sscan(string(content), &child)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error { return syscall.Kill(child, 0) }).Should(MatchError(syscall.ESRCH), "the child is in the killed group")
}

// engineEnv makes a test the engine of a tool in this directory.
const engineEnv = "CAPT_TEST_ENGINE_DIR"

// When a process ends, the kernel hangs up each process group of its session that it was the only
// connection to, if a process of that group is stopped.
func TestRun_outlivesItsEngineWhileItIsStopped(t *testing.T) {
	g := NewWithT(t)
	if dir := os.Getenv(engineEnv); dir != "" {
		out, err := os.Create(filepath.Join(dir, "out"))
		g.Expect(err).NotTo(HaveOccurred())
		script := `echo $$ > tool; while [ ! -e end ]; do sleep 0.05; done; echo saved > state`
		_, err = call{path: "/bin/sh", args: []string{"-c", script}, dir: dir, stdout: out, stderr: out, poll: func(bool) {}}.run(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		return
	}
	dir := t.TempDir()
	engine := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	engine.Env = append(os.Environ(), engineEnv+"="+dir)
	engine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	g.Expect(engine.Start()).To(Succeed())
	t.Cleanup(func() { _ = engine.Process.Kill() })
	var tool procfs.Proc
	g.Eventually(func(g Gomega) {
		content, err := os.ReadFile(filepath.Join(dir, "tool"))
		g.Expect(err).NotTo(HaveOccurred())
		var pid int
		_, err = fmt.Sscan(string(content), &pid)
		g.Expect(err).NotTo(HaveOccurred())
		tool, err = procfs.NewProc(pid)
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
	t.Cleanup(func() { _ = syscall.Kill(-tool.PID, syscall.SIGKILL) })

	g.Expect(syscall.Kill(tool.PID, syscall.SIGSTOP)).To(Succeed())
	g.Eventually(func() (string, error) {
		stat, err := tool.Stat()
		return stat.State, err
	}).Should(Equal("T"))
	g.Expect(engine.Process.Kill()).To(Succeed())
	g.Expect(engine.Wait()).NotTo(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600)).To(Succeed())
	g.Expect(syscall.Kill(tool.PID, syscall.SIGCONT)).To(Succeed())
	g.Eventually(filepath.Join(dir, "state")).Should(BeAnExistingFile(), "the tool saves its state")
}

func TestRun_startsNoProcessIfCancelled(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ended, err := call{path: "/does/not/exist", poll: func(bool) {}}.run(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ended.interrupted).To(BeTrue())
}

func TestRun_reportsAMissingBinary(t *testing.T) {
	g := NewWithT(t)
	_, err := call{path: "/does/not/exist", poll: func(bool) {}}.run(context.Background())
	g.Expect(err).To(MatchError(os.ErrNotExist))
}
