package clusterctl

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

const (
	coreVersion       = "v1.14.2"
	previous, current = "v0.1.0", "v0.1.1"
)

// newRepository builds two releases of this tree, and returns the configuration with
// which clusterctl finds them. Cluster API's components and cert-manager's CRDs come
// from their Go modules.
func newRepository(t *testing.T) (config string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for _, version := range []string{previous, current} {
		dist := filepath.Join(dir, "dist", version)
		g.Expect(testenv.BuildRelease(strings.TrimPrefix(version, "v"), dist)).To(Succeed())
		// clusterctl expects the files of a provider in a directory with its label.
		for provider := range providers {
			g.Expect(os.CopyFS(filepath.Join(dir, provider+"-capt", version), os.DirFS(dist))).To(Succeed())
		}
	}
	addClusterAPI(t, filepath.Join(dir, "cluster-api", coreVersion))
	addCertManager(t, filepath.Join(dir, "cert-manager", testenv.CertManagerVersion))

	var text strings.Builder
	fmt.Fprintf(&text, "cert-manager:\n  url: %s/cert-manager/%s/cert-manager.yaml\n  version: %s\nproviders:\n", dir, testenv.CertManagerVersion, testenv.CertManagerVersion)
	fmt.Fprintf(&text, "- {name: cluster-api, type: CoreProvider, url: %s/cluster-api/%s/core-components.yaml}\n", dir, coreVersion)
	for provider, kind := range map[string]string{"infrastructure": "InfrastructureProvider", "control-plane": "ControlPlaneProvider", "bootstrap": "BootstrapProvider", "addon": "AddonProvider"} {
		fmt.Fprintf(&text, "- {name: capt, type: %s, url: %s/%s-capt/latest/%s-components.yaml}\n", kind, dir, provider, provider)
	}
	config = filepath.Join(dir, "clusterctl.yaml")
	g.Expect(os.WriteFile(config, []byte(text.String()), 0o600)).To(Succeed())
	return config
}

func addClusterAPI(t *testing.T, dir string) {
	t.Helper()
	g := NewWithT(t)
	module, err := testenv.ModuleDir("sigs.k8s.io/cluster-api")
	g.Expect(err).NotTo(HaveOccurred())
	kubectl, err := testenv.Part("kubectl")
	g.Expect(err).NotTo(HaveOccurred())
	components, err := exec.Command(kubectl, "kustomize", filepath.Join(module, "core", "config", "default")).Output()
	g.Expect(err).NotTo(HaveOccurred())
	metadata, err := os.ReadFile(filepath.Join(module, "metadata.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "core-components.yaml"), components, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600)).To(Succeed())
}

// addCertManager writes cert-manager's CRDs and its namespace.
func addCertManager(t *testing.T, dir string) {
	t.Helper()
	g := NewWithT(t)
	crds, err := testenv.CertManagerCRDs()
	g.Expect(err).NotTo(HaveOccurred())
	documents := [][]byte{[]byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: cert-manager\n"), crds}
	g.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "cert-manager.yaml"), bytes.Join(documents, []byte("---\n")), 0o600)).To(Succeed())
}
