package contract

import (
	"net/url"
	"strconv"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// waitReady waits until CAPT's objects are ready and Cluster API has observed the
// control plane.
func (h *harness) waitReady(name string) {
	waitCondition(h, name, emptyInfra(), infrav1.ReadyCondition, "True")
	waitCondition(h, name, emptyControlPlane(), infrav1.ReadyCondition, "True")
	h.Eventually(func(g Gomega) {
		status := get(h, name, emptyCluster()).Status.Initialization
		g.Expect(status.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(status.ControlPlaneInitialized).To(HaveValue(BeTrue()))
	}, testTimeout, pollInterval).Should(Succeed())
}

// fixture is a cluster that no test changes. Its template reports a zone twice.
var fixture = scenario[*harness]{run: func(h *harness) *harness {
	infra := newInfra("demo")
	zones, err := infrav1.NewValue([]string{"zone-b", "zone-a", "zone-b"})
	h.Expect(err).NotTo(HaveOccurred())
	infra.Spec.Variables = map[string]infrav1.Value{"azs": zones}
	h.create(h.templates()...)
	h.create(newCluster("demo"), infra, newControlPlane("demo"))
	h.waitReady("demo")
	return h
}}

// on returns a harness for the namespace of a scenario that reports failures to the
// rule.
func (c *check) on(h *harness) *harness {
	return &harness{Gomega: c.Gomega, ctx: c.ctx, namespace: h.namespace, env: h.env}
}

// clusterHistory contains snapshots of a cluster with failures.
type clusterHistory struct {
	*harness
	// initial is the cluster before the first failure.
	initial clusterSnapshot
	// brokenControlPlane is the cluster after a change of the control plane failed,
	// and brokenVPC after one of the VPC failed too.
	brokenControlPlane, brokenVPC clusterSnapshot
	// changed is the cluster after the failures were fixed and its spec was changed.
	changed clusterSnapshot
	// restored is the kubeconfig Secret after it was deleted.
	restored *corev1.Secret
}

// clusterSnapshot contains the objects of a cluster at one point in time.
type clusterSnapshot struct {
	cluster      *clusterv1.Cluster
	infra        *infrav1.CAPTCluster
	controlPlane *controlplanev1.CAPTControlPlane
	vpc, plane   *infrav1.WorkspaceTemplateApply
}

func (h *harness) snapshotCluster(name string) clusterSnapshot {
	return clusterSnapshot{
		cluster: get(h, name, emptyCluster()), infra: get(h, name, emptyInfra()), controlPlane: get(h, name, emptyControlPlane()),
		vpc:   get(h, name+"-vpc", &infrav1.WorkspaceTemplateApply{}),
		plane: get(h, name, &infrav1.WorkspaceTemplateApply{}),
	}
}

// lifecycle creates a cluster, makes its runs fail, changes it, and deletes it.
var lifecycle = scenario[clusterHistory]{run: func(h *harness) clusterHistory {
	l := clusterHistory{harness: h}
	h.create(h.templates()...)
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.waitReady("demo")
	l.initial = h.snapshotCluster("demo")

	setModule(h, "control-plane", controlPlaneModule+broken)
	waitCondition(h, "demo", emptyControlPlane(), infrav1.ReadyCondition, "False WorkspaceFailed")
	waitCondition(h, "demo", emptyControlPlane(), controlplanev1.AvailableCondition, "True")
	l.brokenControlPlane = h.snapshotCluster("demo")

	setModule(h, "vpc", vpcModule+broken)
	waitCondition(h, "demo", emptyInfra(), infrav1.ReadyCondition, "False WorkspaceFailed")
	h.Eventually(func(g Gomega) {
		mirror := objecttest.Condition(get(h, "demo", emptyCluster()), clusterv1.ClusterInfrastructureReadyCondition)
		g.Expect(objecttest.Text(mirror)).To(HavePrefix("False WorkspaceFailed"))
	}, testTimeout, pollInterval).Should(Succeed(), "Cluster API mirrors Ready")
	waitCondition(h, "demo", emptyControlPlane(), controlplanev1.AvailableCondition, "True")
	waitCondition(h, "demo", emptyCluster(), clusterv1.ClusterControlPlaneAvailableCondition, "True")
	l.brokenVPC = h.snapshotCluster("demo")

	setModule(h, "vpc", vpcModule)
	setModule(h, "control-plane", controlPlaneModule)
	change(h, "demo", emptyInfra(), func(c *infrav1.CAPTCluster) { c.Spec.AdditionalTags = map[string]string{"team": "a"} })
	change(h, "demo", emptyControlPlane(), func(c *controlplanev1.CAPTControlPlane) { c.Spec.AdditionalTags = map[string]string{"team": "b"} })
	h.waitReady("demo")
	l.changed = h.snapshotCluster("demo")

	before := get(h, "demo-kubeconfig", &corev1.Secret{})
	h.delete(before)
	h.Eventually(func(g Gomega) {
		l.restored = &corev1.Secret{}
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(before), l.restored)).To(Succeed())
		g.Expect(l.restored.UID).NotTo(Equal(before.UID))
	}, testTimeout, pollInterval).Should(Succeed())
	h.waitReady("demo")

	h.delete(get(h, "demo", emptyCluster()))
	h.waitDeleted(get(h, "demo", emptyCluster()))
	return l
}}

