package command

import (
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

// The directory of the tool has another version under the usual name.
func TestShellEnvironment_hasTheSelectedToolFirst(t *testing.T) {
	g := NewWithT(t)
	dir := commandtest.FakeTools(t, map[string]string{"tofu": "OpenTofu v1.10.1", "tofu-1.9.4": "OpenTofu v1.9.4", "terraform": "Terraform v1.13.2"})
	session := &Session{executor: executor{tool: &binary.Tool{Path: filepath.Join(dir, "tofu-1.9.4")}, workingDir: workingDir{RunDir: t.TempDir()}, env: []string{"PATH=" + dir, "TF_INPUT=0", "A=b"}}}
	env, version, err := session.ShellEnvironment(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version.String()).To(Equal("OpenTofu 1.9.4"))
	g.Expect(env).To(And(ContainElement("A=b"), Not(ContainElement("TF_INPUT=0"))))

	child := exec.CommandContext(t.Context(), "/bin/sh", "-c", "tofu version; terraform version || exit 3")
	child.Env = env
	out, err := child.CombinedOutput()
	g.Expect(err).To(MatchError("exit status 3"), "Terraform would change the state into one of its own")
	g.Expect(string(out)).To(Equal("OpenTofu v1.9.4\nThis shell is for OpenTofu 1.9.4: use tofu, or open the shell with --terraform-binary PATH for Terraform\n"))

	// A second shell in the directory.
	_, _, err = session.ShellEnvironment(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
}
