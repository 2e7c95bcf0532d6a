package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/testenv"
)

func TestErrors_haveTheNextStepInOneLine(t *testing.T) {
	h := newHarness(t)
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"unknown command":    {[]string{"plann"}, `unknown command "plann" for "captctl": did you mean "plan"?`, 2},
		"unknown subcommand": {[]string{"state", "snapshot"}, `unknown command "snapshot" for "captctl state": did you mean "snapshots"?`, 2},
		"unknown flag":       {[]string{"show", "plan", "x", "--bad"}, "unknown flag: --bad (see captctl show plan --help)", 2},
		"unknown format":     {[]string{"show", "plan", "x", "-o", "wide"}, `unknown output format "wide": use json, yaml or markdown`, 2},
		"no name":            {[]string{"describe", "cluster"}, "expected the name of one cluster: captctl describe cluster NAME", 2},
		"no context":         {[]string{"show", "plan", "x", "--context", "none"}, "see kubectl config get-contexts", 1},
		"unreachable":        {[]string{"show", "plan", "x", "-s", "https://127.0.0.1:1"}, "the management cluster at https://127.0.0.1:1 is unreachable (connect: connection refused): check --context", 1},
		"not allowed":        {[]string{"show", "plan", "x", "--as", "stranger"}, "cannot get resource", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a := h.run(tc.args...)
			g.Expect(a.err).To(ContainSubstring(tc.want))
			g.Expect(a.err).NotTo(ContainSubstring("\n"))
			g.Expect(a.code).To(Equal(tc.code))
		})
	}
}

func TestErrors_withoutCluster(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out bytes.Buffer
	err := execute(t.Context(), cli.Streams{In: &out, Out: &out, Err: &out}, "plan", "x")
	g.Expect(err).To(MatchError("no management cluster configured: set --kubeconfig or KUBECONFIG, or start one with captctl local up"))
}

func TestHelp_hasExamplesForEveryCommand(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if len(cmd.Commands()) == 0 && cmd.Name() != "help" {
			NewWithT(t).Expect(cmd.Example).To(ContainSubstring("captctl "), cmd.CommandPath())
			NewWithT(t).Expect(cmd.Short).NotTo(HaveSuffix("."), cmd.CommandPath())
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(cli.New(cli.Streams{}))
}

func TestCalledAs_helpUsesTheName(t *testing.T) {
	for program, want := range map[string]string{"/usr/bin/captctl": "captctl", "/usr/bin/kubectl-capt": "kubectl capt", `kubectl-capt.exe`: "kubectl capt"} {
		g := NewWithT(t)
		var out bytes.Buffer
		root := cli.New(cli.Streams{In: &out, Out: &out, Err: &out})
		g.Expect(cli.CalledAs(root, []string{program})).To(Equal(want))
		root.SetArgs([]string{"show", "plan", "--help"})
		g.Expect(root.ExecuteContext(t.Context())).To(Succeed())
		g.Expect(out.String()).To(ContainSubstring("\n  " + want + " show plan NAME [flags]\n"))
		g.Expect(out.String()).To(ContainSubstring("\n  " + want + " show plan cluster/demo --short\n"))
	}
}

func TestCalledAs_completesForKubectl(t *testing.T) {
	g := NewWithT(t)
	var out, errs bytes.Buffer
	root := cli.New(cli.Streams{In: &out, Out: &out, Err: &errs})
	cli.CalledAs(root, []string{"/usr/bin/kubectl_complete-capt", "version", "-o", ""})
	g.Expect(root.ExecuteContext(t.Context())).To(Succeed())
	g.Expect(out.String()).To(Equal("json\nyaml\n:4\n"))
}

func TestCompletion_ofObjects(t *testing.T) {
	h := newHarness(t)
	h.create(cluster("demo", nil), workspace("net"), karpenter())
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"describe", "cluster", ""}, []string{"demo"}},
		{[]string{"show", "plan", ""}, []string{"net", "cluster/demo", "cluster/demo/vpc"}},
		{[]string{"show", "plan", "net", ""}, nil},
		{[]string{"addon", "status", ""}, []string{"karpenter"}},
		{[]string{"addon", "status", "karpenter", "--cluster", ""}, []string{"demo"}},
		{[]string{"show", "plan", "net", "-o", ""}, []string{"json", "yaml", "markdown"}},
	} {
		// A completion ends without names after some seconds, also on a busy machine.
		h.Eventually(func(g Gomega) {
			a := h.run(append([]string{"__complete"}, tc.args...)...)
			g.Expect(a.code).To(Equal(0), a.err)
			lines := strings.Split(strings.TrimSpace(a.out), "\n")
			g.Expect(lines[len(lines)-1]).To(Equal(":4"), "no file names")
			g.Expect(lines[:len(lines)-1]).To(ConsistOf(tc.want), strings.Join(tc.args, " "))
		}).Should(Succeed())
	}
	h.Eventually(func() string { return h.run("__complete", "show", "plan", "--namespace", h.namespace[:6]).out }).Should(ContainSubstring(h.namespace))
}

func TestErrors_withoutCAPT(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	assets, err := testenv.Assets()
	g.Expect(err).NotTo(HaveOccurred())
	bare := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute}
	_, err = bare.Start()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = bare.Stop() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, bare.KubeConfig, 0o600)).To(Succeed())

	for command, group := range map[string]string{
		"plan": "infrastructure.cluster.x-k8s.io", "describe": "cluster.x-k8s.io", "addon": "addons.cluster.x-k8s.io",
	} {
		args := map[string][]string{"plan": {"show", "plan", "x"}, "describe": {"describe", "cluster", "x"}, "addon": {"get", "addons"}}[command]
		var out bytes.Buffer
		err := execute(t.Context(), cli.Streams{In: &out, Out: &out, Err: &out}, append([]string{"--kubeconfig", kubeconfig}, args...)...)
		g.Expect(err).To(MatchError("the cluster has no API group " + group + ": install Cluster API and CAPT (clusterctl init --kubeconfig " + kubeconfig + "), or choose another cluster with --context"))
		g.Expect(cli.Code(err)).To(Equal(1))
	}
}

func TestReference_isCurrent(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	committed, err := os.ReadFile(filepath.Join(root, "docs", "reference", "captctl.md"))
	g.Expect(err).NotTo(HaveOccurred())
	out, problem, code := captctl(t, "", "reference")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(ContainSubstring("## captctl state migrate-backend\n"))
	g.Expect(out).NotTo(ContainSubstring(os.Getenv("HOME")+"/"), "a default depends on the machine")
	g.Expect(out == string(committed)).To(BeTrue(), "docs/reference/captctl.md is not current: run `make generate`")
}
