package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// scriptedTool returns a tool that is a shell script, for behaviour that the real
// tool shows only if it is old or broken.
func scriptedTool(t *testing.T, script string) *binary.Tool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tofu")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return &binary.Tool{Path: path}
}

func TestInit_withoutJSON(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, scriptedTool(t, `
case "$*" in
*-json*) echo "Error parsing command-line flags: flag provided but not defined: -json" >&2; exit 1;;
esac
printf '\nError: Invalid thing\n\n  on main.tf line 3:\n   3: x\n\nIt is invalid.\n' >&2; exit 1
`))
	_, err := Prepare(context.Background(), w, inline(""))
	g.Expect(err).To(MatchError("init failed: main.tf:3: Invalid thing: It is invalid."))
	g.Expect(AsFailure(err).Class).To(Equal(terraform.ClassTerminal))
}

func TestInit_selectsOnlyOutdatedProvidersAgain(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, scriptedTool(t, `
if grep -q hashicorp/aws .terraform.lock.hcl; then
  echo 'Error: Failed to query available provider packages

Could not retrieve the list of available versions for provider hashicorp/aws:
locked provider registry.opentofu.org/hashicorp/aws 5.0.0 does not match
configured version constraint ~> 6.0; must use tofu init -upgrade to allow
selection of new versions' >&2; exit 1
fi
echo '# selected' >> .terraform.lock.hcl
`))
	const kept = `provider "registry.opentofu.org/hashicorp/local" {
  version = "2.9.0"
  hashes  = ["h1:kept"]
}
`
	request := inline("")
	request.LockFile = []byte("provider \"registry.opentofu.org/hashicorp/aws\" {\n  version = \"5.0.0\"\n}\n\n" + kept)
	session, err := Prepare(context.Background(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	lock, err := session.LockFile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.TrimSpace(string(lock))).To(Equal(kept + "# selected"))
	g.Expect(log.String()).To(And(ContainSubstring("Warning: the version of provider registry.opentofu.org/hashicorp/aws in the dependency lock file"), Not(ContainSubstring("hashicorp/local"))))
}

// The author of a module has chosen the versions and checksums of its lock file. What does not
// fit to it is the author's to correct, as with the tool alone.
func TestInit_doesNotReplaceTheLockFileOfAModule(t *testing.T) {
	const lock = "provider \"registry.opentofu.org/hashicorp/aws\" {\n  version = \"5.0.0\"\n  hashes  = [\"h1:chosen\"]\n}\n"
	g := NewWithT(t)
	w, log := workdir(t, scriptedTool(t, `
if grep -q hashicorp/aws .terraform.lock.hcl; then
  echo 'Error: Failed to query available provider packages

locked provider registry.opentofu.org/hashicorp/aws 5.0.0 does not match
configured version constraint ~> 6.0; must use tofu init -upgrade to allow
selection of new versions' >&2; exit 1
fi
`))
	request := inline("")
	request.Files = map[string][]byte{dependencyLock: []byte(lock)}
	request.LockFile = []byte("# of the previous run\n")
	_, err := Prepare(context.Background(), w, request)
	g.Expect(err).To(MatchError(And(ContainSubstring("does not match"), ContainSubstring("init -upgrade"))))
	g.Expect(AsFailure(err).Class).To(Equal(terraform.ClassTerminal))
	g.Expect(log.String()).NotTo(ContainSubstring("It is selected again"))
	content, err := os.ReadFile(filepath.Join(w.moduleDir(), dependencyLock))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(lock))
}

func TestInit_keepsABrokenLockFile(t *testing.T) {
	for name, lock := range map[string]string{"not HCL": "provider {{", "without the provider": "# empty\n"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, _ := workdir(t, scriptedTool(t, `
echo 'Error: Failed to query available provider packages

locked provider registry.opentofu.org/hashicorp/aws 5.0.0 does not match configured version constraint ~> 6.0' >&2; exit 1
`))
			request := inline("")
			request.LockFile = []byte(lock)
			_, err := Prepare(context.Background(), w, request)
			g.Expect(err).To(MatchError(ContainSubstring("dependency lock file")))
		})
	}
}

func TestApply_savesAStateThatTheToolOnlyPrinted(t *testing.T) {
	g := NewWithT(t)
	w, log := workdir(t, scriptedTool(t, `
[ "$1" = apply ] || exit 0
echo '{"@level":"info","@message":"Emergency state dump","type":"log","state":{"version":4,"lineage":"s3cr3t"}}'
echo '{"@level":"error","@message":"Error: Failed to persist state","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to persist state"}}'
exit 1
`))
	session, err := Prepare(context.Background(), w, inline(""))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Apply(context.Background(), "plan", nil)
	g.Expect(AsFailure(err).StateUnsaved()).To(BeTrue())
	g.Expect(session.PrintedState()).To(MatchJSON(`{"version":4,"lineage":"s3cr3t"}`))
	rescued, err := UnsavedStates(w.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rescued).To(HaveLen(1))
	g.Expect(rescued[0].Content).To(MatchJSON(`{"version":4,"lineage":"s3cr3t"}`))
	g.Expect(log.String()).NotTo(ContainSubstring("s3cr3t"))
}

func TestPlan_reportsACrash(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, scriptedTool(t, `
[ "$1" = plan ] || exit 0
printf 'some text\npanic: runtime error \377\n\ngoroutine 1 [running]:\nmain.main()\n' >&2
exit 11
`))
	session, err := Prepare(context.Background(), w, inline(""))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Plan(context.Background(), PlanOptions{})
	g.Expect(err).To(MatchError("plan failed: tofu plan ended with exit status 11: panic: runtime error \uFFFD"))
}
