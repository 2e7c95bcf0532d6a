package aws

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/version"
	"github.com/appthrust/capt/test/aws/account"
)

// page is docs/aws.md, whose commands run in one shell, in the directory of its reader.
type page struct {
	*WithT
	text string
	home string
	env  []string
	// create and remove are the commands, until the deletion and from there on.
	create, remove []string
}

// openPage prepares the directory of a reader who has a management cluster.
func openPage(t *testing.T, kubeconfig string, env map[string]string) *page {
	t.Helper()
	p := &page{WithT: NewWithT(t), home: t.TempDir()}
	top, err := testenv.Root()
	p.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(top, "docs", "aws.md"))
	p.Expect(err).NotTo(HaveOccurred())
	p.text = string(text)
	for _, dir := range []string{"bin", ".kube"} {
		p.Expect(os.MkdirAll(filepath.Join(p.home, dir), 0o755)).To(Succeed())
	}
	p.linkCheckout(top)
	config, err := os.ReadFile(kubeconfig)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(os.WriteFile(filepath.Join(p.home, ".kube", "config"), config, 0o600)).To(Succeed())
	mirror, err := writeMirror(p.home)
	p.Expect(err).NotTo(HaveOccurred())
	path := []string{filepath.Join(p.home, "bin"), filepath.Join(top, "bin"), filepath.Join(top, "bin", "parts"), os.Getenv("PATH")}
	p.env = []string{
		"PATH=" + strings.Join(path, string(os.PathListSeparator)), "HOME=" + p.home, "TF_CLI_CONFIG_FILE=" + mirror,
		"TF_CLI_ARGS_apply=-auto-approve", "TF_CLI_ARGS_destroy=-auto-approve",
	}
	for key, value := range env {
		p.env = append(p.env, key+"="+value)
	}
	return p
}

// linkCheckout makes a checkout with the files of a release, as kind.md builds them.
func (p *page) linkCheckout(root string) {
	at := filepath.Join(p.home, "capt")
	p.Expect(os.Mkdir(at, 0o755)).To(Succeed())
	entries, err := os.ReadDir(root)
	p.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		if entry.Name() != "dist" {
			p.Expect(os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(at, entry.Name()))).To(Succeed())
		}
	}
	p.Expect(testenv.BuildRelease(strings.TrimPrefix(version.Version(), "v"), filepath.Join(at, "dist"))).To(Succeed())
}

// read takes the blocks of scenarios.
func (p *page) read(scenarios ...string) {
	create, remove, found := strings.Cut(p.text, "\n## Deletion\n")
	p.Expect(found).To(BeTrue(), "the page has a section about the deletion")
	p.create, p.remove = testenv.Blocks(create, scenarios...), testenv.Blocks(remove, scenarios...)
}

// rename gives everything that the commands create the name of a run, and its tag where the
// name does not show it.
func (p *page) rename(run account.Run, region string) {
	tagged := `| awk '/^  (region|controlPlaneConfig):/ { print "  additionalTags: {\"` + account.TagKey + `\": \"` + run.ID + `\"}" } { print }' > ` + run.Cluster() + ".yaml\n" +
		`test "$(grep -c '"` + run.ID + `"}' ` + run.Cluster() + `.yaml)" = 2`
	names := strings.NewReplacer(
		"eu-central-1", region, "demo", run.Cluster(), "--user-name capt", "--user-name "+run.Cluster(),
		"  create_role = false\n", "  create_role = false\n  name        = \""+run.Cluster()+"\"\n",
		"> demo.yaml", tagged,
	)
	for _, blocks := range [][]string{p.create, p.remove} {
		for i := range blocks {
			blocks[i] = names.Replace(blocks[i])
		}
	}
}

// script returns the commands of the page as a script that removes what they created, also
// if one of them fails or the script is terminated. Then the removal begins again, and
// continues after errors.
func (p *page) script() string {
	return "remove() {\n" + strings.Join(p.remove, "\n") + "\n}\n" +
		"removeAfterFailure() { code=$?; trap - EXIT; trap '' TERM; set +e; remove; exit $code; }\n" +
		"trap 'exit 143' TERM\ntrap removeAfterFailure EXIT\n" +
		strings.Join(p.create, "\n") + "\nremove\ntrap - EXIT\n"
}

// removal is how long the removal may take after a failure.
const removal = time.Hour

