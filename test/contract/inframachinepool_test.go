package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

func TestInfraMachinePool_keepsTheContract(t *testing.T) {
	noPoolMachines := notApplicable("a managed node group: its nodes are the cloud's, and no CAPTMachine stands for one", hasNoPoolMachines)
	walk(t, contract{page: "infra-machinepool.md", sum: "7d8ffa379e66b08c", subject: captMachinePool, sections: sections{
		"All resources: APIVersion field value": {
			"MUST apply to both API group and": groupAndVersion,
		},
		"InfraMachinePool, InfraMachinePoolList resource definition": {
			"MUST define a InfraMachinePool resource if you": all(isDefined, hasFields("spec", "status")),
		},
		"MachinePoolMachines support": {
			"MUST have an status.infrastructureMachineKind field and the": notApplicable("CAPT does not adopt MachinePool Machines", lacks("status.infrastructureMachineKind")),
			"is expected to create a InfraMachine for":                    noPoolMachines,
			"must be managed so that when scale":                          noPoolMachines,
			"are expected to NOT perform operations against":              leavesPoolNodesAlone,
		},
		"InfraMachinePool: providerID": {
			"should be of type string": all(hasType("spec.providerID", "string"), namesNodeGroup),
		},
		"InfraMachinePool: providerIDList": {
			"MUST supply a list of the identification": all(hasFields("spec.providerIDList"), listsProviderIDs),
			"MUST be kept up to date":                  listFollowsScale,
		},
		"InfraMachinePool: initialization completed": {
			"MUST report when the MachinePool's infrastructure is": all(hasFields("status.initialization", "status.initialization.provisioned"), poolIsProvisioned, poolStaysProvisioned),
		},
		"InfraMachinePool: pausing": {
			"SHOULD implement the pause behaviour for every": pausesByBoth,
			"SHOULD be used":                         deviates("the condition says which of the two pauses an object, so they are asked one by one; the answer is the same", agreesWithThePauseUtility),
			"SHOULD surface the paused status of an": showsPause,
		},
		"InfraMachinePool: conditions": {
			"SHOULD implement status.conditions for their InfraMachinePool resource": poolHasConditions,
			"is expected to surface the status of":                                   poolReportsReadyAlways,
		},
		"InfraMachinePool: replicas": {
			"MUST implement status.replicas to report the most": all(hasFields("status.replicas"), reportsReplicas),
		},
		"InfraMachinePool: terminal failures": {
			"should be surfaced using conditions with a": poolShowsFailure,
		},
		"InfraMachinePoolTemplate, InfraMachineTemplatePoolList resource definition": {
			"SHOULD also add a corresponding InfraMachinePoolTemplate resource": all(templateIsDefined, templateHasFields("spec", "spec.template")),
			"MUST be name <InfraMachinePool>Template":                           templateIsNamed,
			"MUST also add the corresponding list resource":                     listIsServed(subject.template),
			"MUST be named as <InfraMachinePoolTemplate>List":                   listIsNamed(subject.template),
		},
		"InfraMachinePoolTemplate: support for SSA dry run": {
			"MUST specifically implement support for SSA dry": letsTopologyTry,
		},
		"Multi tenancy": {
			"SHOULD support the --namespace flag":    supportsNamespace,
			"SHOULD support the --watch-filter flag": supportsWatchFilter,
		},
	}})
}

// hasNoPoolMachines holds when the pool has no CAPTMachines.
func hasNoPoolMachines(c *check) {
	lacks("status.infrastructureMachineKind")(c)
	observed := workers.in(c)
	for key := range historiesOf(c.on(observed.harness), emptyMachine) {
		if key.Namespace == observed.namespace {
			c.Expect(key.Name).To(Equal("worker"))
		}
	}
}

// leavesPoolNodesAlone holds when CAPT has not written the nodes of the pool.
func leavesPoolNodesAlone(c *check) {
	s := workers.in(c).scaled
	for _, id := range s.captPool.Spec.ProviderIDList {
		node := s.nodes[id]
		c.Expect(node).NotTo(BeNil())
		c.Expect(node.Spec.Unschedulable).To(BeFalse())
		for _, entry := range node.ManagedFields {
			c.Expect(entry.Manager).NotTo(ContainSubstring("capt"))
		}
	}
}

