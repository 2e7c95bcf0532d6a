package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/host"
)

func itoa(n int) string { return strconv.Itoa(n) }

func trim(text string) string { return strings.TrimSpace(text) }

// namespaces lists the namespaces with a configuration.
func namespaces(t *testing.T, config *rest.Config) error {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	return c.List(t.Context(), &corev1.NamespaceList{})
}

func TestSupervisor_restartsProgramsThatExit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	file := filepath.Join(t.TempDir(), "settings")
	g.Expect(os.WriteFile(file, []byte("1"), 0o600)).To(Succeed())
	companion := Program{Name: "companion", Path: "/bin/sh", Args: []string{"-c", `echo "$GREETING"; exec sleep 600`, cluster.Dir}, Env: []string{"GREETING=hello"}, Files: []string{file}}
	with := spec(func(s *Spec) { s.Programs = []Program{companion} })
	before := mustUp(t, cluster, with)
	note(t, cluster, "before")
	g.Expect(before.Parts).To(HaveLen(3))
	g.Eventually(func() string { return read(t, layout(cluster.Dir).log("companion")) }).Should(Equal("hello\n"))

	for _, victim := range []string{"companion", APIServer, Etcd} {
		dead := part(t, cluster, victim)
		g.Expect(syscall.Kill(dead.PID, syscall.SIGKILL)).To(Succeed())
		g.Eventually(func(g Gomega) {
			now := part(t, cluster, victim)
			g.Expect(now.Ready).To(BeTrue())
			g.Expect(now.PID).NotTo(Equal(dead.PID))
			g.Expect(now.Restarts).To(Equal(1))
			g.Expect(now.LastExit).To(Equal("signal: killed"))
		}).Should(Succeed(), "the program is restarted")
	}
	g.Eventually(findNote).WithArguments(t, cluster, "before").Should(Succeed(), "etcd keeps the data")
	after := mustUp(t, cluster, with)
	g.Expect(after.Endpoint).To(Equal(before.Endpoint))
	g.Expect(after.Supervisor).To(Equal(before.Supervisor))

	// Only a program whose file has changed is restarted.
	g.Expect(os.WriteFile(file, []byte("2"), 0o600)).To(Succeed())
	changed := mustUp(t, cluster, with)
	g.Expect(changed.Parts[:2]).To(Equal(after.Parts[:2]))
	g.Expect(changed.Parts[2].PID).NotTo(Equal(after.Parts[2].PID))
	removed := mustUp(t, cluster, spec())
	g.Expect(removed.Parts).To(Equal(after.Parts[:2]))
	g.Expect(changed.Parts[2].alive()).To(BeFalse())
}

func TestSupervise_refusesASecondSupervisor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	held, err := host.TryLockFile(layout(dir).supervisorLock())
	g.Expect(err).NotTo(HaveOccurred())
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g.Expect(Supervise(soon, dir)).To(MatchError(ContainSubstring("another supervisor")))
	held.Release()
	// A process that another test starts has the lock until it executes its program.
	g.Eventually(host.IsLocked).WithArguments(layout(dir).supervisorLock()).Should(BeFalse())

	// A lock is not current after its directory was replaced.
	held, err = host.TryLockFile(layout(dir).supervisorLock())
	g.Expect(err).NotTo(HaveOccurred())
	defer held.Release()
	g.Expect(held.Current()).To(BeTrue())
	g.Expect(os.Remove(layout(dir).supervisorLock())).To(Succeed())
	g.Expect(held.Current()).To(BeFalse())
	g.Expect(os.WriteFile(layout(dir).supervisorLock(), nil, 0o600)).To(Succeed())
	g.Expect(held.Current()).To(BeFalse())
}

func TestReserve_keepsThePortOfAProgram(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := layout(t.TempDir())
	first, err := dir.loadPorts(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.ensure(dir, APIServer, Etcd)).To(Succeed())
	g.Expect(first.numbers[APIServer]).NotTo(Equal(first.numbers[Etcd]))
	second, err := dir.loadPorts(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second.numbers).To(Equal(first.numbers), "ports are recorded")

	listener, err := listen(first.numbers[APIServer])
	g.Expect(err).NotTo(HaveOccurred(), "the program gets its port")
	defer listener.Close()
	other, err := listen(first.numbers[Etcd])
	g.Expect(err).NotTo(HaveOccurred())
	defer other.Close()
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g.Expect(dir.loadPorts(soon)).Error().To(MatchError(ContainSubstring("the port of the API server is in use")))
	listener.Close()
	third, err := dir.loadPorts(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(third.ensure(dir, APIServer, Etcd)).To(Succeed())
	g.Expect(third.numbers[APIServer]).To(Equal(first.numbers[APIServer]))
	g.Expect(third.numbers[Etcd]).NotTo(Equal(first.numbers[Etcd]), "another part gets another port")
}
