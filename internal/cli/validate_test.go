package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli"
)

// captctl runs a command and returns its output, its error and its exit code.
func captctl(t *testing.T, stdin string, args ...string) (out, problem string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := cli.New(cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr})
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	if err != nil {
		problem = err.Error()
	}
	return stdout.String(), problem, cli.Code(err)
}

const goodAddon = `apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata: {name: karpenter}
spec:
  clusterSelector: {matchLabels: {karpenter.sh/enabled: "true"}}
  helm:
    namespace: karpenter
    chart: {repository: "oci://public.ecr.aws/karpenter", name: karpenter, version: 1.14.1}
    valuesFrom: [{valuesKey: cluster_name, targetPath: settings.clusterNam}]
`

func TestValidate_exitCodeAndFindings(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	write("chart/Chart.yaml", "name: karpenter\nversion: 1.14.1\n")
	write("chart/values.yaml", "settings: {clusterName: ''}\n")
	good := write("manifests/good.yaml", goodAddon)
	tests := map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"valid":                        {args: []string{good}, code: 0, want: "1 object: 0 errors, 0 warnings"},
		"a directory":                  {args: []string{filepath.Dir(good)}, code: 0, want: "1 object: 0 errors"},
		"the templates of the sources": {args: []string{"../../templates"}, code: 0, want: ": 0 errors, "},
		"standard input":               {stdin: strings.Replace(goodAddon, "helm:", "hlem:", 1), args: []string{"-"}, code: 1, want: `<stdin>:6: error: CAPTAddon karpenter: spec.hlem: unknown field "spec.hlem": did you mean helm? (unknown-field)`},
		"a chart":                      {args: []string{"--chart", filepath.Join(directory, "chart"), good}, code: 1, want: "did you mean settings.clusterName? (target-path)"},
		"file does not exist":          {args: []string{"missing.yaml"}, code: 2, want: "missing.yaml does not exist: pass a file, a directory or - for standard input"},
		"chart does not exist":         {args: []string{"--chart", "missing", good}, code: 2, want: "reading a chart"},
		"no arguments":                 {code: 2, want: "expected files or directories to validate"},
		"unknown output":               {args: []string{"-o", "xml", good}, code: 2, want: `unknown output format "xml": use text, json, sarif or github`},
		"annotations":                  {stdin: "a: b", args: []string{"-o", "github", "-"}, code: 1, want: "::error file=<stdin>,line=1,col=1,title=captctl no-object::"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, problem, code := captctl(t, test.stdin, append([]string{"validate"}, test.args...)...)
			g.Expect(code).To(Equal(test.code), out+problem)
			g.Expect(out + problem).To(ContainSubstring(test.want))
		})
	}
}

func TestRender_printsTheObjects(t *testing.T) {
	g := NewWithT(t)
	out, problem, code := captctl(t, "", "render", "../../examples/cluster.yaml", "../../templates/vpc.yaml")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(ContainSubstring("kind: WorkspaceTemplateApply\n"))
	g.Expect(out).To(ContainSubstring("nat_gateway: Single\n"))

	out, problem, code = captctl(t, "", "render", "-o", "json", "../../examples/workspace-inline.yaml")
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(ContainSubstring(`"workspace": "default/production"`))

	_, problem, code = captctl(t, goodAddon+"  unknown: 1\n", "render", "-")
	g.Expect(code).To(Equal(1))
	g.Expect(problem).To(Equal("the manifests are invalid"))

	_, problem, code = captctl(t, "", "render")
	g.Expect(code).To(Equal(2))
	g.Expect(problem).To(ContainSubstring("expected files or directories to render"))
}
