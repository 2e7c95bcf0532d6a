package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/cli/flavor"
)

// YAML reads some valid names as numbers or booleans.
func TestGenerateCluster_quotesNames(t *testing.T) {
	for _, values := range [][]string{{"AWS_REGION", "us-west-2"}, {"ENDPOINT_PUBLIC_CIDRS", "192.0.2.0/24"}, {"VPC_ID", "vpc-0123456789abcdef0"}} {
		t.Setenv(values[0], values[1])
	}
	names, err := flavor.Names()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, problem, code := captctl(t, "", "generate", "cluster", "1e3", "-n", "on", "--flavor", name)
			g.Expect(code).To(Equal(0), problem)
			for document := range strings.SplitSeq(out, "\n---\n") {
				object := &unstructured.Unstructured{}
				g.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
				g.Expect(object.Object["metadata"]).To(And(HaveKeyWithValue("name", HavePrefix("1e3")), HaveKeyWithValue("namespace", "on")))
			}
		})
	}
}

func TestGenerateCluster_writesManifests(t *testing.T) {
	t.Setenv("AWS_REGION", "us-west-2")
	t.Setenv("ENDPOINT_PUBLIC_CIDRS", "192.0.2.0/24")
	own := filepath.Join(t.TempDir(), "own.yaml")
	NewWithT(t).Expect(os.WriteFile(own, []byte("name: ${CLUSTER_NAME}\nversion: ${KUBERNETES_VERSION}\n"), 0o600)).To(Succeed())
	tests := map[string]struct {
		stdin string
		args  []string
		// unset is a variable that the environment does not have.
		unset string
		code  int
		want  string
	}{
		"a flavor":              {args: []string{"demo", "--flavor", "local", "-n", "team-a", "--kubernetes-version", "v1.36.0"}, want: "name: \"demo\"\n  namespace: \"team-a\"\n"},
		"the environment":       {args: []string{"demo"}, want: `region: "us-west-2"`},
		"what is set":           {args: []string{"demo", "--set", "AWS_REGION=eu-west-1"}, want: `region: "eu-west-1"`},
		"a list":                {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24,203.0.113.7/32"}, want: "publicCIDRs: [192.0.2.0/24,203.0.113.7/32]"},
		"two in one":            {args: []string{"demo", "--set", "AWS_REGION=eu-west-1,VPC_CIDR=10.9.0.0/16"}, want: `cidr: "10.9.0.0/16"`},
		"no assignment":         {args: []string{"demo", "--set", "AWS_REGION"}, code: 2, want: `invalid --set "AWS_REGION": expected NAME=VALUE`},
		"an empty list":         {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_CIDRS=", "--set", "ENDPOINT_PUBLIC_ACCESS=false"}, want: "publicCIDRs: []"},
		"for no network":        {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_CIDRS="}, code: 2, want: "or --set ENDPOINT_PUBLIC_ACCESS=false for a private endpoint"},
		"a private one":         {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_ACCESS=false"}, unset: "ENDPOINT_PUBLIC_CIDRS", want: "publicCIDRs: []"},
		"private networks":      {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_ACCESS=false"}, code: 2, want: "ENDPOINT_PUBLIC_ACCESS is false, but ENDPOINT_PUBLIC_CIDRS has networks: pass --set ENDPOINT_PUBLIC_CIDRS= for a private endpoint"},
		"another boolean":       {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_ACCESS=True", "--set", "ENDPOINT_PUBLIC_CIDRS="}, code: 2, want: `ENDPOINT_PUBLIC_ACCESS is "True": write true or false`},
		"a lone comma":          {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_CIDRS=,"}, code: 2, want: `ENDPOINT_PUBLIC_CIDRS has "", which is not a network: write for example`},
		"no network":            {args: []string{"demo", "--set", "ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24,foo"}, code: 2, want: `ENDPOINT_PUBLIC_CIDRS has "foo", which is not a network`},
		"no network of a class": {args: []string{"demo", "-f", "eks-class", "--set", "ENDPOINT_PUBLIC_CIDRS=192.0.2.1"}, code: 2, want: `ENDPOINT_PUBLIC_CIDRS has "192.0.2.1", which is not a network`},
		"a file":                {args: []string{"demo", "--from", own, "--kubernetes-version", "v1.33.0"}, want: "name: demo\nversion: v1.33.0\n"},
		"standard input":        {stdin: "a: ${CLUSTER_NAME}", args: []string{"demo", "--from", "-"}, want: "a: demo"},
		"variables":             {args: []string{"--flavor", "eks-existing-vpc", "--list-variables"}, want: "VPC_ID                   (required)"},
		"flavors":               {args: []string{"--list-flavors"}, want: "eks\neks-auto-mode\neks-class\neks-existing-vpc\neks-node-group\nlocal\n"},
		"no name":               {code: 2, want: "expected the name of the cluster"},
		"a bad name":            {args: []string{"Demo_1"}, code: 2, want: `"Demo_1" is not a valid cluster name`},
		"a missing value":       {args: []string{"demo", "--flavor", "eks-existing-vpc"}, code: 2, want: "no value for VPC_ID: pass --set VPC_ID=VALUE"},
		"a dot in the name":     {args: []string{"a.b"}, code: 2, want: `"a.b" is not a valid cluster name: use at most 63 lower-case letters, digits and dashes, such as demo`},
		"a long name":           {args: []string{strings.Repeat("a", 64)}, code: 2, want: "is not a valid cluster name"},
		"a bad namespace":       {args: []string{"demo", "-n", "Bad NS"}, code: 2, want: `"Bad NS" is not a valid namespace`},
		"a bad version":         {args: []string{"demo", "--kubernetes-version", "banana"}, code: 2, want: `"banana" is not a Kubernetes version: write for example v1.`},
		"two names":             {args: []string{"demo", "extra"}, code: 2, want: "expected the name of one cluster: captctl generate cluster NAME"},
		"an empty value":        {args: []string{"demo", "--set", "AWS_REGION="}, code: 2, want: "no value for AWS_REGION: pass --set AWS_REGION=VALUE, or set environment variables"},
		"an unknown flavor":     {args: []string{"demo", "--flavor", "ek"}, code: 2, want: "did you mean eks?"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if test.unset != "" {
				t.Setenv(test.unset, "")
				g.Expect(os.Unsetenv(test.unset)).To(Succeed())
			}
			out, problem, code := captctl(t, test.stdin, append([]string{"generate", "cluster"}, test.args...)...)
			g.Expect(code).To(Equal(test.code), out+problem)
			g.Expect(out + problem).To(ContainSubstring(test.want))
		})
	}
}

func TestGenerateCluster_usesTheNamespaceOfTheContext(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": {"server": "https://example.com"}}], "contexts": [{"name": "a", "context": {"cluster": "a", "namespace": "team"}}]}`
	NewWithT(t).Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	for name, tc := range map[string]struct {
		args      []string
		namespace string
		want      string
	}{
		"the context":     {want: "team"},
		"the flag":        {args: []string{"-n", "other"}, want: "other"},
		"the environment": {namespace: "third", want: "third"},
		"what is set":     {args: []string{"--set", "NAMESPACE=fourth"}, want: "fourth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NAMESPACE", tc.namespace)
			if tc.namespace == "" {
				NewWithT(t).Expect(os.Unsetenv("NAMESPACE")).To(Succeed())
			}
			out, problem, code := captctl(t, "", append([]string{"--kubeconfig", file, "generate", "cluster", "demo", "--flavor", "local"}, tc.args...)...)
			g := NewWithT(t)
			g.Expect(code).To(Equal(0), problem)
			g.Expect(out).To(ContainSubstring("namespace: \"" + tc.want + "\"\n"))
		})
	}
}

// A user who chose a context must not get manifests for the default namespace.
func TestGenerateCluster_refusesWhatItCannotUse(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		NewWithT(t).Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	const goodText = `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": {"server": "https://example.com"}}], "contexts": [{"name": "a", "context": {"cluster": "a", "namespace": "team"}}]}`
	good := write("good", goodText)
	dangling := write("dangling", strings.Replace(goodText, `"current-context": "a"`, `"current-context": "typo"`, 1))
	broken := write("broken", "{")
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		"an unknown context":          {args: []string{"--kubeconfig", good, "--context", "typo"}, code: 2, want: `the kubeconfig has no context "typo": see kubectl config get-contexts`},
		"a context without a file":    {args: []string{"--context", "typo"}, env: map[string]string{"KUBECONFIG": filepath.Join(dir, "none")}, code: 2, want: `the kubeconfig has no context "typo"`},
		"an unknown current context":  {args: []string{"--kubeconfig", dangling}, code: 2, want: `the kubeconfig has no context "typo": see kubectl config get-contexts`},
		"the same of the environment": {env: map[string]string{"KUBECONFIG": dangling}, code: 2, want: `the kubeconfig has no context "typo"`},
		"a namespace instead":         {args: []string{"-n", "third"}, env: map[string]string{"KUBECONFIG": dangling}, want: `namespace: "third"`},
		"a missing file":              {args: []string{"--kubeconfig", filepath.Join(dir, "none")}, code: 2, want: "no such file"},
		"a broken file":               {env: map[string]string{"KUBECONFIG": broken}, code: 2, want: broken},
		"a namespace of the variable": {env: map[string]string{"NAMESPACE": "Bad_Ns"}, code: 2, want: `"Bad_Ns" is not a valid namespace`},
		"a version of the variable":   {env: map[string]string{"KUBERNETES_VERSION": "foo"}, code: 2, want: `"foo" is not a Kubernetes version`},
		"no kubeconfig":               {env: map[string]string{"KUBECONFIG": filepath.Join(dir, "none")}, want: `namespace: "default"`},
		"a namespace that is set":     {args: []string{"--set", "NAMESPACE=third"}, env: map[string]string{"KUBECONFIG": broken}, want: `namespace: "third"`},
		"the variables":               {args: []string{"--kubeconfig", good, "--list-variables"}, want: "team (of the context)"},
		"the variables and -n":        {args: []string{"-n", "third", "--list-variables"}, env: map[string]string{"KUBECONFIG": dangling}, want: "third (of -n)"},
		"the variables and NAMESPACE": {args: []string{"--list-variables"}, env: map[string]string{"KUBECONFIG": dangling, "NAMESPACE": "third"}, want: "third (of the environment)"},
		"the variables and --set":     {args: []string{"--list-variables", "--set", "NAMESPACE=third"}, env: map[string]string{"KUBECONFIG": dangling}, want: "third (of --set)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", good)
			for variable, value := range tc.env {
				t.Setenv(variable, value)
			}
			out, problem, code := captctl(t, "", append([]string{"generate", "cluster", "demo", "--flavor", "local"}, tc.args...)...)
			g := NewWithT(t)
			g.Expect(code).To(Equal(tc.code), out+problem)
			g.Expect(out + problem).To(ContainSubstring(tc.want))
		})
	}
}

// What is generated for a directory passes validate as it is printed.
func TestGenerateTemplate_readsADirectory(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "Network")
	g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
	write := func(name, text string) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	write("main.tf", "variable \"cidr\" {\n  type = string\n}\n\noutput \"vpc_id\" {\n  value = 1\n}\n\noutput \"private_subnet_ids\" {\n  value = []\n}\n")
	write("values.tfvars", "cidr = 1")
	out, problem, code := captctl(t, "", "generate", "template", "--from", dir)
	g.Expect(code).To(Equal(0), problem)
	g.Expect(out).To(And(ContainSubstring("  name: network\n"), ContainSubstring("          output \"vpc_id\" {\n"), ContainSubstring("      - as: private_subnets\n        name: private_subnet_ids\n")))
	_, problem, code = captctl(t, out, "validate", "-")
	g.Expect(code).To(Equal(0), problem)

	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no module":                {code: 2, want: `required flag(s) "from" not set`},
		"no directory":             {args: []string{"--from", "./none"}, code: 2, want: "directory ./none does not exist"},
		"a version of a directory": {args: []string{"--from", dir, "--module-version", "1.0.0"}, code: 2, want: "--module-version needs the address of a registry"},
		"a bad name":               {args: []string{"My_Net", "--from", dir}, code: 2, want: `"My_Net" is not a valid name: use at most 63 lower-case letters, digits and dashes, such as my-net`},
		"an unknown variable":      {args: []string{"--from", dir, "--variables", "cdir"}, code: 2, want: `the module has no variable "cdir": its variables are cidr`},
	} {
		_, problem, code := captctl(t, "", append([]string{"generate", "template"}, tc.args...)...)
		g.Expect(code).To(Equal(tc.code), name)
		g.Expect(problem).To(ContainSubstring(tc.want), name)
	}
	write("main.tf", "variable \"cidr\" {")
	_, problem, code = captctl(t, "", "generate", "template", "--from", dir)
	g.Expect(code).To(Equal(1))
	g.Expect(problem).To(ContainSubstring("the module is invalid: main.tf:1"))
}