// follow runs the commands, and terminates them when the context ends. Options are those of
// bash. The removal may take an hour.
func (p *page) follow(ctx context.Context, options string, out io.Writer) error {
	file := filepath.Join(p.home, "page.sh")
	p.Expect(os.WriteFile(file, []byte(p.script()), 0o600)).To(Succeed())
	shell := exec.CommandContext(ctx, "bash", options, "-o", "pipefail", file)
	shell.Dir, shell.Env, shell.Stdout, shell.Stderr = p.home, p.env, out, out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.WaitDelay = removal
	err := shell.Run()
	if shell.Process != nil {
		// What the commands started ends with them.
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	return err
}

// In an account of a user, nothing has a name that the user may have given to something else.
func TestPage_renamesEverything(t *testing.T) {
	t.Parallel()
	p := &page{WithT: NewWithT(t)}
	text, err := os.ReadFile("../../docs/aws.md")
	p.Expect(err).NotTo(HaveOccurred())
	p.text = string(text)
	p.read("aws", "aws-real")
	p.rename(account.Run{ID: "abcdef"}, "us-west-2")
	script := p.script()
	p.Expect(script).NotTo(Or(ContainSubstring("demo"), ContainSubstring("eu-central-1"), MatchRegexp(`--user-name capt\s`)))
	p.Expect(script).To(And(
		ContainSubstring(`name        = "capt-e2e-abcdef"`), ContainSubstring("cluster capt-e2e-abcdef"),
		ContainSubstring(`capt-e2e-abcdef.yaml)" = 2`),
	))

	// The generated cluster has the tag.
	captctl, err := testenv.Built("captctl")
	p.Expect(err).NotTo(HaveOccurred())
	p.home = t.TempDir()
	p.Expect(os.WriteFile(filepath.Join(p.home, "curl"), []byte("#!/bin/sh\necho 203.0.113.7\n"), 0o755)).To(Succeed())
	p.create, p.remove = slices.DeleteFunc(p.create, func(block string) bool { return !strings.Contains(block, "captctl generate") }), []string{"true"}
	p.Expect(p.create).To(HaveLen(1))
	p.env = []string{"PATH=" + strings.Join([]string{p.home, filepath.Dir(captctl), os.Getenv("PATH")}, string(os.PathListSeparator)), "HOME=" + p.home}
	var out bytes.Buffer
	p.Expect(p.follow(t.Context(), "-eu", &out)).To(Succeed(), out.String())
	generated, err := os.ReadFile(filepath.Join(p.home, "capt-e2e-abcdef.yaml"))
	p.Expect(err).NotTo(HaveOccurred())
	objects, err := manifest.Parse(generated)
	p.Expect(err).NotTo(HaveOccurred())
	tagged := map[string]any{}
	for _, obj := range objects {
		if tags, found, _ := unstructured.NestedStringMap(obj.Object, "spec", "additionalTags"); found {
			tagged[obj.GetKind()] = tags[account.TagKey]
		}
	}
	p.Expect(tagged).To(Equal(map[string]any{"CAPTCluster": "abcdef", "CAPTControlPlane": "abcdef"}))
}

// A command that fails, and a signal, lead to the removal.
func TestPage_removesWhatItCreatedAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]string{"success": "true", "failure": "false", "signal": "touch begun; sleep 600", "failed removal": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &page{WithT: NewWithT(t), home: t.TempDir(), env: os.Environ(), create: []string{create, "touch created"}, remove: []string{"echo one >> removed", "echo two >> removed"}}
			switch name {
			case "failure":
				p.remove[0] += "; false"
			case "failed removal":
				p.remove[0] = "if test ! -e tried; then touch tried; false; fi; " + p.remove[0]
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for name == "signal" && ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(p.home, "begun")); err == nil {
						cancel()
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			var out bytes.Buffer
			err := p.follow(ctx, "-eu", &out)
			p.Expect(err == nil).To(Equal(name == "success"), out.String())
			if name == "failure" || name == "signal" {
				p.Expect(filepath.Join(p.home, "created")).NotTo(BeAnExistingFile())
			}
			removed, err := os.ReadFile(filepath.Join(p.home, "removed"))
			p.Expect(err).NotTo(HaveOccurred(), out.String())
			p.Expect(string(removed)).To(Equal("one\ntwo\n"))
		})
	}
}
