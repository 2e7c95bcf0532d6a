package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// captctl local up in another shell must not restart a manager.
func TestFingerprint_ignoresThePathOfTheShell(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "manager")
	g.Expect(os.WriteFile(file, []byte("1"), 0o600)).To(Succeed())
	of := func(env ...string) string {
		hash, err := Program{Name: "manager", Path: file, Env: env, Files: []string{file}}.fingerprint()
		g.Expect(err).NotTo(HaveOccurred())
		return hash
	}
	first := of("KUBECONFIG=k", "PATH=/bin")
	g.Expect(of("KUBECONFIG=k", "PATH=/bin:/home/u/bin")).To(Equal(first))
	g.Expect(of("KUBECONFIG=k", "PATH=/bin", "HTTPS_PROXY=p")).NotTo(Equal(first))
	g.Expect(os.WriteFile(file, []byte("2"), 0o600)).To(Succeed())
	g.Expect(of("KUBECONFIG=k", "PATH=/bin")).NotTo(Equal(first), "it was built again")
}
