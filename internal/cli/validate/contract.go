package validate

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// contractKinds are the kinds of CAPT that references of Cluster API's objects accept, as in the
// policy capt-references. "" is none.
var contractKinds = map[string]string{
	"spec.controlPlaneRef":                                                           "CAPTControlPlane",
	"spec.remediation.templateRef":                                                   "",
	"spec.controlPlane.healthCheck.remediation.templateRef":                          "",
	"spec.workers.machineDeployments[].healthCheck.remediation.templateRef":          "",
	"spec.topology.controlPlane.healthCheck.remediation.templateRef":                 "",
	"spec.topology.workers.machineDeployments[].healthCheck.remediation.templateRef": "",
	"spec.infrastructure.templateRef":                                                "CAPTClusterTemplate",
	"spec.controlPlane.templateRef":                                                  "CAPTControlPlaneTemplate",
	"spec.controlPlane.machineInfrastructure.templateRef":                            "CAPTMachineTemplate",
	"spec.workers.machineDeployments[].infrastructure.templateRef":                   "CAPTMachineTemplate",
	"spec.workers.machineDeployments[].bootstrap.templateRef":                        "CAPTBootstrapConfigTemplate",
	"spec.workers.machinePools[].infrastructure.templateRef":                         "CAPTMachinePoolTemplate",
	"spec.workers.machinePools[].bootstrap.templateRef":                              "CAPTBootstrapConfigTemplate",
}

// contractKind returns the kind of CAPT that a reference of an object accepts. It is not known
// for fields that Cluster API does not follow.
func contractKind(object, path string) (kind string, known bool) {
	switch path {
	case "spec.infrastructureRef", "spec.template.spec.infrastructureRef":
		kinds := map[string]string{"Cluster": "CAPTCluster", "Machine": "CAPTMachine", "MachinePool": "CAPTMachinePool"}
		return cmp.Or(kinds[object], "CAPTMachineTemplate"), true
	case "spec.bootstrap.configRef", "spec.template.spec.bootstrap.configRef":
		kinds := map[string]string{"Machine": "CAPTBootstrapConfig", "MachinePool": "CAPTBootstrapConfig"}
		return cmp.Or(kinds[object], "CAPTBootstrapConfigTemplate"), true
	default:
		kind, known = contractKinds[path]
		return kind, known
	}
}

// checkContract reports a reference to a kind of CAPT that the field does not accept, and returns
// whether it has reported one.
func (c *checker) checkContract(o *Object, r reference) bool {
	group, isCAPT := groupOfKind(r.kind)
	if o.GroupVersionKind().Group != clusterv1.GroupVersion.Group || !isCAPT || !slices.Contains(providerGroups, r.group) {
		return false
	}
	switch want, known := contractKind(o.GetKind(), index.ReplaceAllString(r.path, "[]")); {
	case known && want == "":
		c.add(o.fail(RuleReference, r.path, "must not name the %s %s, because Cluster API deletes what it names: remove it, CAPT has no templates for remediation", r.kind, r.name))
	case known && r.kind != want:
		c.add(o.fail(RuleReference, r.path, "must not name the %s %s, because Cluster API deletes what it names: write the name of a %s, or of a kind of another provider", r.kind, r.name, want))
	case group != r.group:
		c.add(o.fail(RuleReference, r.path, "%s is not a kind of %s: write %s", r.kind, r.group, group))
	default:
		return false
	}
	return true
}

// providerGroups are the groups of the providers of Cluster API.
var providerGroups = []string{"addons.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"}

// groupOfKind returns the group of a kind of CAPT.
func groupOfKind(kind string) (group string, isCAPT bool) {
	// The definitions are part of the program, and Check has read them already.
	all, _ := kinds()
	for gvk := range all {
		if gvk.Kind == kind {
			return gvk.Group, true
		}
	}
	return "", false
}
