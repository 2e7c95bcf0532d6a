package served

import (
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// writeTree writes files into a new directory.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	g := NewWithT(t)
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return root
}

func TestConfigurations_isSingle(t *testing.T) {
	child := func(files map[string]string) map[string]string {
		all := map[string]string{
			"main.tf":                         "module \"a\" {\n  source = \"./child\"\n}\n",
			".terraform/modules/modules.json": `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"a","Source":"./child","Dir":"child"}]}`,
		}
		maps.Copy(all, files)
		return all
	}
	const (
		aws      = "provider \"aws\" {\n  region = \"eu-central-1\"\n}\n"
		alias    = "provider \"aws\" {\n  alias = \"us\"\n}\n"
		required = "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n}\n"
		another  = "terraform {\n  required_providers {\n    amazon = { source = \"hashicorp/aws\" }\n  }\n}\n"
		own      = "terraform {\n  required_providers {\n    aws = { source = \"example.com/own/aws\" }\n  }\n}\n"
		aliases  = "terraform {\n  required_providers {\n    aws = {\n      source = \"hashicorp/aws\"\n      configuration_aliases = [aws.us]\n    }\n  }\n}\n"
	)
	block := func(argument string) map[string]string {
		return map[string]string{"main.tf": "provider \"aws\" {\n  region = " + argument + "\n}\n"}
	}
	tests := map[string]struct {
		files map[string]string
		want  bool
	}{
		"no provider":                            {map[string]string{"main.tf": ""}, true},
		"one configuration":                      {map[string]string{"main.tf": required + aws}, true},
		"an alias":                               {map[string]string{"main.tf": aws + alias}, false},
		"only an alias":                          {map[string]string{"main.tf": alias}, false},
		"an alias of another provider":           {map[string]string{"main.tf": aws + "provider \"google\" {\n  alias = \"x\"\n}\n"}, true},
		"a configuration for each":               {map[string]string{"main.tf": "provider \"aws\" {\n  for_each = var.regions\n}\n"}, false},
		"an alias in JSON":                       {map[string]string{"main.tf": aws, "p.tf.json": `{"provider":{"aws":[{"alias":"us"}]}}`}, false},
		"an alias in an override":                {map[string]string{"main.tf": aws, "a_override.tf": alias}, false},
		"an alias in a file of OpenTofu":         {map[string]string{"main.tf": aws, "p.tofu": alias}, false},
		"another local name":                     {map[string]string{"main.tf": another}, false},
		"a provider of the same name":            {map[string]string{"main.tf": own + aws + aws}, true},
		"a file that cannot be parsed":           {map[string]string{"main.tf": aws, "b.tf": "{"}, false},
		"a function of a provider":               {map[string]string{"main.tf": aws + "locals {\n  a = provider::aws::arn_parse(\"x\")\n}\n"}, false},
		"a configuration of the root module":     {child(map[string]string{"p.tf": aws, "child/main.tf": required}), true},
		"none, and a child module":               {child(map[string]string{"child/main.tf": required}), true},
		"one of the child module only":           {child(map[string]string{"child/main.tf": aws}), false},
		"configurations of both":                 {child(map[string]string{"p.tf": aws, "child/main.tf": aws}), false},
		"an alias of the child module":           {child(map[string]string{"child/main.tf": alias}), false},
		"further configurations for a child":     {child(map[string]string{"p.tf": aws, "child/main.tf": aliases}), false},
		"another local name in the child module": {child(map[string]string{"p.tf": aws, "child/main.tf": another}), false},
		"a child module that is missing":         {child(nil), false},
		"a child module of others":               {map[string]string{"main.tf": "", ".terraform/modules/modules.json": `{"Modules":[{"Key":"a","Dir":"/tmp"}]}`}, false},
		"a list of modules that is broken":       {map[string]string{"main.tf": "", ".terraform/modules/modules.json": `{`}, false},

		"a variable":                    {block("var.region"), true},
		"a function of a variable":      {block("lower(var.region)"), true},
		"a local value":                 {map[string]string{"main.tf": block("local.a")["main.tf"], "l.tf": "locals {\n  a = local.b\n  b = [for x in var.regions : x][0]\n}\n"}, true},
		"a local value of a resource":   {map[string]string{"main.tf": block("local.a")["main.tf"], "l.tf": "locals {\n  a = local.b\n  b = aws_vpc.x.id\n}\n"}, false},
		"a local value that overrides":  {map[string]string{"main.tf": block("local.a")["main.tf"], "l.tf": "locals {\n  a = 1\n}\n", "o_override.tf": "locals {\n  a = data.x.y.z\n}\n"}, false},
		"all local values":              {block("local"), false},
		"an unknown local value":        {block("local.missing"), false},
		"a resource":                    {block("aws_vpc.x.id"), false},
		"a data source":                 {block("data.aws_region.x.name"), false},
		"an output of a module":         {block("module.x.region"), false},
		"a resource in a nested block":  {map[string]string{"main.tf": "provider \"aws\" {\n  assume_role {\n    role_arn = aws_iam_role.x.arn\n  }\n}\n"}, false},
		"a variable in JSON":            {map[string]string{"p.tf.json": `{"provider":{"aws":{"region":"${var.region}","assume_role":[{"role_arn":"${lower(var.x)}"}]}}}`}, true},
		"a resource in JSON":            {map[string]string{"p.tf.json": `{"provider":{"aws":{"region":"x","assume_role":[{"role_arn":"${aws_iam_role.x.arn}"}]}}}`}, false},
		"a resource, of another source": {map[string]string{"main.tf": own + block("aws_vpc.x.id")["main.tf"]}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := writeTree(t, tt.files)
			found, err := readConfigurations(root, root)
			NewWithT(t).Expect(err == nil && found.isSingle("registry.opentofu.org/hashicorp/aws")).To(Equal(tt.want), "%v", err)
		})
	}
}

