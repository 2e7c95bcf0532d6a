package contract

import (
	"slices"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

func TestInfraCluster_keepsTheContract(t *testing.T) {
	walk(t, contract{page: "infra-cluster.md", sum: "2a2117b4898587f4", subject: captCluster, sections: sections{
		"Contract rules for InfraCluster": {
			"SHOULD implement an InfraCluster resource using Kubernetes'": isCRD,
		},
		"All resources: APIVersion field value": {
			"MUST applies to both API group and": groupAndVersion,
		},
		"InfraCluster, InfraClusterList resource definition": {
			"MUST define a InfraCluster resource": all(isDefined, hasFields("spec", "status")),
		},
		"InfraCluster: control plane endpoint": {
			"MUST surface on spec.controlPlaneEndpoint in the InfraCluster": all(hasFields(endpointFields...), passesEndpointOn),
			"should exit reconciliation until it sees Cluster's":            deviates("the endpoint is that of a managed control plane, which is created in the VPC: waiting for it would never end", vpcComesBeforeEndpoint),
		},
		"InfraCluster: failure domains": {
			"MUST surface on status.failureDomains in the InfraCluster": all(hasFields("status.failureDomains"), showsFailureDomains),
			"must be unique": failureDomainsAreUnique,
		},
		"InfraCluster: initialization completed": {
			"MUST report when Machine's infrastructure is fully": all(hasFields("status.initialization", "status.initialization.provisioned"), infraIsProvisioned, infraStaysProvisioned),
		},
		"InfraCluster: conditions": {
			"SHOULD implement status.conditions for their InfraCluster resource": infraHasConditions,
			"is expected to surface the status of":                               infraReportsReadyAlways,
		},
		"InfraCluster: terminal failures": {
			"should be surfaced using conditions with a": infraShowsFailure,
		},
		"InfraClusterTemplate, InfraClusterTemplateList resource definition": {
			"should also add a corresponding InfraClusterTemplate resources": all(templateIsDefined, templateHasFields("spec", "spec.template", "spec.template.metadata", "spec.template.spec")),
			"MUST be named as <InfraCluster>Template":                        templateIsNamed,
			"MUST also add the corresponding list resource":                  listIsServed(subject.template),
			"MUST be named as <InfraClusterTemplate>List":                    listIsNamed(subject.template),
		},
		"Externally managed infrastructure": {
			"SHOULD skip reconciliation of InfraCluster resources with": leavesManagedElsewhere,
		},
		"Multi tenancy": {
			"SHOULD support the --namespace flag":    supportsNamespace,
			"SHOULD support the --watch-filter flag": supportsWatchFilter,
		},
		"InfraCluster: pausing": {
			"SHOULD implement the pause behaviour for every": pausesByBoth,
			"SHOULD surface the paused status of an":         showsPause,
		},
		"Typical InfraCluster reconciliation workflow": {
			"must respond to changes to its InfraCluster": infraFollowsChanges,
			"must watch for new updated and deleted":      all(infraIsProvisioned, infraFollowsChanges, infraReportsReadyAlways),
		},
	}})
}

// passesEndpointOn holds when an endpoint that the user has set reaches the Cluster.
func passesEndpointOn(c *check) {
	h := c.on(userEndpoint.in(c))
	c.Eventually(func(g Gomega) {
		g.Expect(get(h, "demo", emptyCluster()).Spec.ControlPlaneEndpoint).To(Equal(clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}))
	}, testTimeout, pollInterval).Should(Succeed())
}

// vpcComesBeforeEndpoint holds when the control plane, which gives the endpoint,
// waited for the VPC.
func vpcComesBeforeEndpoint(c *check) {
	h := c.on(fixture.in(c))
	controlPlanes := historyOf(h, get(h, "demo", emptyControlPlane()), emptyControlPlane)
	waited := slices.IndexFunc(controlPlanes, func(v *controlplanev1.CAPTControlPlane) bool {
		return objecttest.Condition(v, controlplanev1.InfrastructureReadyCondition).Reason == controlplanev1.WaitingForInfrastructureReason
	})
	c.Expect(waited).To(BeNumerically(">=", 0), "the control plane waited for the VPC")

	infras := historyOf(h, get(h, "demo", emptyInfra()), emptyInfra)
	created := slices.IndexFunc(infras, func(v *infrav1.CAPTCluster) bool { return v.Status.VPCID != "" })
	clusters := historyOf(h, get(h, "demo", emptyCluster()), emptyCluster)
	known := slices.IndexFunc(clusters, func(v *clusterv1.Cluster) bool { return v.Spec.ControlPlaneEndpoint.IsValid() })
	c.Expect(created).To(BeNumerically(">=", 0))
	c.Expect(known).To(BeNumerically(">=", 0))
	c.Expect(revision(c, infras[created])).To(BeNumerically("<", revision(c, clusters[known])), "the VPC existed before the endpoint")
}

// revision returns the resource version as a number. Newer versions are larger.
func revision(c *check, obj client.Object) int {
	n, err := strconv.Atoi(obj.GetResourceVersion())
	c.Expect(err).NotTo(HaveOccurred())
	return n
}

// showsFailureDomains holds when the CAPTCluster and the Cluster have the zones that
// the template reports.
func showsFailureDomains(c *check) {
	h := c.on(fixture.in(c))
	infra := get(h, "demo", emptyInfra())
	var names []string
	for _, domain := range infra.Status.FailureDomains {
		names = append(names, domain.Name)
	}
	c.Expect(names).To(HaveExactElements("zone-a", "zone-b"))
	c.Expect(get(h, "demo", emptyCluster()).Status.FailureDomains).To(Equal(infra.Status.FailureDomains))
}

