package validate_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/validate"
)

// The user sees the field, what YAML has read, and all other errors of the object.
func TestCheck_reportsWhatNeedsQuotes(t *testing.T) {
	const cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n"
	const captCluster = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CAPTCluster\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a name": {cluster + "metadata:\n  name: 123\n", []string{`given.yaml:4: error: Cluster 123: metadata.name: 123 is a number: write it in quotes, "123"`}},
		"a name and a namespace of CAPT": {captCluster + "metadata: {namespace: on, name: 1e3}\nspec: {region: a}\n", []string{
			`given.yaml:3: error: CAPTCluster 1e3: metadata.name: 1e3 is a number: write it in quotes, "1e3"`,
			`given.yaml:3: error: CAPTCluster 1e3: metadata.namespace: on is a boolean: write it in quotes, "on"`,
		}},
		"a label": {cluster + "metadata:\n  name: demo\n  labels:\n    a: b\n    fluxcd.io/enabled: true\n", []string{
			`given.yaml:7: error: Cluster demo: metadata.labels[fluxcd.io/enabled]: true is a boolean: write it in quotes, "true"`,
		}},
		"a version": {cluster + "metadata: {name: a}\nspec:\n  topology:\n    classRef: {name: c}\n    version: 1.30\n", []string{
			`given.yaml:7: error: Cluster a: spec.topology.version: 1.30 is a number: write it in quotes, "1.30"`,
		}},
		"an element of a list": {captCluster + "metadata: {name: a}\nspec:\n  region: a\n  paused: 1\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: b\n  finalizers: [x/y, 2]\n", []string{
			`given.yaml:6: error: CAPTCluster a: spec.paused: unknown field "spec.paused"`,
			`given.yaml:12: error: Cluster b: metadata.finalizers[1]: 2 is a number: write it in quotes, "2"`,
		}},
		"an unknown kind": {"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: true}\nspec: {name: 1}\n", []string{
			`given.yaml:3: error: Thing true: metadata.name: true is a boolean: write it in quotes, "true"`,
		}},
		"another error of the object": {captCluster + "metadata: {name: 1}\nspec: {regon: a}\n", []string{
			`metadata.name: 1 is a number`, `unknown field "spec.regon"`,
		}},
		"a number in quotes": {cluster + "metadata: {name: a}\nspec:\n  topology:\n    classRef: {name: c}\n    version: v1.36.0\n    controlPlane: {replicas: \"3\"}\n", []string{
			`given.yaml:8: error: Cluster a: spec.topology.controlPlane.replicas: expected a whole number, not a string`,
		}},
		"a mapping": {cluster + "metadata: {name: a}\nspec:\n  topology: x\n", []string{
			`given.yaml:5: error: Cluster a: spec.topology: expected a mapping, not a string`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var errors []string
			for _, f := range check(t, tc.text, validate.Options{}) {
				if f.Severity == validate.Error {
					errors = append(errors, f.String())
				}
			}
			all := strings.Join(errors, "\n")
			for _, want := range tc.want {
				g.Expect(all).To(ContainSubstring(want))
			}
			g.Expect(all).NotTo(Or(ContainSubstring("json:"), ContainSubstring("Go struct"), ContainSubstring("cannot unmarshal")))
		})
	}
}
