package contract

import (
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// leavesNetworkToUsers holds when CAPT requests no network add-on from the template
// and installs none in the cluster.
func leavesNetworkToUsers(c *check) {
	h := c.on(fixture.in(c))
	c.Expect(get(h, "demo", &infrav1.WorkspaceTemplateApply{}).Spec.Variables).NotTo(HaveKey("cluster_addons"))
	var sets appsv1.DaemonSetList
	c.Expect(h.env.Client.List(h.ctx, &sets)).To(Succeed())
	c.Expect(sets.Items).To(BeEmpty())
}

// givesEndpoint holds when the control plane and the Cluster have the address of the
// API server.
func givesEndpoint(c *check) {
	h := c.on(fixture.in(c))
	wanted := h.endpointOf()
	c.Expect(wanted.IsValid()).To(BeTrue())
	c.Expect(get(h, "demo", emptyControlPlane()).Spec.ControlPlaneEndpoint).To(Equal(wanted))
	c.Expect(get(h, "demo", emptyCluster()).Spec.ControlPlaneEndpoint).To(Equal(wanted))
}

func hasNoScale(c *check) {
	for _, v := range c.crd(c.subject.kind).Spec.Versions {
		c.Expect(v.Subresources.Scale).To(BeNil())
	}
}

// versionReachesTemplate holds when the requested version is passed to the template.
func versionReachesTemplate(c *check) {
	h := c.on(fixture.in(c))
	c.Expect(get(h, "demo", emptyControlPlane()).Spec.Version).To(Equal("v1.37.0"))
	c.Expect(get(h, "demo", &infrav1.WorkspaceTemplateApply{}).Spec.Variables["kubernetes_version"].String()).To(Equal("1.37"))
}

// requiresSemanticVersion holds when the prefix is added, and an invalid version is
// rejected.
func requiresSemanticVersion(c *check) {
	try := func(version string) (string, error) {
		obj := newControlPlane("sample")
		obj.Namespace, obj.Spec.Version = metav1.NamespaceDefault, version
		err := c.env.Client.Create(c.ctx, obj, client.DryRunAll)
		return obj.Spec.Version, err
	}
	for given, wanted := range map[string]string{"1.37.0": "v1.37.0", "v1.37.0": "v1.37.0", "1.36.2-eks.3": "v1.36.2-eks.3"} {
		c.Expect(try(given)).To(Equal(wanted))
	}
	for _, bad := range []string{"latest", "1", "v1.x", "v01.37.0", "1.37.0.0"} {
		_, err := try(bad)
		c.Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%q: %v", bad, err)
	}
}

// reportsVersion holds when the API server's own version is reported.
func reportsVersion(c *check) {
	h := c.on(fixture.in(c))
	discovered, err := discovery.NewDiscoveryClientForConfig(h.env.Config)
	c.Expect(err).NotTo(HaveOccurred())
	info, err := discovered.ServerVersion()
	c.Expect(err).NotTo(HaveOccurred())
	status := get(h, "demo", emptyControlPlane()).Status
	c.Expect(status.Versions).To(HaveExactElements(HaveField("Version", info.GitVersion)))
	c.Expect(status.Version).To(Equal(info.GitVersion))
}

// eachVersions calls check with the versions of every recorded control plane.
func eachVersions(c *check, check func([]clusterv1.StatusVersion)) {
	h := c.on(fixture.in(c))
	lifecycle.in(c)
	reported := 0
	for _, history := range historiesOf(h, emptyControlPlane) {
		for _, v := range history {
			reported += len(v.Status.Versions)
			check(v.Status.Versions)
		}
	}
	c.Expect(reported).To(BeNumerically(">", 0))
}

func ordersVersions(c *check) {
	eachVersions(c, func(versions []clusterv1.StatusVersion) {
		c.Expect(slices.IsSortedFunc(versions, func(a, b clusterv1.StatusVersion) int {
			x, y := version.MustParseSemantic(a.Version), version.MustParseSemantic(b.Version)
			switch {
			case x.LessThan(y):
				return -1
			case y.LessThan(x):
				return 1
			default:
				return 0
			}
		})).To(BeTrue(), "%v", versions)
	})
}

func reportsSemanticVersions(c *check) {
	eachVersions(c, func(versions []clusterv1.StatusVersion) {
		for _, v := range versions {
			c.Expect(version.ParseSemantic(v.Version)).Error().NotTo(HaveOccurred())
			c.Expect(v.Version).To(HavePrefix("v"))
		}
	})
}

// hasNoMachines holds when there is neither a Machine of the control plane nor a
// field for its template.
func hasNoMachines(c *check) {
	lacks("spec.machineTemplate")(c)
	h := c.on(fixture.in(c))
	var machines clusterv1.MachineList
	c.Expect(h.env.Client.List(h.ctx, &machines, client.InNamespace(h.namespace))).To(Succeed())
	for _, machine := range machines.Items {
		c.Expect(metav1.IsControlledBy(&machine, get(h, "demo", emptyControlPlane()))).To(BeFalse())
		c.Expect(machine.Labels).NotTo(HaveKey(clusterv1.MachineControlPlaneLabel))
	}
}

// isExternallyManaged holds when the status reports a control plane without nodes, and
// there are no such nodes.
func isExternallyManaged(c *check) {
	h := c.on(fixture.in(c))
	c.Expect(get(h, "demo", emptyControlPlane()).Status.ExternalManagedControlPlane).To(HaveValue(BeTrue()))
	var nodes corev1.NodeList
	c.Expect(h.env.Client.List(h.ctx, &nodes, client.HasLabels{"node-role.kubernetes.io/control-plane"})).To(Succeed())
	c.Expect(nodes.Items).To(BeEmpty())
}

// controlPlaneIsInitialized holds when it is reported, with the endpoint, once the API
// server responds, and Cluster API reports it too.
func controlPlaneIsInitialized(c *check) {
	h := c.on(fixture.in(c))
	controlPlane := get(h, "demo", emptyControlPlane())
	history := historyOf(h, controlPlane, emptyControlPlane)
	first := slices.IndexFunc(history, func(v *controlplanev1.CAPTControlPlane) bool {
		return isTrue(v.Status.Initialization.ControlPlaneInitialized)
	})
	c.Expect(first).To(BeNumerically(">", 0), "it was not initialized at first")
	c.Expect(objecttest.Text(objecttest.Condition(history[first], controlplanev1.AvailableCondition))).To(HavePrefix("True"))
	c.Expect(history[first].Spec.ControlPlaneEndpoint.IsValid()).To(BeTrue())
	cluster := get(h, "demo", emptyCluster())
	c.Expect(cluster.Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()))
	c.Expect(objecttest.Text(objecttest.Condition(cluster, clusterv1.ClusterControlPlaneInitializedCondition))).To(HavePrefix("True"))
}

