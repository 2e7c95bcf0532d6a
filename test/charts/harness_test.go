// Package charts tests the packed charts of the built-in add-ons with Flux and with
// the stand-in for Terraform's Helm provider, on a real API server. It requires `make
// addons`, and runs only with CAPT_TEST_CHARTS=1 (`make test-charts`).
package charts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/addons"
	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// testTimeout is how long an operation may take.
const testTimeout = 2 * time.Minute

// harness is an API server and a server of charts.
type harness struct {
	*WithT
	t   *testing.T
	ctx context.Context
	env *testenv.Environment
	// charts is the address of the charts.
	charts string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	if os.Getenv("CAPT_TEST_CHARTS") != "1" {
		t.Skip("set CAPT_TEST_CHARTS=1, after make addons, to install the packed charts")
	}
	h := &harness{WithT: NewWithT(t), t: t, ctx: t.Context(), env: testenv.New(t)}
	h.serve(h.built("charts"))
	return h
}

// serve serves the charts of a directory until the end of the test.
func (h *harness) serve(dir string) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "address")
	h.start("charts", nil, "serve", "--dir", dir, "--address-file", file)
	h.Eventually(func(g Gomega) {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		h.charts = string(text)
	}, testTimeout).Should(Succeed(), "the charts are served")
}

// built returns a path below bin.
func (h *harness) built(elements ...string) string {
	h.t.Helper()
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(append([]string{root, "bin"}, elements...)...)
	h.Expect(os.Stat(path)).Error().NotTo(HaveOccurred(), "run make addons first")
	return path
}

// start runs a third-party program until the end of the test.
func (h *harness) start(part string, env []string, args ...string) {
	h.t.Helper()
	program, err := testenv.Part(part)
	h.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	h.Expect(cmd.Start()).To(Succeed())
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("output of %s:\n%s", part, tail(output.String()))
		}
	})
}

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// port returns an address with a free port.
func (h *harness) port() string {
	h.t.Helper()
	address, err := testenv.FreeAddress()
	h.Expect(err).NotTo(HaveOccurred())
	return address
}

// objects returns the objects of manifests.
func (h *harness) objects(text string) []*unstructured.Unstructured {
	h.t.Helper()
	all, err := manifest.Parse([]byte(text))
	h.Expect(err).NotTo(HaveOccurred())
	return all
}

// create creates the objects of manifests as soon as their kinds exist.
func (h *harness) create(text string) {
	h.t.Helper()
	for _, obj := range h.objects(text) {
		h.Eventually(func() error { return h.env.Client.Create(h.ctx, obj) }, testTimeout).Should(Succeed(),
			"%s %s is created", obj.GetKind(), obj.GetName())
	}
}

// addon returns a built-in add-on.
func (h *harness) addon(name string) *addonsv1.CAPTAddon {
	h.t.Helper()
	text, err := addons.Files.ReadFile(name + ".yaml")
	h.Expect(err).NotTo(HaveOccurred())
	addon := &addonsv1.CAPTAddon{}
	h.Expect(yaml.UnmarshalStrict(text, addon)).To(Succeed())
	return addon
}

// versions returns the packed versions of a chart, oldest first.
func (h *harness) versions(chart string) []string {
	h.t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.built("charts"), chart+"-*.tgz"))
	h.Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, path := range paths {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), chart+"-"), ".tgz"))
	}
	h.Expect(all).NotTo(BeEmpty())
	return sorted(all)
}

func (h *harness) file(dir, name, format string, args ...any) {
	h.t.Helper()
	h.Expect(os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, format, args...), 0o600)).To(Succeed())
}
