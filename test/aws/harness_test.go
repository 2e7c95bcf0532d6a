// Package aws applies, changes and destroys CAPT's Terraform modules with the real
// AWS provider, alone and through CAPT, on an emulator of AWS: moto's server, and a
// fake of EKS (dev/awsemulator). It takes minutes and requires Python, so it runs only
// with CAPT_TEST_AWS=1 (`make e2e-aws`).
package aws

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

const (
	region = "eu-central-1"
	// testTimeout is how long an operation may take. The provider waits minutes for
	// some.
	testTimeout = 20 * time.Minute
)

func needsEmulator(t *testing.T) {
	t.Helper()
	if os.Getenv("CAPT_TEST_AWS") != "1" {
		t.Skip("set CAPT_TEST_AWS=1 to run the modules against an emulator of AWS")
	}
	t.Parallel()
}

// emulator is the AWS account of one test.
type emulator struct {
	*WithT
	t   *testing.T
	url string
	log string
	// region is the region of requests of the test itself.
	region string
	// administrator are calls that an administrator makes in place of CAPT.
	administrator []string
}

func startEmulator(t *testing.T, args ...string) *emulator {
	t.Helper()
	progressOf(t)
	e := &emulator{WithT: NewWithT(t), t: t, log: filepath.Join(t.TempDir(), "emulator.log"), region: region}
	url, stop, err := testenv.StartAWS(append([]string{"-log", e.log}, args...)...)
	e.Expect(err).NotTo(HaveOccurred())
	e.url = url
	t.Cleanup(func() {
		e.checkCalls()
		stop()
	})
	return e
}

// settings are the environment variables of the provider.
func (e *emulator) settings() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": e.url, "AWS_REGION": region, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ACCESS_KEY_ID": "emulated", "AWS_SECRET_ACCESS_KEY": "emulated",
	}
}

// writeMirror mirrors the providers that the modules require. modules/eks requires that of
// Helm for the migration from v1; no test uses it.
func writeMirror(dir string) (config string, err error) {
	return testenv.MirrorProviders(dir, testenv.AWSProvider, testenv.HelmProvider)
}

// root is a root module.
type root struct {
	*emulator
	dir  string
	name string
	env  []string
	vars map[string]any
}

// module prepares a copy of a module.
func (e *emulator) module(name string, vars map[string]any) *root {
	e.t.Helper()
	top, err := testenv.Root()
	e.Expect(err).NotTo(HaveOccurred())
	dir := e.t.TempDir()
	e.Expect(os.CopyFS(filepath.Join(dir, "modules"), os.DirFS(filepath.Join(top, "modules")))).To(Succeed())
	r := &root{emulator: e, dir: filepath.Join(dir, "modules", name), name: name, vars: vars}
	mirror, err := writeMirror(dir)
	e.Expect(err).NotTo(HaveOccurred())
	r.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE=" + mirror}
	for key, value := range e.settings() {
		r.env = append(r.env, key+"="+value)
	}
	r.tofu("init", "-input=false", "-no-color")
	return r
}

// tofu runs the tool and returns its output.
func (r *root) tofu(args ...string) string {
	r.t.Helper()
	out, code := r.try(args...)
	r.Expect(code).To(BeZero(), "tofu %s in %s:\n%s", args[0], r.name, out)
	return out
}

func (r *root) try(args ...string) (out string, code int) {
	r.t.Helper()
	tool, err := testenv.Part("tofu")
	r.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(r.t.Context(), tool, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	text, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		r.Expect(err).NotTo(HaveOccurred())
	}
	progressOf(r.t).done("%s: tofu %s", r.name, args[0])
	return string(text), cmd.ProcessState.ExitCode()
}

// write writes the variables with changes.
func (r *root) write(changes map[string]any) {
	r.t.Helper()
	maps.Copy(r.vars, changes)
	text, err := json.Marshal(r.vars)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(os.WriteFile(filepath.Join(r.dir, "terraform.tfvars.json"), text, 0o600)).To(Succeed())
}

// apply applies the variables with changes, and checks that the next plan is empty.
func (r *root) apply(changes map[string]any) {
	r.t.Helper()
	r.write(changes)
	r.tofu("apply", "-auto-approve", "-input=false", "-no-color")
	out, code := r.try("plan", "-detailed-exitcode", "-input=false", "-no-color")
	r.Expect(code).To(BeZero(), "a plan after the apply of %s has differences:\n%s", r.name, out)
}

// destroy destroys all resources of the state.
func (r *root) destroy() {
	r.t.Helper()
	r.tofu("destroy", "-auto-approve", "-input=false", "-no-color")
	r.Expect(strings.TrimSpace(r.tofu("state", "list"))).To(BeEmpty())
}

// output returns an output.
func output[T any](r *root, name string) T {
	r.t.Helper()
	var value T
	r.Expect(json.Unmarshal([]byte(r.tofu("output", "-json", name)), &value)).To(Succeed())
	return value
}
