package validate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

const network = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata:
  name: network
spec:
  template:
    spec:
      providerConfigRef:
        name: aws
      forProvider:
        source: Inline
        module: |
          variable "cidr" {
            type = string
          }
          variable "zones" {
            type    = number
            default = 2
          }
          variable "tags" {
            type    = map(string)
            default = {}
          }
          output "vpc_id" {
            value = var.cidr
          }
        vars:
        - key: tags
          value:
            team: ${team}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceProviderConfig
metadata:
  name: aws
spec: {}
---
`

func apply(spec string) string {
	return network + `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: demo
spec:
` + spec
}

const addon = `apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata:
  name: karpenter
spec:
  clusterSelector:
    matchLabels:
      karpenter.sh/enabled: "true"
  versions:
    matrix: karpenter
  helm:
    namespace: karpenter
    chart:
      repository: oci://public.ecr.aws/karpenter
      name: karpenter
      version: 1.14.1
    valuesFrom:
    - valuesKey: cluster_name
      targetPath: settings.clusterNam
`

func finding(severity validate.Severity, rule validate.Rule, line int, path, message string) types.GomegaMatcher {
	return And(
		HaveField("Severity", severity), HaveField("Rule", rule), HaveField("Line", line),
		HaveField("Path", path), HaveField("Message", ContainSubstring(message)),
	)
}

func TestCheck_reportsPositionAndFix(t *testing.T) {
	type want struct {
		severity validate.Severity
		rule     validate.Rule
		// at is a text whose last occurrence is on the line of the finding.
		at, path, message string
	}
	failed := func(rule validate.Rule, at, path, message string) want {
		return want{validate.Error, rule, at, path, message}
	}
	warned := func(rule validate.Rule, at, path, message string) want {
		return want{validate.Warning, rule, at, path, message}
	}
	tests := map[string]struct {
		text string
		want want
	}{
		"a long name of a Cluster": {
			text: "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: " + strings.Repeat("a", 64) + "\n",
			want: failed(validate.RuleSchema, "name:", "metadata.name", "the name of a Cluster has at most 63 characters, not 64"),
		},
		"a namespace that cannot exist": {
			text: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: Bad NS\n",
			want: failed(validate.RuleSchema, "namespace:", "metadata.namespace", `"Bad NS" is not a valid namespace`),
		},
		"invalid YAML":            {"a: [\nb: c\n", failed(validate.RuleYAML, "b: c", "", "invalid YAML")},
		"not an object":           {"# nothing\na: b\n", failed(validate.RuleNoObject, "a: b", "", "set apiVersion and kind")},
		"a duplicate key":         {network + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: 1a\n  x: 2a\n", failed(validate.RuleDuplicateKey, "x: 2a", "data.x", "remove one of them")},
		"an unknown field":        {apply("  templateRef: {name: network}\n  variables: {cidr: a, team: b}\n  aproval: Manual\n"), failed(validate.RuleUnknownField, "aproval", "spec.aproval", `unknown field "spec.aproval": did you mean approval?`)},
		"an unknown nested field": {strings.Replace(network, "providerConfigRef:\n        name: aws", "providerConfigRef:\n        nmae: aws", 1), failed(validate.RuleUnknownField, "nmae", "spec.template.spec.providerConfigRef.nmae", "did you mean name?")},
		"an unknown field of Cluster API's": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec:\n  topolgy: {}\n",
			failed(validate.RuleUnknownField, "topolgy", "spec.topolgy", `unknown field "spec.topolgy"`),
		},
		"an unknown kind":     {"apiVersion: addons.cluster.x-k8s.io/v1beta1\nkind: CAPTAdon\nmetadata: {name: a}\n", failed(validate.RuleUnknownKind, "CAPTAdon", "kind", "did you mean CAPTAddon?")},
		"an unknown version":  {"apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: CAPTCluster\nmetadata: {name: a}\n", failed(validate.RuleUnknownKind, "v1alpha1", "apiVersion", "write apiVersion: infrastructure.cluster.x-k8s.io/v1beta1")},
		"a duplicate object":  {network + network, failed(validate.RuleDuplicateObject, "name: network", "metadata.name", "is already defined in given.yaml, line 1")},
		"a module":            {strings.Replace(network, "type = string", "type = strnig", 1), failed(validate.RuleModule, "strnig", "spec.template.spec.forProvider.module", `main.tf:2: Invalid type specification`)},
		"a template's value":  {strings.Replace(network, "key: tags", "key: tagz", 1), failed(validate.RuleVariable, "tagz", "spec.template.spec.forProvider.vars[0]", `the module has no variable "tagz": did you mean "tags"?`)},
		"a missing variable":  {apply("  templateRef: {name: network}\n  variables: {team: b}\n"), failed(validate.RuleVariable, "variables: {", "spec.variables", `with WorkspaceTemplate network: variable "cidr" is required and has no value`)},
		"an unknown variable": {apply("  templateRef: {name: network}\n  variables:\n    team: b\n    cidr: a\n    zons: 1\n"), failed(validate.RuleVariable, "zons", "spec.variables[zons]", `the module has no variable "zons": did you mean "zones"?`)},
		"a wrong type":        {apply("  templateRef: {name: network}\n  variables:\n    team: b\n    cidr: a\n    zones: many\n"), failed(validate.RuleVariable, "zones: many", "spec.variables[zones]", `requires type number`)},
		"a remote module": {
			"apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplate\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      forProvider:\n        source: Remote\n        module: example.com/a.zip\n",
			warned(validate.RuleModule, "module: example", "spec.template.spec.forProvider.module", "is fetched by the run: its variables were not checked"),
		},
		"an unknown output":    {apply("  templateRef: {name: network}\n  variables: {cidr: a, team: b}\n  requiredOutputs: [vpc]\n"), failed(validate.RuleVariable, "requiredOutputs", "spec.requiredOutputs", `the module has no output "vpc"`)},
		"an unset placeholder": {apply("  templateRef: {name: network}\n  variables: {cidr: a}\n"), failed(validate.RulePlaceholder, "variables: {", "spec.variables", "${team} has no value; set it in spec.variables")},
		"a cycle of workspaces": {
			apply("  templateRef: {name: network}\n  variables: {cidr: a, team: b}\n  waitForWorkspaces: [{name: other}]\n") +
				"---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplateApply\nmetadata: {name: other}\nspec:\n  templateRef: {name: network}\n  variables: {cidr: a, team: b}\n  waitForWorkspaces: [{name: demo}]\n",
			failed(validate.RuleCycle, "waitForWorkspaces: [{name: other", "spec.waitForWorkspaces[0]", "demo → other → demo"),
		},
		"a misspelled reference": {
			apply("  templateRef: {name: netwrok}\n"),
			warned(validate.RuleReference, "netwrok", "spec.templateRef", "did you mean network?"),
		},
		"a reference to another namespace": {
			apply("  templateRef: {name: network, namespace: other}\n"),
			warned(validate.RuleReference, "namespace: other", "spec.templateRef", "is not in namespace other but in default"),
		},
		"an item of a List": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: addons.cluster.x-k8s.io/v1beta1\n  kind: CAPTAddon\n  metadata: {name: a}\n  spec:\n    clusterSelector: {matchLabels: {a: b}}\n",
			failed(validate.RuleSchema, "spec:", "spec", "set manifests or helm"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := test.want
			g.Expect(test.text).To(ContainSubstring(w.at))
			line := 1 + strings.Count(test.text[:strings.LastIndex(test.text, w.at)], "\n")
			g.Expect(check(t, test.text, validate.Options{})).To(ContainElement(finding(w.severity, w.rule, line, w.path, w.message)))
		})
	}
}

func TestCheck_acceptsValidManifests(t *testing.T) {
	g := NewWithT(t)
	g.Expect(check(t, apply("  templateRef: {name: network}\n  variables: {cidr: 10.0.0.0/16, team: a}\n"), validate.Options{Strict: true})).To(BeEmpty())
}

func TestCheck_acceptsValuesOfMissingSecrets(t *testing.T) {
	g := NewWithT(t)
	withSecret := strings.Replace(apply("  templateRef: {name: network}\n  variables: {team: a}\n"),
		"        vars:\n", "        vars:\n        - key: cidr\n          secretKeyRef: {name: network, key: cidr}\n", 1)
	g.Expect(check(t, withSecret, validate.Options{})).To(BeEmpty())
	withFile := strings.Replace(apply("  templateRef: {name: network}\n  variables: {team: a}\n"),
		"        vars:\n", "        varFiles:\n        - source: ConfigMapKey\n          configMapKeyRef: {name: network, key: vars}\n        vars:\n", 1)
	g.Expect(check(t, withFile, validate.Options{})).To(BeEmpty())
	given := withFile + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: network}\ndata: {vars: 'zones = 3'}\n"
	g.Expect(check(t, given, validate.Options{})).To(ContainElement(HaveField("Message", ContainSubstring(`"cidr" is required`))), "the ConfigMap is read")
}

func TestCheck_reportsMissingReferencesAsErrorsIfStrict(t *testing.T) {
	text := apply("  templateRef: {name: elsewhere}\n")
	g := NewWithT(t)
	g.Expect(validate.Failed(check(t, text, validate.Options{}))).To(BeFalse())
	g.Expect(validate.Failed(check(t, text, validate.Options{Strict: true}))).To(BeTrue())
}

// manifests returns the text of files of the repository.
func manifests(t *testing.T, paths ...string) string {
	t.Helper()
	var all []string
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(root(t), path))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}

func TestCheck_checksClustersAgainstTheirClass(t *testing.T) {
	given := manifests(t, "examples/cluster-class.yaml", "clusterclasses/eks.yaml")
	tests := map[string]struct{ change, to, message string }{
		"a missing variable": {"    - name: region\n      value: us-west-2\n", "", "ClusterClass eks requires variable region"},
		"an unknown one":     {"    - name: region\n      value", "    - {name: regoin, value: x}\n    - name: region\n      value", `ClusterClass eks has no variable regoin: did you mean "region"?`},
		"an unknown class of machine pools": {
			"    version: v1.35.0", "    version: v1.35.0\n    workers: {machinePools: [{class: a, name: b}]}",
			"ClusterClass eks has no machine pool class a: it has node-group",
		},
		"an unknown class of machine deployments": {
			"    version: v1.35.0", "    version: v1.35.0\n    workers: {machineDeployments: [{class: nod, name: b}]}",
			`ClusterClass eks has no machine deployment class nod: did you mean "node"?`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			changed := strings.Replace(given, test.change, test.to, 1)
			g.Expect(changed).NotTo(Equal(given))
			classOnly, _, found := strings.Cut(changed, "\nkind: CAPTClusterTemplate\n")
			g.Expect(found).To(BeTrue())
			classOnly = classOnly[:strings.LastIndex(classOnly, "---")]
			for _, text := range []string{changed, classOnly} {
				g.Expect(check(t, text, validate.Options{})).To(ContainElement(And(
					HaveField("Path", "spec"), HaveField("Message", ContainSubstring(test.message)), HaveField("Severity", validate.Error))))
			}
		})
	}
}

func TestCheck_checksAddonsAgainstTheirChart(t *testing.T) {
	g := NewWithT(t)
	known := &chart.Chart{Name: "karpenter", Version: "1.14.1", Values: map[string]any{"settings": map[string]any{"clusterName": ""}}}

	g.Expect(check(t, addon, validate.Options{})).To(BeEmpty(), "the chart is not available")
	g.Expect(check(t, addon, validate.Options{Given: map[string]*chart.Chart{"karpenter": known}})).To(ConsistOf(
		finding(validate.Error, validate.RuleTargetPath, 19, "spec.helm.valuesFrom[0].targetPath",
			"settings.clusterNam does not exist in chart karpenter 1.14.1: did you mean settings.clusterName?")))
}

func TestCheck_usesTheVersionMatrix(t *testing.T) {
	g := NewWithT(t)
	matrix, err := versions.Default()
	g.Expect(err).NotTo(HaveOccurred())
	cluster := func(version string) string {
		return "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a, labels: {karpenter.sh/enabled: \"true\"}}\nspec:\n  topology: {classRef: {name: eks}, version: " + version + "}\n"
	}
	incompatible := func(severity validate.Severity, message string) types.GomegaMatcher {
		return ContainElement(finding(severity, validate.RuleVersion, 16, "spec.helm.chart.version", message))
	}

	g.Expect(check(t, addon+cluster("v1.33.0"), validate.Options{Versions: matrix})).NotTo(ContainElement(HaveField("Rule", validate.RuleVersion)))
	g.Expect(check(t, addon+cluster("v1.20.0"), validate.Options{Versions: matrix})).To(incompatible(validate.Error, "not 1.20"))
	newer := strings.Replace(addon, "version: 1.14.1", "version: 99.0.0", 1)
	g.Expect(check(t, newer, validate.Options{Versions: matrix})).To(incompatible(validate.Warning, "the nearest known version is"))
	flux := "---\napiVersion: addons.cluster.x-k8s.io/v1beta1\nkind: CAPTAddon\nmetadata: {name: fluxcd}\nspec:\n  clusterSelector: {matchLabels: {a: b}}\n  manifests: [{name: a, inline: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\"}]\n  versions: {matrix: flux, version: 2.7.5}\n"
	dependent := strings.Replace(addon, "spec:\n", "spec:\n  dependsOn: [{name: fluxcd}]\n", 1)
	g.Expect(check(t, dependent+flux, validate.Options{Versions: matrix})).To(ContainElement(
		finding(validate.Error, validate.RuleVersion, 6, "spec.dependsOn[0]", "Karpenter 1.14.1 requires Flux 2.9.0 or newer, and add-on fluxcd installs 2.7.5")))
	g.Expect(check(t, strings.Replace(dependent, "- valuesKey", "- mode: Parsed\n      valuesKey", 1)+flux, validate.Options{Versions: matrix})).NotTo(ContainElement(HaveField("Rule", validate.RuleVersion)))
	ranged := strings.Replace(addon, "matrix: karpenter", "kubernetes: \">=1.34\"", 1)
	g.Expect(check(t, ranged+cluster("v1.33.0"), validate.Options{Versions: matrix})).To(incompatible(validate.Error, "it supports Kubernetes >=1.34, not v1.33.0"))
}

// A cluster in extended support works, at six times the price of the control plane.
func TestCheck_warnsOfVersionsInExtendedSupport(t *testing.T) {
	november := time.Date(2026, time.November, 16, 0, 0, 0, 0, time.UTC)
	for file, path := range map[string]string{"cluster.yaml": "spec.version", "cluster-class.yaml": "spec.topology.version"} {
		t.Run(file, func(t *testing.T) {
			g := NewWithT(t)
			text := manifests(t, filepath.Join("examples", file), "clusterclasses/eks.yaml")
			support := HaveField("Rule", validate.RuleVersion)
			g.Expect(check(t, text, validate.Options{Now: november})).NotTo(ContainElement(support))

			old := strings.ReplaceAll(text, kubeversion.EKSDefault, "v1.33.0")
			g.Expect(check(t, old, validate.Options{Now: november})).To(ContainElement(And(support,
				HaveField("Severity", validate.Warning), HaveField("Path", path), HaveField("Message", ContainSubstring("until 2027-07-29")))))
			g.Expect(check(t, old, validate.Options{})).NotTo(ContainElement(support), "the time is not known")
		})
	}
}

func BenchmarkCheck_manyFiles(b *testing.B) {
	g := NewWithT(b)
	dir := b.TempDir()
	for i := range 1000 {
		text := strings.ReplaceAll(apply("  templateRef: {name: network}\n  variables: {cidr: 10.0.0.0/16, team: a}\n"), "name: network", fmt.Sprintf("name: network-%d", i))
		text = strings.ReplaceAll(strings.ReplaceAll(text, "name: demo", fmt.Sprintf("name: demo-%d", i)), "name: aws", fmt.Sprintf("name: aws-%d", i))
		g.Expect(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600)).To(Succeed())
	}
	for b.Loop() {
		objects, _, err := validate.Read([]string{dir}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		findings, err := validate.Check(b.Context(), objects, validate.Options{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(objects).To(HaveLen(3000))
		g.Expect(findings).To(BeEmpty())
	}
}

// The user sees the field and what YAML has read.
func TestCheck_reportsWhatNeedsQuotes(t *testing.T) {
	const cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n"
	const captCluster = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CAPTCluster\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a name": {cluster + "metadata:\n  name: 123\n", []string{`given.yaml:4: error: Cluster : metadata.name: must be of type string: "number": write it in quotes`}},
		"a name of CAPT": {captCluster + "metadata: {name: 1e3}\nspec: {region: a}\n", []string{
			`given.yaml:3: error: CAPTCluster : metadata.name: must be of type string: "number": write it in quotes`,
		}},
		"a label": {cluster + "metadata:\n  name: demo\n  labels:\n    a: b\n    fluxcd.io/enabled: true\n", []string{
			`error: Cluster demo: metadata.labels: must be of type string: "bool": write it in quotes`,
		}},
		"a version": {cluster + "metadata: {name: a}\nspec:\n  topology:\n    classRef: {name: c}\n    version: 1.30\n", []string{
			`given.yaml:7: error: Cluster a: spec.topology.version: must be of type string: "number": write it in quotes`,
		}},
		"a region": {captCluster + "metadata: {name: a}\nspec: {region: 1}\n", []string{
			`error: CAPTCluster a: spec.region: Invalid value: "integer": spec.region in body must be of type string: "integer": write it in quotes`,
		}},
		"a boolean of CAPT": {captCluster + "metadata: {name: a}\nspec: {region: true}\n", []string{
			`spec.region in body must be of type string: "boolean": write it in quotes`,
		}},
		"a list": {captCluster + "metadata: {name: a}\nspec: {region: [a]}\n", []string{
			`spec.region in body must be of type string: "array"` + "\n",
		}},
		"an object": {captCluster + "metadata: {name: a}\nspec: {region: {a: b}}\n", []string{
			`spec.region in body must be of type string: "object"` + "\n",
		}},
		"a list in a Cluster": {cluster + "metadata: {name: a}\nspec:\n  topology:\n    classRef: {name: c}\n    version: [a]\n", []string{
			`spec.topology.version: must be of type string: "array"` + "\n",
		}},
		"a number in quotes": {cluster + "metadata: {name: a}\nspec:\n  topology:\n    classRef: {name: c}\n    version: v1.36.0\n    controlPlane: {replicas: \"3\"}\n", []string{
			`given.yaml:8: error: Cluster a: spec.topology.controlPlane.replicas: must be of type integer: "string"`,
		}},
		"a mapping": {cluster + "metadata: {name: a}\nspec:\n  topology: x\n", []string{
			`given.yaml:5: error: Cluster a: spec.topology: must be of type object: "string"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var all string
			for _, f := range check(t, tc.text, validate.Options{}) {
				if f.Severity == validate.Error {
					all += f.String() + "\n"
				}
			}
			for _, want := range tc.want {
				g.Expect(all).To(ContainSubstring(want))
			}
			g.Expect(all).NotTo(Or(ContainSubstring("json:"), ContainSubstring("Go struct"), ContainSubstring("cannot unmarshal")))
		})
	}
}
