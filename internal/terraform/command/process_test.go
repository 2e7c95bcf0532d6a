package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/testenv/waits"
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

func TestApply_interruptedKeepsTheResourcesCreatedSoFar(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		w, log := workdir(t, tool)
		dir := t.TempDir()
		session := planned(ctx, t, w, slowRequest(dir))
		done := make(chan error)
		go func() {
			_, err := session.Apply(ctx, w.PlanFile(), nil)
			done <- err
		}()
		g.Eventually(log.String).Should(ContainSubstring("terraform_data.slow: Creating"))
		g.Eventually(func() ([]byte, error) { return os.ReadFile(filepath.Join(dir, "created")) }).Should(ContainSubstring("slow"))
		cancel(errors.New("cancelled by the user"))

		failure := AsFailure(<-done)
		g.Expect(failure).NotTo(BeNil())
		g.Expect(failure.Interrupted).To(BeTrue())
		g.Expect(failure.Killed).To(BeFalse())
		g.Expect(failure.Outcome()).To(Equal(terraform.OutcomeInterrupted))
		g.Expect(failure.Class).To(Equal(terraform.ClassTransient))
		state := localStateOf(t, w, session)
		g.Expect(state.Addresses).To(ContainElement("terraform_data.first"))
		g.Expect(state.Addresses).NotTo(ContainElement("terraform_data.last"))
	})
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

const helperEnv = "CAPT_TEST_ENGINE"

// TestEngineHelper is not a test but the engine that the next test kills.
func TestEngineHelper(t *testing.T) {
	dir := os.Getenv(helperEnv)
	if dir == "" {
		t.Skip("runs only as a child of TestApply_survivesTheDeathOfTheEngine")
	}
	w := &Workdir{Tool: &binary.Tool{Path: os.Getenv(binary.Env)}, Dir: filepath.Join(dir, "work"), Log: os.Stdout}
	session, err := Prepare(context.Background(), w, slowRequest(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Plan(context.Background(), PlanOptions{Out: w.PlanFile()}); err != nil {
		t.Fatal(err)
	}
	_, err = session.Apply(context.Background(), w.PlanFile(), nil)
	t.Fatal("the engine was not killed: ", err)
}

func TestApply_survivesTheDeathOfTheEngine(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		dir := t.TempDir()
		engine := exec.Command(os.Args[0], "-test.run=^TestEngineHelper$", "-test.v")
		engine.Env = append(os.Environ(), helperEnv+"="+dir, binary.Env+"="+tool.Path)
		out, err := engine.StdoutPipe()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(engine.Start()).To(Succeed())
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				_ = lines.Text()
			}
		}()
		g.Eventually(func() ([]byte, error) { return os.ReadFile(filepath.Join(dir, "created")) }).Should(ContainSubstring("slow"))
		work := filepath.Join(dir, "work")
		g.Expect(tool.Running(work)).To(HaveLen(1))
		g.Expect(engine.Process.Kill()).To(Succeed())
		_ = engine.Wait()

		g.Expect(tool.AwaitEnd(context.Background(), work, nil, waits.Timeout)).To(Succeed())
		w := &Workdir{Tool: tool, Dir: work, Log: &syncBuffer{}}
		request := slowRequest(dir)
		g.Expect(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600)).To(Succeed())
		session, err := Prepare(context.Background(), w, request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.InitRan).To(BeFalse(), "the directory is still warm")
		state := localStateOf(t, w, session)
		g.Expect(state.Addresses).To(ContainElement("terraform_data.first"), "the tool saved its state after the engine's death")
		g.Expect(exists(filepath.Join(work, ".terraform.tfstate.lock.info"))).To(BeFalse(), "no lock remains")

		_, err = session.Plan(context.Background(), PlanOptions{Out: w.PlanFile()})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = session.Apply(context.Background(), w.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(localStateOf(t, w, session).Addresses).To(ConsistOf("terraform_data.first", "terraform_data.slow", "terraform_data.last"))
	})
}