func namesNodeGroup(c *check) {
	s := workers.in(c).working
	c.Expect(s.captPool.Spec.ProviderID).To(HavePrefix("group-"))
	c.Expect(s.captPool.Spec.ProviderID).To(Equal(s.group.Status.Outputs["provider_id"].String()))
}

// listsProviderIDs holds when the list is that of the template, and Cluster API has
// copied it and found the nodes.
func listsProviderIDs(c *check) {
	s := workers.in(c).working
	c.Expect(s.captPool.Spec.ProviderIDList).To(HaveLen(2))
	c.Expect(s.pool.Spec.ProviderIDList).To(Equal(s.captPool.Spec.ProviderIDList))
	var names []string
	for _, id := range s.captPool.Spec.ProviderIDList {
		c.Expect(s.nodes).To(HaveKey(id))
		names = append(names, s.nodes[id].Name)
	}
	var found []string
	for _, ref := range s.pool.Status.NodeRefs {
		found = append(found, ref.Name)
	}
	c.Expect(found).To(ConsistOf(names))
}

func listFollowsScale(c *check) {
	observed := workers.in(c)
	c.Expect(observed.scaled.captPool.Spec.ProviderIDList).To(HaveLen(3))
	c.Expect(observed.scaled.captPool.Spec.ProviderIDList).To(ContainElements(observed.working.captPool.Spec.ProviderIDList))
}

// poolIsProvisioned holds when it is reported together with the list of nodes, and
// Cluster API reports it too.
func poolIsProvisioned(c *check) {
	observed := workers.in(c)
	c.Expect(observed.working.captPool.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	c.Expect(observed.working.pool.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
	for _, version := range historyUntilDeleted(c.on(observed.harness), observed.scaled.captPool, emptyPool) {
		if isTrue(version.Status.Initialization.Provisioned) {
			c.Expect(version.Spec.ProviderIDList).NotTo(BeEmpty())
		}
	}
}

func poolStaysProvisioned(c *check) {
	observed := workers.in(c)
	c.Expect(objecttest.Text(objecttest.Condition(observed.failing.captPool, infrav1.NodeGroupReadyCondition))).To(HavePrefix("False"))
	c.Expect(observed.failing.captPool.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	isNeverReset(c, observed.harness, emptyPool, func(v *infrav1.CAPTMachinePool) *bool { return v.Status.Initialization.Provisioned })
}

// agreesWithThePauseUtility holds when Cluster API's utility returns for each object
// the value of its condition.
func agreesWithThePauseUtility(c *check) {
	p := paused.in(c)
	stopped := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: new(true)}}
	going := &clusterv1.Cluster{}
	for _, seen := range []struct {
		of      objectsByKind
		cluster *clusterv1.Cluster
	}{{p.byCluster, stopped}, {p.byAnnotation, going}, {p.after, going}} {
		obj := seen.of[c.subject.kind]
		said := objecttest.Condition(obj, clusterv1.PausedCondition).Status == "True"
		c.Expect(said).To(Equal(annotations.IsPaused(seen.cluster, obj)))
	}
}

func poolHasConditions(c *check) { hasConditions(c, workers.in(c).working.captPool) }

func poolReportsReadyAlways(c *check) {
	observed := workers.in(c)
	reportsReadyAlways(c, historyUntilDeleted(c.on(observed.harness), observed.scaled.captPool, emptyPool))
}

// reportsReplicas holds when the CAPTMachinePool and the MachinePool have the number of
// instances.
func reportsReplicas(c *check) {
	observed := workers.in(c)
	for wanted, s := range map[int32]workerSnapshot{2: observed.working, 3: observed.scaled} {
		c.Expect(s.captPool.Status.Replicas).To(HaveValue(Equal(wanted)))
		c.Expect(s.pool.Status.Replicas).To(HaveValue(Equal(wanted)))
	}
}

func poolShowsFailure(c *check) {
	s := workers.in(c).failing
	condition := objecttest.Condition(s.captPool, infrav1.NodeGroupReadyCondition)
	c.Expect(objecttest.Text(condition)).To(And(HavePrefix("False "+infrav1.WorkspaceFailedReason), ContainSubstring(diagnostic)))
	lacks("status.failureReason", "status.failureMessage")(c)
}
