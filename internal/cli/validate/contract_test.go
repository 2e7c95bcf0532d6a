package validate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/validate"
)

// swapped has the kinds of two references in each other's place.
const swapped = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  infrastructureRef: {apiGroup: %s.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}
  controlPlaneRef: {apiGroup: %s.cluster.x-k8s.io, kind: CAPTCluster, name: demo}
`

func TestCheck_reportsKindsThatClusterAPIDoesNotAccept(t *testing.T) {
	const named = " demo, because Cluster API deletes what it names: "
	both := []string{
		"given.yaml:5: error: Cluster demo: spec.infrastructureRef: must not name the CAPTControlPlane" + named + "write the name of a CAPTCluster, or of a kind of another provider",
		"given.yaml:6: error: Cluster demo: spec.controlPlaneRef: must not name the CAPTCluster" + named + "write the name of a CAPTControlPlane, or of a kind of another provider",
	}
	const pool = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: %s\nmetadata: {name: a}\nspec:\n  clusterName: demo\n  template:\n    spec:\n      clusterName: demo\n      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTMachinePool, name: a}\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"swapped":                    {fmt.Sprintf(swapped, "controlplane", "infrastructure"), both},
		"swapped without the groups": {fmt.Sprintf(swapped, "infrastructure", "controlplane"), both},
		"another group": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  infrastructureRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTCluster, name: demo}\n",
			[]string{"given.yaml:5: error: Cluster demo: spec.infrastructureRef: CAPTCluster is not a kind of controlplane.cluster.x-k8s.io: write infrastructure.cluster.x-k8s.io"},
		},
		"a remediation": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineHealthCheck\nmetadata: {name: a}\nspec:\n  clusterName: demo\n  selector: {matchLabels: {a: b}}\n  remediation:\n    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: WorkspaceTemplate, name: demo}\n",
			[]string{"given.yaml:8: error: MachineHealthCheck a: spec.remediation.templateRef: must not name the WorkspaceTemplate" + named + "remove it, CAPT has no templates for remediation"},
		},
		"a class": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: a}\nspec:\n  workers:\n    machinePools:\n    - class: b\n      infrastructure:\n        templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTMachineTemplate, name: demo}\n",
			[]string{"given.yaml:9: error: ClusterClass a: spec.workers.machinePools[0].infrastructure.templateRef: must not name the CAPTMachineTemplate" + named + "write the name of a CAPTMachinePoolTemplate, or of a kind of another provider"},
		},
		"a pool":                {fmt.Sprintf(pool, "MachinePool"), nil},
		"a pool elsewhere":      {fmt.Sprintf(pool, "MachineDeployment"), []string{"given.yaml:9: error: MachineDeployment a: spec.template.spec.infrastructureRef: must not name the CAPTMachinePool a, because Cluster API deletes what it names: write the name of a CAPTMachineTemplate, or of a kind of another provider"}},
		"a kind of a foreigner": {"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OtherCluster, name: demo}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var errors []string
			for _, f := range check(t, tc.text, validate.Options{}) {
				if f.Severity == validate.Error {
					errors = append(errors, f.String())
				}
			}
			NewWithT(t).Expect(errors).To(Equal(tc.want))
		})
	}
}

// policyField matches a field of the policy with the kind that it accepts.
var policyField = regexp.MustCompile(`\[dyn\('(spec\.[^']+)'\), dyn\(([^)]+)\)`)

// captctl accepts what the policy of the API server accepts.
func TestContractKind_isThatOfThePolicy(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root(t), "config", "policy", "references.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(And(
		ContainSubstring(`{'Cluster': 'CAPTCluster', 'Machine': 'CAPTMachine', 'MachinePool': 'CAPTMachinePool'}[?request.kind.kind].orValue('CAPTMachineTemplate')`),
		ContainSubstring(`request.kind.kind in ['Machine', 'MachinePool'] ? 'CAPTBootstrapConfig' : 'CAPTBootstrapConfigTemplate'`),
	))
	byObject := map[string]map[string]string{
		"Cluster":            {"variables.infrastructure": "CAPTCluster", "variables.bootstrap": "CAPTBootstrapConfigTemplate"},
		"Machine":            {"variables.infrastructure": "CAPTMachine", "variables.bootstrap": "CAPTBootstrapConfig"},
		"MachinePool":        {"variables.infrastructure": "CAPTMachinePool", "variables.bootstrap": "CAPTBootstrapConfig"},
		"MachineDeployment":  {"variables.infrastructure": "CAPTMachineTemplate", "variables.bootstrap": "CAPTBootstrapConfigTemplate"},
		"MachineHealthCheck": {"variables.infrastructure": "CAPTMachineTemplate", "variables.bootstrap": "CAPTBootstrapConfigTemplate"},
	}
	fields := policyField.FindAllStringSubmatch(string(text), -1)
	g.Expect(fields).To(HaveLen(strings.Count(string(text), "[dyn('")), "the policy is understood")
	for object, variables := range byObject {
		for _, match := range fields {
			want, isVariable := variables[match[2]]
			if !isVariable {
				want = strings.Trim(match[2], "'")
			}
			got, known := validate.ContractKind(object, match[1])
			g.Expect(known).To(BeTrue(), match[1])
			g.Expect(got).To(Equal(want), "%s %s", object, match[1])
		}
	}
}
