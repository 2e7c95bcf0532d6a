package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// branch is a Git repository whose main branch has one module.
type branch struct {
	*WithT
	dir string
}

func newBranch(t *testing.T, module string) *branch {
	t.Helper()
	b := &branch{NewWithT(t), t.TempDir()}
	b.git("init", "-q", "-b", "main")
	b.commit(module)
	return b
}

func (b *branch) git(args ...string) string {
	cmd := exec.Command("git", append([]string{"-C", b.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	b.Expect(err).NotTo(HaveOccurred(), string(out))
	return strings.TrimSpace(string(out))
}

// commit moves the branch and returns its commit.
func (b *branch) commit(module string) string {
	b.Expect(writeFile(filepath.Join(b.dir, "main.tf"), []byte(module))).To(Succeed())
	b.git("add", ".")
	b.git("commit", "-qm", "x")
	return b.git("rev-parse", "HEAD")
}

func (b *branch) address() string { return "git::file://" + b.dir + "?ref=main" }

// TestPrepare_usesThePinnedContent moves the branches of a module and of a module that
// it uses. A directory that knows nothing about the earlier one, as in another pod, has
// to get the content of the first.
func TestPrepare_usesThePinnedContent(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		for name, tc := range map[string]struct {
			inline, lost bool
			operation    terraform.Operation
			want         string
		}{
			"remote":                          {},
			"inline":                          {inline: true},
			"the archive is lost":             {lost: true, want: "Module changed"},
			"inline and the archive is lost":  {lost: true, inline: true, want: "Module changed"},
			"a destroy without the archive":   {lost: true, operation: terraform.OperationDestroy},
			"a restore without the archive":   {lost: true, operation: terraform.OperationRestoreState},
			"a drift check of another branch": {lost: true, operation: terraform.OperationCheckDrift, want: "Module changed"},
		} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				child := newBranch(t, `output "v" { value = "first child" }`)
				text := `module "child" { source = "` + child.address() + `" }` + "\n" + `output "child" { value = module.child.v }` + "\n"
				root := newBranch(t, text+`output "root" { value = "first" }`)
				request := inline(text)
				if !tc.inline {
					request.Module = terraform.Module{Source: terraform.SourceRemote, Address: root.address()}
				}
				first, _ := workdir(t, tool)
				session, err := Prepare(context.Background(), first, request)
				g.Expect(err).NotTo(HaveOccurred())
				pin := *session.Content
				g.Expect(pin.Digest).To(MatchRegexp("^sha256:[0-9a-f]{64}$"))
				if !tc.inline {
					g.Expect(pin.Revision).To(Equal(root.git("rev-parse", "HEAD")))
				}
				archive, err := os.ReadFile(first.ArchiveFile())
				g.Expect(err).NotTo(HaveOccurred())

				child.commit(`output "v" { value = "second child" }`)
				root.commit(text + `output "root" { value = "second" }`)
				pin.Archive = "stored"
				request.Module.Pin, request.Operation = &pin, tc.operation
				if tc.operation == "" {
					request.Operation = terraform.OperationPlanAndApply
				}
				pod, _ := workdir(t, tool)
				pod.Dir += "-pod"
				pod.Archive = func(context.Context, string) ([]byte, error) {
					if tc.lost {
						return nil, nil
					}
					return archive, nil
				}
				if tc.want != "" {
					_, err := Prepare(context.Background(), pod, request)
					g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
					g.Expect(AsFailure(err).Class).To(Equal(terraform.ClassTerminal))
					return
				}
				_, applied := apply(t, pod, request)
				if tc.lost {
					g.Expect(string(applied.Outputs["root"].Value)).To(Equal(`"first"`), "the commit is known")
					g.Expect(string(applied.Outputs["child"].Value)).To(Equal(`"second child"`))
					return
				}
				g.Expect(string(applied.Outputs["child"].Value)).To(Equal(`"first child"`))
				if !tc.inline {
					g.Expect(string(applied.Outputs["root"].Value)).To(Equal(`"first"`))
				}
				request.Module.Pin, request.Module.Refetch = nil, true
				_, applied = apply(t, pod, request)
				g.Expect(string(applied.Outputs["child"].Value)).To(Equal(`"second child"`))
			})
		}
	})
}

func TestPrepare_keepsNoArchiveOfImmutableContent(t *testing.T) {
	for name, module := range map[string]func(*branch) terraform.Module{
		"inline": func(*branch) terraform.Module {
			return terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: `output "v" { value = 1 }`}
		},
		"commit": func(b *branch) terraform.Module {
			return terraform.Module{Source: terraform.SourceRemote, Address: "git::file://" + b.dir + "?ref=" + b.git("rev-parse", "HEAD")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := inline("")
			request.Module = module(newBranch(t, `output "v" { value = 1 }`))
			w, _ := workdir(t, tofu(t))
			session, err := Prepare(context.Background(), w, request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(session.Content != nil).To(Equal(name == "commit"))
			g.Expect(w.ArchiveFile()).NotTo(BeAnExistingFile())
			request.Module.Refetch = true
			session, err = Prepare(context.Background(), w, request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(session.initRan).To(BeFalse(), "nothing can have changed")
		})
	}
}

func TestPinAddress(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for name, tc := range map[string]struct{ address, version, revision, wantAddress, wantVersion string }{
		"branch":         {"git::https://example.com/x.git//m?ref=main", "", commit, "git::https://example.com/x.git//m?ref=" + commit, ""},
		"no reference":   {"git::https://example.com/x.git", "", commit, "git::https://example.com/x.git?ref=" + commit, ""},
		"shallow clone":  {"git::https://example.com/x.git?depth=1&ref=v1", "", commit, "git::https://example.com/x.git?ref=" + commit, ""},
		"version range":  {"terraform-aws-modules/vpc/aws", "~> 6.0", "6.1.2", "terraform-aws-modules/vpc/aws", "6.1.2"},
		"unknown":        {"https://example.com/x.zip", "", "", "https://example.com/x.zip", ""},
		"invalid query":  {"git::https://example.com/x.git?ref=%zz", "", commit, "git::https://example.com/x.git?ref=%zz", ""},
		"other argument": {"git::ssh://x/y.git?sshkey=abc", "", commit, "git::ssh://x/y.git?ref=" + commit + "&sshkey=abc", ""},
	} {
		address, version := pinAddress(terraform.Module{Address: tc.address, Version: tc.version, Pin: &terraform.ModuleContent{Revision: tc.revision}})
		NewWithT(t).Expect([]string{address, version}).To(Equal([]string{tc.wantAddress, tc.wantVersion}), name)
	}
}
