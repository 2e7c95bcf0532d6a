package flavor_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/flavor"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/testenv"
)

func none(string) (string, bool) { return "", false }

// answers are values for the required variables of flavors.
var answers = map[string]string{flavor.ClusterName: "demo", "AWS_REGION": "eu-west-1", "VPC_ID": "vpc-0123456789abcdef0"}

// A filled flavor must be valid together with the templates and classes it uses.
func TestFlavors_areValid(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	var others []string
	for _, pattern := range []string{"templates/*.yaml", "clusterclasses/*.yaml", "examples/provider-config-aws.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		g.Expect(err).NotTo(HaveOccurred())
		others = append(others, found...)
	}
	names, err := flavor.Names()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(ContainElements("local", "eks", "eks-existing-vpc", "eks-node-group"))
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			template, err := flavor.Template(name)
			g.Expect(err).NotTo(HaveOccurred())
			variables, err := flavor.Variables(template)
			g.Expect(err).NotTo(HaveOccurred())
			given := map[string]string{}
			for _, v := range variables {
				if v.Default == nil {
					g.Expect(answers).To(HaveKey(v.Name))
					given[v.Name] = answers[v.Name]
				}
			}
			filled, err := flavor.Fill(template, given, none)
			g.Expect(err).NotTo(HaveOccurred())

			objects, _, err := validate.Read(others, nil)
			g.Expect(err).NotTo(HaveOccurred())
			own, findings := validate.Parse(name, filled, true)
			g.Expect(findings).To(BeEmpty())
			g.Expect(own).NotTo(BeEmpty())
			findings, err = validate.Check(t.Context(), append(objects, own...), validate.Options{Strict: true})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(findings).To(BeEmpty())
		})
	}
}

func TestFill_prefersGivenValues(t *testing.T) {
	g := NewWithT(t)
	environment := func(name string) (string, bool) { return "environment", name == "B" || name == "A" }
	filled, err := flavor.Fill([]byte("a: ${A:=default}\nb: ${B:=default}\nc: ${C:=default}\n"), map[string]string{"A": "given"}, environment)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(filled)).To(Equal("a: given\nb: environment\nc: default\n"))
}

func TestFill_reportsProblems(t *testing.T) {
	tests := map[string]struct {
		template string
		given    map[string]string
		want     string
	}{
		"values":            {"a: ${A}\nb: ${B}\n", nil, "no value for A, B: pass --set A=VALUE, or set the environment variable"},
		"a variable":        {"a: ${AWS_REGION}\n", map[string]string{"AWS_REGOIN": "x"}, "the template has no variable AWS_REGOIN: did you mean AWS_REGION?"},
		"a closing bracket": {"a: ${A\n", nil, "reading the variables of the template"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := flavor.Fill([]byte(test.template), test.given, none)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestTemplate_suggestsTheNearestFlavor(t *testing.T) {
	g := NewWithT(t)
	_, err := flavor.Template("locla")
	g.Expect(err).To(MatchError("unknown flavor locla: did you mean local?"))
	_, err = flavor.Template("something")
	g.Expect(err).To(MatchError(ContainSubstring("use one of eks, eks-existing-vpc, eks-node-group, local")))
}
