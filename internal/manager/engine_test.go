package manager

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/queue"
)

func TestLimits_leaveSlotsToOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	for runs, want := range map[int]int{1: 1, 2: 1, 4: 3, 5: 4, 10: 8, 100: 80} {
		g.Expect((&EngineOptions{MaxRuns: runs}).limits()).To(Equal(queue.Limits{Total: runs, PerNamespace: want}))
	}
	g.Expect((&EngineOptions{MaxRuns: 10, MaxRunsPerNamespace: 2}).limits().PerNamespace).To(Equal(2))
}

func TestDefaultWorkDir_isNotSharedWithOtherUsers(t *testing.T) {
	g := NewWithT(t)
	temporary, state := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	g.Expect(defaultWorkDir()).To(Equal(filepath.Join(state, "capt")))

	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	g.Expect(defaultWorkDir()).To(Equal(filepath.Join(temporary, "capt")), "a container has no other users")
}

func TestEngineOptions_refuseProcessesInACluster(t *testing.T) {
	g := NewWithT(t)
	program, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	options := EngineOptions{Executor: executorProcess, MaxRuns: 1, Binary: program, Runner: program}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	g.Expect(options.Validate()).To(Succeed())
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	g.Expect(options.Validate()).To(MatchError(ContainSubstring("--allow-process-executor-in-cluster")))
	options.AllowProcess = true
	g.Expect(options.Validate()).To(Succeed())
}

func TestEngineOptions_hideCredentials(t *testing.T) {
	g := NewWithT(t)
	home := t.TempDir()
	for _, name := range []string{".ssh/id_ed25519", ".ssh/id_ed25519.pub", ".ssh/known_hosts", ".ssh/config"} {
		g.Expect(os.MkdirAll(filepath.Join(home, ".ssh"), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(home, name), nil, 0o600)).To(Succeed())
	}
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "/etc/admin.conf:/etc/other.conf")
	options := EngineOptions{Hide: []string{"/srv/secrets", ""}}
	g.Expect(options.hidden()).To(ContainElements("/srv/secrets", "/etc/admin.conf", "/etc/other.conf", filepath.Join(home, ".aws"), filepath.Join(home, ".kube"), filepath.Join(home, ".ssh/id_ed25519")))
	for _, name := range []string{".ssh", ".ssh/id_ed25519.pub", ".ssh/known_hosts", ".ssh/config"} {
		g.Expect(options.hidden()).NotTo(ContainElement(filepath.Join(home, name)), "modules from SSH need it")
	}
	options.InheritHome = true
	g.Expect(options.hidden()).NotTo(ContainElement(HavePrefix(home)))
}
