package process_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/process"
	"github.com/appthrust/capt/internal/terraform/record"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// patientRunner ends when its directory has a file end, and records signals.
const patientRunner = `#!/bin/sh
cd "$(dirname "$0")"
trap 'echo TERM >> signals' TERM
echo ready >> signals
while [ ! -e end ]; do sleep 0.05; done
echo ended >> signals
`

// patient is a run whose runner ends only when it is told to.
type patient struct {
	*WithT
	executor *process.Executor
	run      terraform.Run
	dir      string
	// stop begins the shutdown, and stopped receives its end.
	stop    context.CancelFunc
	stopped chan error
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{WithT: NewWithT(t), dir: t.TempDir(), stopped: make(chan error, 1)}
	runner := filepath.Join(p.dir, "runner")
	p.Expect(os.WriteFile(runner, []byte(patientRunner), 0o700)).To(Succeed())
	manager, err := env.ManagerAccount()
	p.Expect(err).NotTo(HaveOccurred())
	p.executor = process.New(process.Options{
		Client: manager.Client, Reader: manager.Client, API: manager.Config, Runner: runner, WorkDir: t.TempDir(), Grace: 4 * time.Second,
	})
	owner := &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "none"}}}
	owner.Namespace, owner.Name = env.Namespace(t), "patient"
	p.Expect(env.Client.Create(t.Context(), owner)).To(Succeed())
	workspace := terraform.WorkspaceRef{Namespace: owner.Namespace, Name: owner.Name, UID: string(owner.UID)}
	request := &terraform.Request{
		RunID: "patient-r1", Workspace: workspace, Operation: terraform.OperationPlanAndApply,
		Backend: terraform.Backend{Type: terraform.BackendKubernetes, Namespace: owner.Namespace, SecretSuffix: "patient"},
	}
	secret, err := record.NewRun(request, record.Meta(workspace, record.ComponentRun, request.RunID))
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(env.Client.Create(t.Context(), secret)).To(Succeed())
	p.run = terraform.Run{Namespace: owner.Namespace, Workspace: owner.Name, WorkspaceUID: workspace.UID, ID: request.RunID, Digest: record.RequestDigest(secret)}
	p.Expect(p.executor.Start(t.Context(), p.run)).To(Succeed())
	t.Cleanup(func() {
		p.end()
		p.Eventually(p.signals).Should(HaveSuffix("ended\n"), "the runner has ended")
	})
	p.Eventually(p.signals).Should(Equal("ready\n"))
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.stopped <- p.executor.Run(ctx) }()
	return p
}

func (p *patient) signals() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, "signals"))
	return string(text)
}

func (p *patient) end() {
	p.Expect(os.WriteFile(filepath.Join(p.dir, "end"), nil, 0o600)).To(Succeed())
}

func (p *patient) interrupted() bool {
	secret := &corev1.Secret{}
	p.Expect(env.Client.Get(context.Background(), client.ObjectKey{Namespace: p.run.Namespace, Name: record.SecretName(p.run.ID)}, secret)).To(Succeed())
	return record.Interrupted(secret)
}

func TestRun_leavesTheRunners(t *testing.T) {
	p := newPatient(t)
	p.stop()
	p.Eventually(p.stopped).Should(Receive(BeNil()))
	p.Expect(p.executor.Observe(t.Context(), p.run)).To(Equal(terraform.LivenessRunning))
	p.end()
	p.Eventually(p.signals).Should(Equal("ready\nended\n"), "no signal")
	p.Expect(p.interrupted()).To(BeFalse())
}

// The processes of a container end with its first one.
func TestRun_inAPod(t *testing.T) {
	t.Run("an apply is completed", func(t *testing.T) {
		t.Setenv("POD_UID", "u")
		p := newPatient(t)
		p.stop()
		p.Eventually(p.signals).Should(Equal("ready\nTERM\n"))
		p.Expect(p.stopped).NotTo(Receive())
		p.Expect(p.interrupted()).To(BeFalse())
		p.end()
		p.Eventually(p.stopped).Should(Receive(BeNil()))
		p.Expect(p.interrupted()).To(BeFalse())
	})
	t.Run("it is interrupted when the time is nearly over", func(t *testing.T) {
		t.Setenv("POD_UID", "u")
		p := newPatient(t)
		p.stop()
		p.Eventually(p.interrupted).Should(BeTrue())
		p.Expect(p.stopped).NotTo(Receive())
		p.end()
		p.Eventually(p.stopped).Should(Receive(BeNil()))
	})
}

// A signal alone is not a cancel.
func TestStop_interruptsTheRun(t *testing.T) {
	p := newPatient(t)
	p.Expect(p.interrupted()).To(BeFalse())
	p.Expect(p.executor.Stop(t.Context(), p.run, true)).To(Succeed())
	p.Expect(p.interrupted()).To(BeTrue())
	p.Eventually(p.signals).Should(Equal("ready\nTERM\n"))
	p.stop()
}