func setModule(h *harness, name, module string) {
	change(h, name, &infrav1.WorkspaceTemplate{}, func(t *infrav1.WorkspaceTemplate) { t.Spec.Template.Spec.ForProvider.Module = module })
}

// external are CAPTClusters that another system manages, by label and by annotation.
type external struct {
	*harness
	names []string
	// before are the objects after Cluster API had observed them.
	before map[string]*infrav1.CAPTCluster
}

// managedElsewhere triggers all watches of the controller for CAPTClusters that it
// must ignore, and waits until it has reconciled another one.
var managedElsewhere = scenario[external]{run: func(h *harness) external {
	e := external{harness: h, names: []string{"labelled", "annotated"}, before: map[string]*infrav1.CAPTCluster{}}
	h.create(h.templates()...)
	for _, name := range e.names {
		infra := newInfra(name)
		mark := map[string]string{clusterv1.ManagedByAnnotation: "another-system"}
		if name == "labelled" {
			infra.Labels = mark
		} else {
			infra.Annotations = mark
		}
		h.create(infra, newCluster(name))
		h.Eventually(func(g Gomega) {
			e.before[name] = get(h, name, emptyInfra())
			g.Expect(e.before[name].OwnerReferences).NotTo(BeEmpty())
			g.Expect(e.before[name].Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, name))
		}, testTimeout, pollInterval).Should(Succeed(), "Cluster API has set the owner")
		change(h, name, emptyCluster(), func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"wake": "up"} })
	}
	setModule(h, "vpc", vpcModule+"\n")
	h.create(newInfra("ours"), newCluster("ours"))
	waitCondition(h, "ours", emptyInfra(), infrav1.ReadyCondition, "True")
	return e
}}

