package clusterctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

const (
	coreVersion        = "v1.14.2"
	certManagerVersion = "v1.18.2"
	previous, current  = "v0.1.0", "v0.1.1"
)

// newRepository builds two releases of this tree, and returns the configuration with
// which clusterctl finds them. Cluster API's components and cert-manager's CRDs come
// from their Go modules.
func newRepository(t *testing.T) (config string) {
	t.Helper()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	for _, version := range []string{previous, current} {
		dist := filepath.Join(dir, "dist", version)
		cmd := exec.Command("go", "run", "./manifests", "build", "-uncommitted", "-version", strings.TrimPrefix(version, "v"), "-out", dist)
		cmd.Dir = filepath.Join(root, "dev")
		out, err := cmd.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "%s", out)
		// clusterctl expects the files of a provider in a directory with its label.
		for provider := range providers {
			g.Expect(os.CopyFS(filepath.Join(dir, provider+"-capt", version), os.DirFS(dist))).To(Succeed())
		}
	}
	addClusterAPI(t, filepath.Join(dir, "cluster-api", coreVersion))
	addCertManager(t, filepath.Join(dir, "cert-manager", certManagerVersion))

	var text strings.Builder
	fmt.Fprintf(&text, "cert-manager:\n  url: %s/cert-manager/%s/cert-manager.yaml\n  version: %s\nproviders:\n", dir, certManagerVersion, certManagerVersion)
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

var chartLine = regexp.MustCompile(`(?m)^.*\{\{.*\}\}.*\n`)

// addCertManager writes cert-manager's CRDs without the lines of its chart.
func addCertManager(t *testing.T, dir string) {
	t.Helper()
	g := NewWithT(t)
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/cert-manager/cert-manager@"+certManagerVersion)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
	var module struct{ Dir string }
	g.Expect(json.Unmarshal(out, &module)).To(Succeed())
	files, err := filepath.Glob(filepath.Join(module.Dir, "deploy", "crds", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	documents := [][]byte{[]byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: cert-manager\n")}
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		text = chartLine.ReplaceAll(text, nil)
		documents = append(documents, bytes.ReplaceAll(text, []byte("  labels:\nspec:"), []byte("spec:")))
	}
	g.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "cert-manager.yaml"), bytes.Join(documents, []byte("---\n")), 0o600)).To(Succeed())
}
