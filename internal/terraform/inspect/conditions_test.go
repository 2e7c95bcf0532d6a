package inspect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

func TestCheckConditions(t *testing.T) {
	const size = `
variable "size" {
  type    = number
  default = 1
  validation {
    condition     = var.size > 0 && alltrue([for n in [var.size] : n < 10])
    error_message = "size must be between 1 and 9."
  }
}
`
	const zones = `
variable "zones" {
  type     = list(string)
  default  = null
  nullable = true
}
variable "public" {
  type     = bool
  default  = false
  nullable = false
}
locals {
  needs = local.open
  open  = var.public
}
`
	precondition := func(condition string) string {
		return zones + "resource \"a\" \"b\" {\n  lifecycle {\n    precondition {\n      condition = " + condition + "\n      error_message = \"zones are required.\"\n    }\n  }\n}\n"
	}
	for name, test := range map[string]struct {
		module  string
		files   map[string]string
		values  inspect.Values
		unknown map[string]bool
		want    []string
	}{
		"a valid default":        {module: size},
		"a valid value":          {module: size, values: inspect.Values{"size": cty.NumberIntVal(9)}},
		"an invalid value":       {module: size, values: inspect.Values{"size": cty.NumberIntVal(10)}, want: []string{"size must be between 1 and 9. (main.tf:6)"}},
		"text that is a number":  {module: size, values: inspect.Values{"size": cty.StringVal("0")}, want: []string{"size must be"}},
		"an unknown value":       {module: size, values: inspect.Values{"size": cty.NumberIntVal(10)}, unknown: map[string]bool{"size": true}},
		"a value of other type":  {module: size, values: inspect.Values{"size": cty.StringVal("x")}},
		"a precondition":         {module: precondition("!local.needs || var.zones != null"), values: inspect.Values{"public": cty.True}, want: []string{"zones are required. (main.tf:"}},
		"null is the default":    {module: precondition("!var.public || var.zones != null"), values: inspect.Values{"public": cty.NullVal(cty.Bool)}},
		"one that is met":        {module: precondition("!local.needs || var.zones != null"), values: inspect.Values{"public": cty.True, "zones": cty.TupleVal([]cty.Value{cty.StringVal("a")})}},
		"a resource in it":       {module: precondition("a.b.id == null && false")},
		"can of a resource":      {module: precondition("can(a.b.id)")},
		"can of an unknown call": {module: precondition("can(filesha256(\"x\"))")},
		"an expression that fails": {
			module: precondition("length(var.zones) > 0"), want: nil,
		},
		"no instance": {module: strings.Replace(precondition("false"), "resource \"a\" \"b\" {", "resource \"a\" \"b\" {\n  count = var.public ? 1 : 0", 1)},
		"an instance": {
			module: strings.Replace(precondition("false"), "resource \"a\" \"b\" {", "resource \"a\" \"b\" {\n  count = var.public ? 1 : 0", 1),
			values: inspect.Values{"public": cty.True}, want: []string{"zones are required"},
		},
		"a message with a value": {
			module: "variable \"a\" {\n  validation {\n    condition     = var.a != \"b\"\n    error_message = \"not ${var.a}\"\n  }\n}\n",
			values: inspect.Values{"a": cty.StringVal("b")}, want: []string{"a condition of the module is not met (main.tf:3)"},
		},
		"an output": {
			module: zones + "output \"o\" {\n  value = 1\n  precondition {\n    condition     = !var.public\n    error_message = \"Must be private.\"\n  }\n}\n",
			values: inspect.Values{"public": cty.True}, want: []string{"Must be private."},
		},
		"a called module": {
			module: "variable \"n\" {}\nmodule \"x\" {\n  source = \"./modules/x\"\n  size   = var.n\n}\n",
			files:  map[string]string{"modules/x/variables.tf": size},
			values: inspect.Values{"n": cty.NumberIntVal(0)}, want: []string{"size must be between 1 and 9. (modules/x/variables.tf:6)"},
		},
		"a called module, an unknown argument": {
			module: "module \"x\" {\n  source = \"./modules/x\"\n  size   = a.b.size\n}\n",
			files:  map[string]string{"modules/x/variables.tf": size},
		},
		"a module that calls itself": {
			module: "module \"x\" {\n  source = \"./modules/x\"\n}\n",
			files:  map[string]string{"modules/x/main.tf": "module \"x\" {\n  source = \"../x\"\n}\n"},
		},
		"an override": {module: size, files: map[string]string{"override.tf": ""}, values: inspect.Values{"size": cty.NumberIntVal(10)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problems := inspect.CheckConditions(terraform.Module{Source: terraform.SourceInline, Content: test.module, Files: test.files}, test.values, test.unknown, false)
			g.Expect(problems).To(HaveLen(len(test.want)))
			for i, want := range test.want {
				g.Expect(problems[i].Message).To(ContainSubstring(want))
				g.Expect(problems[i].Kind).To(Equal(inspect.KindCondition))
			}
		})
	}
}