// userEndpoint is a cluster whose endpoint a user has set on the CAPTCluster,
// for a control plane of another provider.
var userEndpoint = scenario[*harness]{run: func(h *harness) *harness {
	infra, cluster := newInfra("demo"), newCluster("demo")
	infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	h.create(h.templates()...)
	h.create(cluster, infra)
	h.Eventually(func(g Gomega) {
		g.Expect(get(h, "demo", emptyCluster()).Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
	}, testTimeout, pollInterval).Should(Succeed())
	return h
}}

// endpointOf returns the endpoint of the environment's API server.
func (h *harness) endpointOf() clusterv1.APIEndpoint {
	address, err := url.Parse(h.env.Config.Host)
	if err == nil && address.Host == "" {
		address, err = url.Parse("https://" + h.env.Config.Host)
	}
	h.Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(address.Port(), 10, 32)
	h.Expect(err).NotTo(HaveOccurred())
	return clusterv1.APIEndpoint{Host: address.Hostname(), Port: int32(port)}
}

// reportsReadyAlways holds when every version of an object with a status has the
// condition Ready: False at first, then True, and with reason Deleting at the end.
func reportsReadyAlways[T objecttest.Object](c *check, history []T) {
	var stages []string
	for _, version := range history {
		ready := objecttest.Condition(version, clusterv1.ReadyCondition)
		if len(version.GetConditions()) > 0 {
			c.Expect(string(ready.Status)).To(BeElementOf("True", "False", "Unknown"), "%v", version.GetConditions())
		}
		stage := string(ready.Status)
		if ready.Reason == clusterv1.DeletingReason {
			stage = ready.Reason
		}
		if len(stages) == 0 || stages[len(stages)-1] != stage {
			stages = append(stages, stage)
		}
	}
	c.Expect(stages).To(ContainElements("False", "True"), "the values of Ready")
	if last := history[len(history)-1]; !last.GetDeletionTimestamp().IsZero() {
		c.Expect(stages[len(stages)-1]).To(Equal(clusterv1.DeletingReason), "an object with finalizers reports its deletion")
	}
}

// isNeverReset holds when a flag stays true once it is true, in every recorded object
// of the kind.
func isNeverReset[T client.Object](c *check, h *harness, empty func() T, flag func(T) *bool) {
	objects := 0
	for key, history := range historiesOf(c.on(h), empty) {
		set := false
		for _, version := range history {
			current := isTrue(flag(version))
			c.Expect(set && !current).To(BeFalse(), "the flag of %s was reset", key)
			set = set || current
		}
		if set {
			objects++
		}
	}
	c.Expect(objects).To(BeNumerically(">", 0))
}

func isTrue(b *bool) bool { return b != nil && *b }

// hasConditions holds when the schema of the conditions is that of Kubernetes, and
// the conditions of an object have all fields that Cluster API reads.
func hasConditions(c *check, obj objecttest.Object) {
	list, _ := lookup(c.schemaOf(c.subject.kind), "status.conditions")
	c.Expect(list).NotTo(BeNil())
	c.Expect(list.XListType).To(HaveValue(Equal("map")))
	c.Expect(list.XListMapKeys).To(ConsistOf("type"))
	for name, of := range map[string]string{
		"type": "string", "status": "string", "reason": "string", "message": "string",
		"lastTransitionTime": "string", "observedGeneration": "integer",
	} {
		c.Expect(list.Items.Schema.Properties[name].Type).To(Equal(of), name)
	}
	c.Expect(obj.GetConditions()).NotTo(BeEmpty())
	for _, condition := range obj.GetConditions() {
		c.Expect(condition.Type).NotTo(BeEmpty())
		c.Expect(condition.Status).To(BeElementOf(metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown), condition.Type)
		c.Expect(condition.Reason).NotTo(BeEmpty(), condition.Type)
		c.Expect(condition.LastTransitionTime.Time).To(BeTemporally("~", time.Now(), time.Hour), condition.Type)
		c.Expect(condition.ObservedGeneration).To(BeNumerically(">", 0), condition.Type)
		c.Expect(condition.ObservedGeneration).To(BeNumerically("<=", obj.GetGeneration()), condition.Type)
	}
}

// mirrors waits until Cluster API has copied a condition of an object.
func mirrors(c *check, h *harness, of objecttest.Object, kind string, in objecttest.Object, as string) {
	c.Eventually(func(g Gomega) {
		ours, theirs := objecttest.Condition(h.fresh(of), kind), objecttest.Condition(h.fresh(in), as)
		g.Expect(objecttest.Text(theirs)).To(Equal(objecttest.Text(ours)), "%s is %s", as, kind)
	}, testTimeout, pollInterval).Should(Succeed())
}