// Code of a module may replace a file by one that never ends.
func TestReadConfigurations_readsOnlyFiles(t *testing.T) {
	g := NewWithT(t)
	root := writeTree(t, map[string]string{"main.tf": ""})
	g.Expect(syscall.Mkfifo(filepath.Join(root, "pipe.tf"), 0o600)).To(Succeed())
	_, err := readConfigurations(root, root)
	g.Expect(err).To(MatchError(ContainSubstring("is not a regular file")))
}

func TestProviderAddress(t *testing.T) {
	for _, tt := range [][3]string{
		{"aws", "", "registry.opentofu.org/hashicorp/aws"},
		{"x", "aws", "registry.opentofu.org/hashicorp/aws"},
		{"x", "Own/AWS", "registry.opentofu.org/own/aws"},
		{"x", "Example.com/own/aws", "example.com/own/aws"},
	} {
		NewWithT(t).Expect(providerAddress(tt[0], tt[1])).To(Equal(tt[2]))
	}
}

func TestCallsNamespaced(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		want          bool
	}{
		"a function":                {"a.tf", "locals {\n  a = provider::x::f(1)\n}", true},
		"with a comment":            {"a.tf", "locals {\n  a = provider/* x */::x::f(1)\n}", true},
		"in a template":             {"a.tf", "locals {\n  a = \"${provider::x::f(1)}\"\n}", true},
		"in JSON":                   {"a.tf.json", `{"locals":{"a":"${provider::x::f(1)}"}}`, true},
		"in JSON, escaped":          {"a.tf.json", `{"locals":{"a":"${provider\u003a\u003ax::f(1)}"}}`, true},
		"an ARN":                    {"a.tf", "locals {\n  a = \"arn:aws:iam::1:role/x\"\n}", false},
		"a reference in JSON":       {"a.tf.json", `{"locals":{"a":"arn:aws:s3:${var.a}"}}`, false},
		"a function without a name": {"a.tf", "locals {\n  a = f(1)\n}", false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(callsNamespaced(tc.file, []byte(tc.content))).To(Equal(tc.want))
		})
	}
}
