package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const policyManifest = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspacePolicy
metadata: {name: guard}
spec:
  selector: {matchLabels: {stage: none}}
  rules:
  - name: keep
    action: Deny
    expression: '"delete" in resource.actions && workspace.labels[?"stage"].orValue("") == "prod"'
    messageExpression: 'resource.address + " of " + workspace.name + " has " + resource.before.size'
  - name: size
    match: Plan
    action: Warn
    expression: plan.toDestroy > 0
    message: Something is destroyed
`

const policyPlan = `{"format_version":"1.2","resource_changes":[
{"address":"x.db","mode":"managed","type":"x","name":"db","change":{"actions":["delete","create"],"before":{"size":"1","password":"canary-1"},"after":{"size":"2","password":"canary-1"},"before_sensitive":{"password":true},"after_sensitive":{"password":true}}}
]}`

func TestPolicyTest(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		NewWithT(t).Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	policies, plan := write("policy.yaml", policyManifest), write("plan.json", policyPlan)
	other := write("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
	broken := write("broken.yaml", strings.Replace(policyManifest, "plan.toDestroy", "plan.toDestroi", 1))
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  []string
	}{
		"denied": {
			args: []string{"--plan", plan, "--labels", "stage=prod", policies}, code: 1,
			want: []string{"Policies:\n\n  Deny WorkspacePolicy guard, rule keep: x.db of test has 1 (x.db)\n  Warn WorkspacePolicy guard, rule size: Something is destroyed\n", "the plan is denied"},
		},
		"warned":            {args: []string{"--plan", plan, policies, other}, want: []string{"  Warn WorkspacePolicy guard"}},
		"the plan as stdin": {stdin: policyPlan, args: []string{"--plan", "-", policies}, want: []string{"  Warn WorkspacePolicy guard"}},
		"no violation":      {stdin: `{"resource_changes":[]}`, args: []string{"--plan", "-", policies}, want: []string{"No rule is violated."}},
		"JSON":              {args: []string{"--plan", plan, "-o", "json", policies}, want: []string{`"rule": "size"`}},
		"Markdown":          {args: []string{"--plan", plan, "-o", "markdown", policies}, want: []string{"- **Warn** `WorkspacePolicy guard, rule size: Something is destroyed`\n"}},
		"not a plan":        {args: []string{"--plan", policies, policies}, code: 2, want: []string{"is not the output of tofu show -json PLAN"}},
		"no plan":           {args: []string{policies}, code: 2, want: []string{"expected --plan FILE"}},
		"no policies":       {args: []string{"--plan", plan, other}, code: 2, want: []string{"no WorkspacePolicy or ClusterWorkspacePolicy"}},
		"invalid":           {args: []string{"--plan", plan, broken}, code: 2, want: []string{"the policies are invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, problem, code := captctl(t, tc.stdin, append([]string{"policy", "test"}, tc.args...)...)
			g.Expect(code).To(Equal(tc.code), out+problem)
			for _, want := range tc.want {
				g.Expect(out + problem).To(ContainSubstring(want))
			}
			g.Expect(out + problem).NotTo(ContainSubstring("canary"))
		})
	}
}

func TestValidate_checksPolicies(t *testing.T) {
	g := NewWithT(t)
	out, problem, code := captctl(t, strings.Replace(policyManifest, "plan.toDestroy", "plan.toDestroi", 1), "validate", "-")
	g.Expect(code).To(Equal(1), problem)
	g.Expect(out).To(ContainSubstring("spec.rules[1].expression: Invalid value: \"plan.toDestroi > 0\": line 1, column 5: undefined field 'toDestroi' (admission)"))
}
