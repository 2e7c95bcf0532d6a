package validate_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/validate"
)

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
		"a number in quotes": {cluster + "metadata: {name: a}\nspec:\n  topology:\n    classRef: {name: c}\n    version: v1.36.0\n    controlPlane: {replicas: \"3\"}\n", []string{
			`given.yaml:8: error: Cluster a: spec.topology.controlPlane.replicas: must be of type integer: "string"`,
		}},
		"a mapping": {cluster + "metadata: {name: a}\nspec:\n  topology: x\n", []string{
			`given.yaml:5: error: Cluster a: spec.topology: must be of type object: "string"`,
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
