package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// The process that creates a resource is all that is left of a runner that was killed in a pod.
func TestSave_waitsForTheTool(t *testing.T) {
	for name, canceled := range map[string]bool{"it has its time": false, "a canceled one is interrupted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			a, r := newAPI(t)
			left := request()
			left.Timeout, left.Grace = time.Hour, time.Hour
			left.Operation = terraform.OperationMoveState // Nothing of it is saved.
			secret, err := record.NewRun(left, record.LocalMeta(left.Workspace, record.ComponentRun, r.RunID))
			g.Expect(err).NotTo(HaveOccurred())
			secret.Namespace, secret.Name = "n", record.SecretName(r.RunID)
			a.store(g, secretsPath, secret)

			config := r.Config
			config.API = &rest.Config{Host: r.kube.base.String()}
			config.WorkDir = t.TempDir()
			dir := workspaceDir(config.WorkDir, left.Workspace.Namespace, left.Workspace.Name)
			g.Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
			tool := filepath.Join(t.TempDir(), "tofu")
			script := `#!/bin/sh
trap 'echo interrupted >> signals; exit' INT; echo ready > signals; while [ ! -e end ]; do sleep 0.05; done`
			g.Expect(os.WriteFile(tool, []byte(script), 0o700)).To(Succeed())
			cmd := exec.Command(tool)
			cmd.Dir = dir
			g.Expect(cmd.Start()).To(Succeed())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			signals := func() string {
				text, _ := os.ReadFile(filepath.Join(dir, "signals"))
				return string(text)
			}
			g.Eventually(signals).Should(Equal("ready\n"))

			saved := make(chan error, 1)
			go func() { saved <- Save(t.Context(), config) }()
			g.Eventually(func() int { return a.count("GET") }).Should(BeNumerically(">", 2), "it asks again whether the run is canceled")
			g.Expect(signals()).To(Equal("ready\n"))
			g.Expect(saved).NotTo(Receive())
			if canceled {
				a.interrupt(g, r.RunID)
			} else {
				g.Expect(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600)).To(Succeed())
			}
			g.Eventually(saved).Should(Receive(BeNil()))
			g.Expect(<-ended).To(Succeed())
			g.Expect(signals() == "ready\ninterrupted\n").To(Equal(canceled))
		})
	}
}
