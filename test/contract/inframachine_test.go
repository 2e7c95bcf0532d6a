package contract

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

func TestInfraMachine_keepsTheContract(t *testing.T) {
	noExtension := notApplicable("CAPT has no Update Extension: Cluster API replaces Machines", servesNoExtension)
	walk(t, contract{page: "infra-machine.md", sum: "11522f3712ccb144", subject: captMachine, sections: sections{
		"Contract rules for InfraMachine": {
			"SHOULD implement an InfraMachine resource using Kubernetes'": isCRD,
		},
		"All resources: APIVersion field value": {
			"MUST applies to both API group and": groupAndVersion,
		},
		"InfraMachine, InfraMachineList resource definition": {
			"MUST define a InfraMachine resource": all(isDefined, hasFields("spec", "status")),
		},
		"InfraMachine: provider ID": {
			"MUST surface on spec.providerID in the InfraMachine": all(hasFields("spec.providerID"), givesProviderID),
			"must match the provider ID as seen":                  nodeIsFoundByProviderID,
			"should be of type string it was":                     hasType("spec.providerID", "string"),
		},
		"InfraMachine: failure domain": {
			"MUST comply to the value that exists": all(hasFields("status.failureDomain"), isPlacedInFailureDomain),
		},
		"InfraMachine: addresses": {
			"MUST surface them in status.addresses in the": all(hasFields("status.addresses"), showsAddresses),
			"must have a type accepted types are":          all(showsAddresses, acceptsKnownAddresses),
		},
		"InfraMachine: initialization completed": {
			"MUST report when Machine's infrastructure is fully": all(hasFields("status.initialization", "status.initialization.provisioned"), machineIsProvisioned, machineStaysProvisioned),
		},
		"InfraMachine: conditions": {
			"SHOULD implement status.conditions for their InfraMachine resource": machineHasConditions,
			"is expected to surface the status of":                               machineReportsReadyAlways,
		},
		"InfraMachine: terminal failures": {
			"should be surfaced using conditions with a": machineShowsFailure,
		},
		"InfraMachine: support for in-place changes": {
			"should consider following recommendations during implementation": noExtension,
			"should ignore in-place changes":                                  noExtension,
			"must orchestrate those changes with the Update":                  noExtension,
			"should allow changes to mutable fields in":                       noExtension,
		},
		"InfraMachineTemplate, InfraMachineTemplateList resource definition": {
			"MUST also add a corresponding InfraMachineTemplate resources": templateIsDefined,
			"MUST be named as <InfraMachine>Template":                      all(templateIsNamed, templateHasFields("spec", "spec.template", "spec.template.metadata", "spec.template.spec")),
			"MUST also add the corresponding list resource":                listIsServed(subject.template),
			"MUST be named as <InfraMachineTemplate>List":                  listIsNamed(subject.template),
		},
		"InfraMachineTemplate: support for SSA dry run": {
			"MUST specifically implement support for SSA dry": letsTopologyTry,
		},
		"Multi tenancy": {
			"SHOULD support the --namespace flag":    supportsNamespace,
			"SHOULD support the --watch-filter flag": supportsWatchFilter,
		},
		"InfraMachine: pausing": {
			"SHOULD implement the pause behaviour for every": pausesByBoth,
			"SHOULD surface the paused status of an":         showsPause,
		},
		"InfraMachineTemplate: support cluster autoscaling from zero": {
			"should look like this": templateHasCapacity,
		},
		"Typical InfraMachine reconciliation workflow": {
			"must respond to changes to its InfraMachine": machineFollowsChanges,
			"must watch for new updated and deleted":      all(machineIsProvisioned, machineFollowsChanges, machineReportsReadyAlways),
		},
		"Normal resource": {
			"should not be blocking any further delete":        isDeletableWithoutInfrastructure,
			"should only be performed after appropriate owner": waitsForItsMachineFirst,
		},
	}})
}

// givesProviderID holds when the CAPTMachine and the Machine have the provider ID that
// the template has as an output.
func givesProviderID(c *check) {
	s := workers.in(c).working
	c.Expect(s.captMachine.Spec.ProviderID).To(HavePrefix("local:///"))
	c.Expect(s.captMachine.Spec.ProviderID).To(Equal(s.instance.Status.Outputs["provider_id"].String()))
	c.Expect(s.machine.Spec.ProviderID).To(Equal(s.captMachine.Spec.ProviderID))
}

// nodeIsFoundByProviderID holds when Cluster API has found the node by its provider ID.
func nodeIsFoundByProviderID(c *check) {
	s := workers.in(c).working
	node := s.nodes[s.captMachine.Spec.ProviderID]
	c.Expect(node).NotTo(BeNil())
	c.Expect(s.machine.Status.NodeRef.Name).To(Equal(node.Name))
}

// isPlacedInFailureDomain holds when the zone of the Machine takes precedence over the
// template's default.
func isPlacedInFailureDomain(c *check) {
	s := workers.in(c).working
	c.Expect(s.machine.Spec.FailureDomain).To(Equal("zone-a"))
	c.Expect(s.instance.Spec.Variables["availability_zone"].String()).To(Equal("zone-a"))
	c.Expect(s.captMachine.Status.FailureDomain).To(Equal("zone-a"))
	c.Expect(s.machine.Status.FailureDomain).To(Equal("zone-a"))
}