func TestCheckConditions_ofValuesThatTheWorkspaceDoesNotKnow(t *testing.T) {
	module := terraform.Module{Content: "variable \"a\" {\n  default = 1\n  validation {\n    condition     = var.a > 1\n    error_message = \"Too small.\"\n  }\n}\n"}
	g := NewWithT(t)
	g.Expect(inspect.CheckConditions(module, nil, nil, false)).To(HaveLen(1))
	g.Expect(inspect.CheckConditions(module, nil, nil, true)).To(BeEmpty(), "a file may set it")
}

// The functions agree with those of the tool.
func TestCheckConditions_functions(t *testing.T) {
	for condition, want := range map[string]bool{
		`can(cidrhost("10.0.0.0/16", 0))`:                         true,
		`can(cidrhost("10.0.0.0/33", 0))`:                         false,
		`can(cidrhost("10.0.0.0", 0))`:                            false,
		`cidrhost("10.1.2.3/16", 5) == "10.1.0.5"`:                true,
		`can(cidrhost("10.0.0.0/30", 4))`:                         false,
		`cidrhost("2001:db8::/32", 1) == "2001:db8::1"`:           true,
		`length("äb") == 2 && length({ a = 1 }) == 1`:             true,
		`length([1, 2]) == 2`:                                     true,
		`alltrue([]) && !anytrue([])`:                             true,
		`alltrue([true, false])`:                                  false,
		`anytrue([false, true])`:                                  true,
		`startswith("vpc-1", "vpc-") && endswith("a.b", ".b")`:    true,
		`strcontains("AL2023_ARM_64", "_ARM_64")`:                 true,
		`can(regex("^[0-9]+$", "12"))`:                            true,
		`can(base64decode("%"))`:                                  false,
		`base64decode("YQ==") == "a"`:                             true,
		`contains(["a"], "b")`:                                    false,
		`try(jsondecode("{").a, "x") == "x"`:                      true,
		`length(distinct(flatten([["a"], ["a", "b"]]))) == 2`:     true,
		`tostring(1) == "1" && toset(["a", "a"]) == toset(["a"])`: true,
	} {
		t.Run(condition, func(t *testing.T) {
			module := terraform.Module{Content: "output \"a\" {\n  value = 1\n  precondition {\n    condition     = " + condition + "\n    error_message = \"No.\"\n  }\n}\n"}
			problems := inspect.CheckConditions(module, nil, nil, false)
			NewWithT(t).Expect(len(problems) == 0).To(Equal(want))
			inverse := terraform.Module{Content: strings.Replace(module.Content, condition, "!("+condition+")", 1)}
			NewWithT(t).Expect(inspect.CheckConditions(inverse, nil, nil, false)).To(HaveLen(1-len(problems)), "the condition is evaluated")
		})
	}
}

// The condition that no flavor met is in a module that modules/eks calls.
func TestCheckConditions_ofShippedModules(t *testing.T) {
	g := NewWithT(t)
	root := filepath.Join("..", "..", "..", "modules")
	module := terraform.Module{Files: map[string]string{}}
	for _, dir := range []string{"eks", "eks-cluster", "node-group", "fargate-profile", "karpenter-iam"} {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.tf"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(names).NotTo(BeEmpty())
		for _, name := range names {
			text, err := os.ReadFile(name)
			g.Expect(err).NotTo(HaveOccurred())
			path := filepath.Base(name)
			if dir != "eks" {
				path = "modules/" + dir + "/" + path
			}
			module.Files[path] = strings.ReplaceAll(string(text), `"../`, `"./modules/`)
		}
	}
	values := inspect.Values{
		"cluster_name": cty.StringVal("demo"), "kubernetes_version": cty.StringVal("1.35"), "vpc_id": cty.StringVal("vpc-0123456789abcdef0"),
		"subnet_ids": cty.TupleVal([]cty.Value{cty.StringVal("subnet-0123456789abcdef0"), cty.StringVal("subnet-0123456789abcdef1")}),
	}
	g.Expect(inspect.CheckConditions(module, values, nil, false)).To(BeEmpty())

	values["endpoint_public_access"] = cty.True
	g.Expect(inspect.CheckConditions(module, values, nil, false)).To(ConsistOf(
		HaveField("Message", ContainSubstring("endpoint_public_access needs endpoint_public_access_cidrs"))))
	values["endpoint_public_access_cidrs"] = cty.TupleVal([]cty.Value{cty.StringVal("192.0.2.0")})
	g.Expect(inspect.CheckConditions(module, values, nil, false)).To(ConsistOf(And(HaveField("Name", "endpoint_public_access_cidrs"),
		HaveField("Message", ContainSubstring("must contain networks in CIDR notation")))))
	values["endpoint_public_access_cidrs"] = cty.TupleVal([]cty.Value{cty.StringVal("192.0.2.0/24")})
	g.Expect(inspect.CheckConditions(module, values, nil, false)).To(BeEmpty())
	values["node_group"] = cty.ObjectVal(map[string]cty.Value{"min_size": cty.NumberIntVal(5), "max_size": cty.NumberIntVal(2)})
	g.Expect(inspect.CheckConditions(module, values, nil, false)).NotTo(BeEmpty(), "a condition of modules/node-group")
}