// controlPlaneStaysInitialized holds when it stays reported, in every recorded control
// plane.
func controlPlaneStaysInitialized(c *check) {
	l := lifecycle.in(c)
	c.Expect(l.brokenControlPlane.controlPlane.Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()))
	isNeverReset(c, l.harness, emptyControlPlane, func(v *controlplanev1.CAPTControlPlane) *bool {
		return v.Status.Initialization.ControlPlaneInitialized
	})
}

func controlPlaneHasConditions(c *check) {
	h := c.on(fixture.in(c))
	hasConditions(c, get(h, "demo", emptyControlPlane()))
	mirrors(c, h, get(h, "demo", emptyControlPlane()), controlplanev1.AvailableCondition, get(h, "demo", emptyCluster()), clusterv1.ClusterControlPlaneAvailableCondition)
}

// availableIsNotReady holds when the control plane stays available after a failed
// change, because the API server still responds.
func availableIsNotReady(c *check) {
	l := lifecycle.in(c)
	for _, snapshot := range []clusterSnapshot{l.brokenControlPlane, l.brokenVPC} {
		c.Expect(objecttest.Text(objecttest.Condition(snapshot.controlPlane, infrav1.ReadyCondition))).To(HavePrefix("False"))
		c.Expect(objecttest.Text(objecttest.Condition(snapshot.controlPlane, controlplanev1.AvailableCondition))).To(HavePrefix("True"))
	}
	c.Expect(objecttest.Text(objecttest.Condition(l.brokenVPC.cluster, clusterv1.ClusterControlPlaneAvailableCondition))).To(HavePrefix("True"))
}

func controlPlaneShowsFailure(c *check) {
	l := lifecycle.in(c)
	condition := objecttest.Condition(l.brokenControlPlane.controlPlane, controlplanev1.WorkspaceReadyCondition)
	c.Expect(objecttest.Text(condition)).To(And(HavePrefix("False "+infrav1.WorkspaceFailedReason), ContainSubstring(diagnostic)))
	lacks("status.failureReason", "status.failureMessage")(c)
}

// controlPlaneFollowsChanges holds when a change of the spec was applied to the
// workspace and observed.
func controlPlaneFollowsChanges(c *check) {
	l := lifecycle.in(c)
	before, after := l.brokenVPC, l.changed
	c.Expect(before.plane.Spec.Variables).NotTo(HaveKey("tags"))
	c.Expect(after.plane.Spec.Variables["tags"].String()).To(MatchJSON(`{"team":"b"}`))
	c.Expect(after.controlPlane.Generation).To(BeNumerically(">", before.controlPlane.Generation))
	c.Expect(after.controlPlane.Status.ObservedGeneration).To(Equal(after.controlPlane.Generation))
}

func controlPlaneReportsReadyAlways(c *check) {
	l := lifecycle.in(c)
	reportsReadyAlways(c, historyUntilDeleted(c.on(l.harness), l.changed.controlPlane, emptyControlPlane))
}

// hasNoCertificates holds when no Secret has the name of a certificate.
func hasNoCertificates(c *check) {
	h := c.on(fixture.in(c))
	var secrets corev1.SecretList
	c.Expect(h.env.Client.List(h.ctx, &secrets, client.InNamespace(h.namespace))).To(Succeed())
	c.Expect(secrets.Items).NotTo(BeEmpty())
	for _, secret := range secrets.Items {
		name, _ := strings.CutPrefix(secret.Name, "demo-")
		c.Expect(name).NotTo(BeElementOf("ca", "etcd", "proxy", "sa", "apiserver-etcd-client"))
	}
}