func showsAddresses(c *check) {
	s := workers.in(c).working
	wanted := clusterv1.MachineAddresses{
		{Type: clusterv1.MachineInternalIP, Address: "10.0.0.7"}, {Type: clusterv1.MachineHostName, Address: "worker"},
	}
	c.Expect(s.captMachine.Status.Addresses).To(BeEquivalentTo(wanted))
	c.Expect(s.machine.Status.Addresses).To(BeEquivalentTo(wanted))
}

// acceptsKnownAddresses holds when the schema accepts the types of the contract, and
// no others.
func acceptsKnownAddresses(c *check) {
	found, required := lookup(c.schemaOf(c.subject.kind), "status.addresses.type")
	c.Expect(found).NotTo(BeNil())
	c.Expect(required).To(BeTrue())
	var types []string
	for _, value := range found.Enum {
		types = append(types, strings.Trim(string(value.Raw), `"`))
	}
	c.Expect(types).To(ConsistOf("Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"))
}

// machineIsProvisioned holds when it is reported together with the provider ID, and
// Cluster API reports it too.
func machineIsProvisioned(c *check) {
	observed := workers.in(c)
	c.Expect(observed.working.captMachine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	c.Expect(observed.working.machine.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
	for _, version := range historyUntilDeleted(c.on(observed.harness), observed.scaled.captMachine, emptyMachine) {
		if isTrue(version.Status.Initialization.Provisioned) {
			c.Expect(version.Spec.ProviderID).NotTo(BeEmpty())
		}
	}
}

func machineStaysProvisioned(c *check) {
	observed := workers.in(c)
	c.Expect(objecttest.Text(objecttest.Condition(observed.failing.captMachine, infrav1.InstanceReadyCondition))).To(HavePrefix("False"))
	c.Expect(observed.failing.captMachine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	isNeverReset(c, observed.harness, emptyMachine, func(v *infrav1.CAPTMachine) *bool { return v.Status.Initialization.Provisioned })
}

// machineHasConditions also checks a failed machine: Cluster API copies its Ready
// condition to the Machine.
func machineHasConditions(c *check) {
	observed := workers.in(c)
	hasConditions(c, observed.working.captMachine)
	ours := objecttest.Condition(observed.failing.captMachine, clusterv1.ReadyCondition)
	theirs := objecttest.Condition(observed.failing.machine, clusterv1.MachineInfrastructureReadyCondition)
	c.Expect(objecttest.Text(theirs)).To(Equal(objecttest.Text(ours)))
}

func machineReportsReadyAlways(c *check) {
	observed := workers.in(c)
	reportsReadyAlways(c, historyUntilDeleted(c.on(observed.harness), observed.scaled.captMachine, emptyMachine))
}

func machineShowsFailure(c *check) {
	s := workers.in(c).failing
	condition := objecttest.Condition(s.captMachine, infrav1.InstanceReadyCondition)
	c.Expect(objecttest.Text(condition)).To(And(HavePrefix("False "+infrav1.WorkspaceFailedReason), ContainSubstring(diagnostic)))
	lacks("status.failureReason", "status.failureMessage")(c)
}

// templateHasCapacity writes the fields that an autoscaler reads.
func templateHasCapacity(c *check) {
	h := newHarness(c.Gomega, c.env)
	template := &infrav1.CAPTMachineTemplate{}
	template.Name, template.Spec.Template.Spec = "zero", newMachine("zero").Spec
	h.create(template)
	template.Status = infrav1.CAPTMachineTemplateStatus{
		Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("500M"), corev1.ResourceCPU: resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1")},
		NodeInfo: infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
	}
	c.Expect(h.env.Client.Status().Update(h.ctx, template)).To(Succeed())
	stored := get(h, "zero", &infrav1.CAPTMachineTemplate{}).Status
	c.Expect(stored.NodeInfo).To(Equal(template.Status.NodeInfo))
	c.Expect(stored.Capacity).To(HaveLen(3))
	c.Expect(stored.Capacity.Memory().Value()).To(BeEquivalentTo(500_000_000))
}

func machineFollowsChanges(c *check) {
	observed := workers.in(c)
	c.Expect(observed.failing.instance.Spec.Variables).NotTo(HaveKey("tags"))
	c.Expect(observed.scaled.instance.Spec.Variables["tags"].String()).To(MatchJSON(`{"team":"a"}`))
	c.Expect(observed.scaled.captMachine.Status.ObservedGeneration).To(Equal(observed.scaled.captMachine.Generation))
	c.Expect(observed.scaled.captMachine.Spec.ProviderID).To(Equal(observed.working.captMachine.Spec.ProviderID))
}

// isDeletableWithoutInfrastructure holds when a CAPTMachine can be deleted while it
// waits for the infrastructure of its Cluster.
func isDeletableWithoutInfrastructure(c *check) {
	i := withoutInfrastructure.in(c)
	history := historyUntilDeleted(c.on(i.harness), i.captMachine, emptyMachine)
	c.Expect(history[len(history)-1].DeletionTimestamp).NotTo(BeNil())
}

// waitsForItsMachineFirst holds when no version waited for the infrastructure
// before the Machine was its owner.
func waitsForItsMachineFirst(c *check) {
	i := withoutInfrastructure.in(c)
	waited := 0
	for _, version := range historyUntilDeleted(c.on(i.harness), i.captMachine, emptyMachine) {
		if objecttest.Condition(version, infrav1.ReadyCondition).Reason != infrav1.WaitingForInfrastructureReason {
			continue
		}
		waited++
		c.Expect(version.OwnerReferences).To(ContainElement(HaveField("Kind", "Machine")))
	}
	c.Expect(waited).To(BeNumerically(">", 0))
}
