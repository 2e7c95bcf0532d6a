package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestInfraMachinePool_keepsTheContract(t *testing.T) {
	noPoolMachines := notApplicable("a managed node group: its nodes are the cloud's, and no CAPTMachine stands for one", hasNoPoolMachines)
	walk(t, contract{page: "infra-machinepool.md", subject: captMachinePool, sections: sections{
		"All resources: APIVersion field value": {
			"MUST apply to both API group and": groupAndVersion,
		},
		"InfraMachinePool, InfraMachinePoolList resource definition": {
			"MUST define a InfraMachinePool resource if you": all(isDefined, hasFields),
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
			"MUST supply a list of the identification": all(hasFields, listsProviderIDs),
			"MUST be kept up to date":                  listFollowsScale,
		},
		"InfraMachinePool: initialization completed": {
			"MUST report when the MachinePool's infrastructure is": all(hasFields, poolIsProvisioned, poolStaysProvisioned),
		},
		"InfraMachinePool: pausing": {
			"SHOULD implement the pause behaviour for every": pausesByBoth,
			"SHOULD be used":                         deviates("the condition says which of the two pauses an object, so they are asked one by one; the answer is the same", pausesAsTheUtility),
			"SHOULD surface the paused status of an": showsPause,
		},
		"InfraMachinePool: conditions": {
			"SHOULD implement status.conditions for their InfraMachinePool resource": poolHasConditions,
			"is expected to surface the status of":                                   poolLivesWithReady,
		},
		"InfraMachinePool: replicas": {
			"MUST implement status.replicas to report the most": all(hasFields, reportsReplicas),
		},
		"InfraMachinePool: terminal failures": {
			"should be surfaced using conditions with a": poolShowsFailure,
		},
		"InfraMachinePoolTemplate, InfraMachineTemplatePoolList resource definition": {
			"SHOULD also add a corresponding InfraMachinePoolTemplate resource": all(templateIsDefined, templateHasFields),
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

// hasNoPoolMachines holds when the only CAPTMachine was that of the Machine.
func hasNoPoolMachines(c *check) {
	lacks("status.infrastructureMachineKind")(c)
	crew := workers.in(c)
	for key := range historiesOf(c.on(crew.harness), emptyMachine) {
		if key.Namespace == crew.namespace {
			c.Expect(key.Name).To(Equal("worker"))
		}
	}
}

// leavesPoolNodesAlone holds when CAPT wrote nothing of the nodes of the pool.
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

// listsProviderIDs holds when the list is that of the template, and Cluster API
// took it over and found the nodes by it.
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
	crew := workers.in(c)
	c.Expect(crew.scaled.captPool.Spec.ProviderIDList).To(HaveLen(3))
	c.Expect(crew.scaled.captPool.Spec.ProviderIDList).To(ContainElements(crew.working.captPool.Spec.ProviderIDList))
}

// poolIsProvisioned holds when it is reported once Cluster API can read the list
// of nodes, and by Cluster API.
func poolIsProvisioned(c *check) {
	crew := workers.in(c)
	c.Expect(crew.working.captPool.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	c.Expect(crew.working.pool.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
	for _, version := range historyUntilGone(c.on(crew.harness), crew.scaled.captPool, emptyPool) {
		if isTrue(version.Status.Initialization.Provisioned) {
			c.Expect(version.Spec.ProviderIDList).NotTo(BeEmpty())
		}
	}
}

func poolStaysProvisioned(c *check) {
	crew := workers.in(c)
	c.Expect(text(conditionOf(crew.failing.captPool, infrav1.NodeGroupReadyCondition))).To(HavePrefix("False"))
	c.Expect(crew.failing.captPool.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	neverTakenBack(c, crew.harness, emptyPool, func(v *infrav1.CAPTMachinePool) *bool { return v.Status.Initialization.Provisioned })
}

// pausesAsTheUtility holds when Cluster API's utility says of each object what
// its condition said.
func pausesAsTheUtility(c *check) {
	p := paused.in(c)
	stopped := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: new(true)}}
	going := &clusterv1.Cluster{}
	for _, seen := range []struct {
		of      family
		cluster *clusterv1.Cluster
	}{{p.byCluster, stopped}, {p.byAnnotation, going}, {p.after, going}} {
		obj := seen.of[c.subject.kind]
		said := conditionOf(obj, clusterv1.PausedCondition).Status == "True"
		c.Expect(said).To(Equal(annotations.IsPaused(seen.cluster, obj)))
	}
}

func poolHasConditions(c *check) { hasConditions(c, workers.in(c).working.captPool) }

func poolLivesWithReady(c *check) {
	crew := workers.in(c)
	livesWithReady(c, historyUntilGone(c.on(crew.harness), crew.scaled.captPool, emptyPool))
}

// reportsReplicas holds when the number is that of the instances, and that of
// the MachinePool.
func reportsReplicas(c *check) {
	crew := workers.in(c)
	for wanted, s := range map[int32]shift{2: crew.working, 3: crew.scaled} {
		c.Expect(s.captPool.Status.Replicas).To(HaveValue(Equal(wanted)))
		c.Expect(s.pool.Status.Replicas).To(HaveValue(Equal(wanted)))
	}
}

func poolShowsFailure(c *check) {
	s := workers.in(c).failing
	condition := conditionOf(s.captPool, infrav1.NodeGroupReadyCondition)
	c.Expect(text(condition)).To(And(HavePrefix("False "+infrav1.WorkspaceFailedReason), ContainSubstring(diagnostic)))
	all(lacks("status.failureReason"), lacks("status.failureMessage"))(c)
}