// failureDomainsAreUnique holds when the schema requires it, and a zone that the
// template reports twice is listed once.
func failureDomainsAreUnique(c *check) {
	list, _ := lookup(c.schemaOf(c.subject.kind), "status.failureDomains")
	c.Expect(list.XListMapKeys).To(ConsistOf("name"))
	h := c.on(fixture.in(c))
	zones := get(h, "demo-vpc", &infrav1.WorkspaceTemplateApply{}).Status.Outputs["azs"]
	c.Expect(zones.String()).To(MatchJSON(`["zone-b", "zone-a", "zone-b"]`))
	c.Expect(get(h, "demo", emptyInfra()).Status.FailureDomains).To(HaveLen(2))
}

// infraIsProvisioned holds when it is reported after the VPC and, with a control plane
// of CAPT, when there is a cluster to connect to, and Cluster API reports it too.
func infraIsProvisioned(c *check) {
	h := c.on(fixture.in(c))
	infra := get(h, "demo", emptyInfra())
	controlPlanes := historyOf(h, get(h, "demo", emptyControlPlane()), emptyControlPlane)
	for _, version := range historyOf(h, infra, emptyInfra) {
		if isTrue(version.Status.Initialization.Provisioned) {
			c.Expect(version.Status.VPCID).NotTo(BeEmpty(), "it is not reported before the VPC exists")
			initialized := slices.IndexFunc(controlPlanes, func(v *controlplanev1.CAPTControlPlane) bool {
				return isTrue(v.Status.Initialization.ControlPlaneInitialized)
			})
			c.Expect(initialized).To(BeNumerically(">=", 0))
			c.Expect(revision(c, version)).To(BeNumerically(">", revision(c, controlPlanes[initialized])), "there is a cluster to connect to")
		}
	}
	c.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	c.Expect(get(h, "demo", emptyCluster()).Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
}

// infraStaysProvisioned holds when it stays reported through failures and until the
// deletion, in every recorded CAPTCluster.
func infraStaysProvisioned(c *check) {
	l := lifecycle.in(c)
	c.Expect(objecttest.Text(objecttest.Condition(l.brokenVPC.infra, infrav1.InfrastructureReadyCondition))).To(HavePrefix("False"))
	c.Expect(l.brokenVPC.infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	isNeverReset(c, l.harness, emptyInfra, func(v *infrav1.CAPTCluster) *bool { return v.Status.Initialization.Provisioned })
}

func infraHasConditions(c *check) {
	h := c.on(fixture.in(c))
	hasConditions(c, get(h, "demo", emptyInfra()))
	mirrors(c, h, get(h, "demo", emptyInfra()), infrav1.ReadyCondition, get(h, "demo", emptyCluster()), clusterv1.ClusterInfrastructureReadyCondition)
}

func infraReportsReadyAlways(c *check) {
	l := lifecycle.in(c)
	reportsReadyAlways(c, historyUntilDeleted(c.on(l.harness), l.changed.infra, emptyInfra))
}

// infraShowsFailure holds when a failed run results in a condition with a documented
// reason, here and in the Cluster, and the fields of the previous contract do not
// exist.
func infraShowsFailure(c *check) {
	l := lifecycle.in(c)
	condition := objecttest.Condition(l.brokenVPC.infra, infrav1.InfrastructureReadyCondition)
	c.Expect(objecttest.Text(condition)).To(And(HavePrefix("False "+infrav1.WorkspaceFailedReason), ContainSubstring(diagnostic)))
	mirror := objecttest.Condition(l.brokenVPC.cluster, clusterv1.ClusterInfrastructureReadyCondition)
	c.Expect(objecttest.Text(mirror)).To(And(HavePrefix("False "+infrav1.WorkspaceFailedReason), ContainSubstring(diagnostic)))
	lacks("status.failureReason", "status.failureMessage")(c)
}

// leavesManagedElsewhere holds when the object has not changed since Cluster API
// observed it.
func leavesManagedElsewhere(c *check) {
	e := managedElsewhere.in(c)
	h := c.on(e.harness)
	for _, name := range e.names {
		now := get(h, name, emptyInfra())
		c.Expect(now).To(Equal(e.before[name]), "it was not written")
		c.Expect(now.Finalizers).To(BeEmpty())
		for _, entry := range now.ManagedFields {
			c.Expect(entry.Manager).NotTo(ContainSubstring("capt"), "CAPT owns no field")
		}
	}
	ours := get(h, "ours", emptyInfra())
	c.Expect(ours.ManagedFields).To(ContainElement(HaveField("Manager", ContainSubstring("capt"))), "CAPT's field manager is recognized")
}

// infraFollowsChanges holds when a change of the spec was applied to the workspace and
// observed.
func infraFollowsChanges(c *check) {
	l := lifecycle.in(c)
	before, after := l.brokenVPC, l.changed
	c.Expect(before.vpc.Spec.Variables).NotTo(HaveKey("tags"))
	c.Expect(after.vpc.Spec.Variables["tags"].String()).To(MatchJSON(`{"team":"a"}`))
	c.Expect(after.infra.Generation).To(BeNumerically(">", before.infra.Generation))
	c.Expect(after.infra.Status.ObservedGeneration).To(Equal(after.infra.Generation))
}
