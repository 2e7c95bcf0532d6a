package cli_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
)

func TestHints_haveTheFlagsOfTheCommand(t *testing.T) {
	h := newHarness(t)
	guest := workspace("guest")
	guest.Annotations = map[string]string{infrav1.HostedInAnnotation: "platform"}
	h.create(workspace("net"), guest)
	kubeconfig := "--kubeconfig " + env.Kubeconfig
	flags := kubeconfig + " -n " + h.namespace
	for arguments, want := range map[string]string{
		"reconcile net":   "Requested a run of net: follow it with captctl " + flags + " logs -f net\n",
		"reconcile guest": "Requested a run of guest: follow it with captctl " + kubeconfig + " -n platform logs -f " + h.namespace + ".guest, if you may\n",
		"approve net":     "no plan of net is waiting for approval: see captctl " + flags + " history net",
		"history net":     "net has no runs yet: see kubectl " + flags + " describe wsta net\n",
		"get addons":      fmt.Sprintf("No add-ons in namespace %q: install one with captctl %s addon install\n", h.namespace, flags),
		"logs net":        "net has no runs yet: see kubectl " + flags + " describe wsta net",
		"run net":         "nothing is requested: pass --replace, --target, --refresh-only, --import or --plan-only: see captctl run --help",
		"describe nets":   `unknown command "nets" for "captctl describe": see captctl describe --help`,
	} {
		h.Expect(executeAs(h, "captctl", flags+" "+arguments)).To(Equal(want), arguments)
	}
	h.Expect(executeAs(h, "kubectl-capt", flags+" reconcile net")).To(Equal("Requested a run of net: follow it with kubectl capt " + flags + " logs -f net\n"))
}

// executeAs runs a command under a name, and returns all that it prints.
func executeAs(h *harness, program, arguments string) string {
	var out strings.Builder
	root := cli.New(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	root.SetArgs(strings.Fields(arguments))
	cli.CalledAs(root, []string{program})
	if err := root.ExecuteContext(h.ctx); err != nil {
		out.WriteString(err.Error())
	}
	return out.String()
}

// Commands in messages that connect to the management cluster must get the flags of the user.
func TestHints_knowEveryCommand(t *testing.T) {
	g := NewWithT(t)
	root := cli.New(cli.Streams{})
	local := []string{"local", "generate", "validate", "render", "version", "reference", "help", "completion"}
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		want := "see captctl " + cmd.Name()
		if !slices.Contains(local, cmd.Name()) {
			want = "see captctl --context prod " + cmd.Name()
		}
		g.Expect(cli.HintsOf("see captctl " + cmd.Name())).To(Equal(want))
	}
	for _, dir := range []string{"doctor", "operate", "."} {
		for verb := range commandsOf(t, dir, `\bkubectl ([a-z][a-z-]*)`) {
			want := "kubectl --context prod " + verb
			if slices.Contains([]string{"capt", "config", "plugin"}, verb) {
				want = "kubectl " + verb
			}
			g.Expect(cli.HintsOf("kubectl " + verb)).To(Equal(want))
		}
	}
	found := commandsOf(t, "doctor", `\bclusterctl ((?:describe |get |upgrade )?[a-z]+)`)
	g.Expect(found).NotTo(BeEmpty())
	for verb := range found {
		g.Expect(cli.HintsOf("clusterctl " + verb + " --x")).To(Equal("clusterctl " + verb + " --kubeconfig-context prod --x"))
	}
}

// commandsOf returns the commands of a program in the strings of a package.
func commandsOf(t *testing.T, dir, pattern string) map[string]bool {
	t.Helper()
	g := NewWithT(t)
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	g.Expect(err).NotTo(HaveOccurred())
	verbs := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		g.Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
				for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(literal.Value, -1) {
					verbs[match[1]] = true
				}
			}
			return true
		})
	}
	return verbs
}
