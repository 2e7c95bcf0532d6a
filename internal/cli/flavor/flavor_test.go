package flavor_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/flavor"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/testenv"
)

func none(string) (string, bool) { return "", false }

// answers are values for the required variables of flavors.
var answers = map[string]string{flavor.ClusterName: "demo", "AWS_REGION": "eu-west-1", "VPC_ID": "vpc-0123456789abcdef0", "ENDPOINT_PUBLIC_CIDRS": "192.0.2.0/24, 203.0.113.7/32"}

// A filled flavor must be valid together with the templates and classes it uses.
func TestFlavors_areValid(t *testing.T) {
	g := NewWithT(t)
	names, err := flavor.Names()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(ContainElements("local", "eks", "eks-auto-mode", "eks-class", "eks-existing-vpc", "eks-node-group"))
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	var others []string
	for _, pattern := range []string{"templates/*.yaml", "clusterclasses/*.yaml", "examples/provider-config-aws.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		g.Expect(err).NotTo(HaveOccurred())
		others = append(others, found...)
	}
	objects, _, err := validate.Read(others, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range names {
		variants := []map[string]string{{flavor.ClusterName: name}}
		if hasPublicAccess(name) {
			variants = append(variants, map[string]string{flavor.ClusterName: name + "-private", "ENDPOINT_PUBLIC_CIDRS": "", "ENDPOINT_PUBLIC_ACCESS": "false"})
		}
		for _, given := range variants {
			filled, err := fill(t, name, given)
			g.Expect(err).NotTo(HaveOccurred())
			own, findings := validate.Parse(given[flavor.ClusterName], filled, true)
			g.Expect(findings).To(BeEmpty())
			g.Expect(own).NotTo(BeEmpty())
			objects = append(objects, own...)
		}
	}
	g.Expect(validate.Check(t.Context(), objects, validate.Options{Strict: true})).To(BeEmpty())
}

// New accounts have a quota of five vCPUs. The nodes of a pool are all that these flavors have,
// and Karpenter's have their architecture.
func TestFlavors_haveOneNodeGroup(t *testing.T) {
	for name, none := range map[string]string{"eks-node-group": "compute: None", "eks-class": "name: compute\n      value: None"} {
		g := NewWithT(t)
		filled, err := fill(t, name, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(filled)).To(ContainSubstring(none), name)
		g.Expect(string(filled)).NotTo(MatchRegexp(`[a-z]\d+g[a-z]*\.large`), "%s: Karpenter's nodes are amd64 by default", name)
	}
}

// hasPublicAccess reports whether a flavor has the variable ENDPOINT_PUBLIC_ACCESS. Without
// networks the endpoint of the class is private.
func hasPublicAccess(name string) bool { return name != "local" && name != "eks-class" }

// A public endpoint without networks, which EKS opens to every address, is found
// before anything is created.
func TestFlavors_needTheNetworksOfAPublicEndpoint(t *testing.T) {
	names, err := flavor.Names()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return !hasPublicAccess(name) }) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			template, err := flavor.Template(name)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = flavor.Fill(template, map[string]string{flavor.ClusterName: "demo"}, none)
			g.Expect(err).To(MatchError(MatchRegexp(`no value for .*ENDPOINT_PUBLIC_CIDRS.*: pass --set`)))

			for _, given := range []map[string]string{
				{"ENDPOINT_PUBLIC_CIDRS": ""},
				{"ENDPOINT_PUBLIC_CIDRS": " ", "ENDPOINT_PUBLIC_ACCESS": "true"},
			} {
				_, err := fill(t, name, given)
				g.Expect(err).To(MatchError("ENDPOINT_PUBLIC_CIDRS is empty, but ENDPOINT_PUBLIC_ACCESS is true: pass --set ENDPOINT_PUBLIC_CIDRS=203.0.113.0/24 with the networks that may reach the API server, or --set ENDPOINT_PUBLIC_ACCESS=false for a private endpoint"))
			}
		})
	}
}

// fill fills a flavor with given values, and with answers to the other required variables.
func fill(t *testing.T, name string, given map[string]string) ([]byte, error) {
	t.Helper()
	g := NewWithT(t)
	template, err := flavor.Template(name)
	g.Expect(err).NotTo(HaveOccurred())
	variables, err := flavor.Variables(template)
	g.Expect(err).NotTo(HaveOccurred())
	values := map[string]string{}
	for _, v := range variables {
		if v.Default == nil {
			g.Expect(answers).To(HaveKey(v.Name))
			values[v.Name] = answers[v.Name]
		}
	}
	maps.Copy(values, given)
	return flavor.Fill(template, values, none)
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
		"values":            {"a: ${A}\nb: ${B}\n", nil, "no value for A, B: pass --set A=VALUE --set B=VALUE, or set environment variables"},
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
	g.Expect(err).To(MatchError(ContainSubstring("use one of eks, eks-auto-mode, eks-class, eks-existing-vpc, eks-node-group, local")))
}
