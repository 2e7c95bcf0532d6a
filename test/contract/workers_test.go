package contract

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// workerHistory contains snapshots of a Machine and a MachinePool whose nodes join, and
// which fail, change, scale and are deleted.
type workerHistory struct {
	*harness
	working, failing, scaled workerSnapshot
	// restored is the bootstrap Secret of the Machine after it was deleted.
	restored *corev1.Secret
}

// workerSnapshot contains the objects of workers at one point in time.
type workerSnapshot struct {
	machine     *clusterv1.Machine
	captMachine *infrav1.CAPTMachine
	instance    *infrav1.WorkspaceTemplateApply
	config      *bootstrapv1.CAPTBootstrapConfig
	data        *corev1.Secret

	pool       *clusterv1.MachinePool
	captPool   *infrav1.CAPTMachinePool
	group      *infrav1.WorkspaceTemplateApply
	poolConfig *bootstrapv1.CAPTBootstrapConfig
	nodes      map[string]*corev1.Node
}

func (h *harness) snapshotWorkers() workerSnapshot {
	s := workerSnapshot{
		machine: get(h, "worker", &clusterv1.Machine{}), captMachine: get(h, "worker", emptyMachine()),
		instance: get(h, "worker", &infrav1.WorkspaceTemplateApply{}), config: get(h, "worker", emptyConfig()),
		data: get(h, "worker", &corev1.Secret{}),
		pool: get(h, "pool", &clusterv1.MachinePool{}), captPool: get(h, "pool", emptyPool()),
		group: get(h, "pool", &infrav1.WorkspaceTemplateApply{}), poolConfig: get(h, "pool", emptyConfig()),
		nodes: map[string]*corev1.Node{},
	}
	var nodes corev1.NodeList
	h.Expect(h.env.Client.List(h.ctx, &nodes)).To(Succeed())
	for i := range nodes.Items {
		s.nodes[nodes.Items[i].Spec.ProviderID] = &nodes.Items[i]
	}
	return s
}

// join creates a ready node, as a kubelet would.
func (h *harness) join(providerID string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: h.namespace + "-"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	h.Expect(h.env.Client.Create(h.ctx, node)).To(Succeed())
	ready := node.DeepCopy()
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	h.Expect(h.env.Client.Status().Patch(h.ctx, ready, client.MergeFrom(node))).To(Succeed())
}

// createWorkers creates a Machine and a MachinePool in a zone, with the objects that
// they refer to.
func (h *harness) createWorkers(cluster string) {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: machineSpec(cluster, "worker", "CAPTMachine")}
	machine.Spec.FailureDomain = "zone-a"
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Spec: clusterv1.MachinePoolSpec{
		ClusterName: cluster, Replicas: new(int32(2)), Template: clusterv1.MachineTemplateSpec{Spec: machineSpec(cluster, "pool", "CAPTMachinePool")},
	}}
	h.create(newMachine("worker"), newConfig("worker"), machine, newPool("pool"), newConfig("pool"), pool)
}

var workers = scenario[workerHistory]{run: func(h *harness) workerHistory {
	c := workerHistory{harness: h}
	h.create(h.templates()...)
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.createWorkers("demo")
	h.join(waitCondition(h, "worker", emptyMachine(), infrav1.ReadyCondition, "True").Spec.ProviderID)
	h.joinAll(2)
	h.Eventually(func(g Gomega) {
		g.Expect(get(h, "worker", &clusterv1.Machine{}).Status.NodeRef.IsDefined()).To(BeTrue(), "Cluster API knows the node of the Machine")
		g.Expect(get(h, "pool", &clusterv1.MachinePool{}).Status.NodeRefs).To(HaveLen(2), "Cluster API knows the nodes of the MachinePool")
		waitCondition(h, "pool", emptyPool(), infrav1.ReadyCondition, "True")
	}, testTimeout, pollInterval).Should(Succeed())
	c.working = h.snapshotWorkers()

	setModule(h, "machine", machineModule+broken)
	setModule(h, "pool", poolModule+broken)
	waitCondition(h, "worker", emptyMachine(), infrav1.ReadyCondition, "False WorkspaceFailed")
	waitCondition(h, "pool", emptyPool(), infrav1.ReadyCondition, "False WorkspaceFailed")
	h.Eventually(func(g Gomega) {
		mirror := objecttest.Condition(get(h, "worker", &clusterv1.Machine{}), clusterv1.MachineInfrastructureReadyCondition)
		g.Expect(objecttest.Text(mirror)).To(HavePrefix("False WorkspaceFailed"))
	}, testTimeout, pollInterval).Should(Succeed())
	c.failing = h.snapshotWorkers()

	setModule(h, "machine", machineModule)
	setModule(h, "pool", poolModule)
	change(h, "worker", emptyMachine(), func(m *infrav1.CAPTMachine) { m.Spec.Tags = map[string]string{"team": "a"} })
	change(h, "pool", emptyPool(), func(p *infrav1.CAPTMachinePool) { p.Spec.Tags = map[string]string{"team": "b"} })
	change(h, "pool", &clusterv1.MachinePool{}, func(p *clusterv1.MachinePool) { p.Spec.Replicas = new(int32(3)) })
	h.joinAll(3)
	waitCondition(h, "worker", emptyMachine(), infrav1.ReadyCondition, "True")
	waitCondition(h, "pool", emptyPool(), infrav1.ReadyCondition, "True")
	h.Eventually(func(g Gomega) {
		g.Expect(get(h, "pool", &clusterv1.MachinePool{}).Status.Replicas).To(HaveValue(BeEquivalentTo(3)))
	}, testTimeout, pollInterval).Should(Succeed())
	c.scaled = h.snapshotWorkers()

	h.delete(c.scaled.data)
	h.Eventually(func(g Gomega) {
		c.restored = &corev1.Secret{}
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(c.scaled.data), c.restored)).To(Succeed())
		g.Expect(c.restored.UID).NotTo(Equal(c.scaled.data.UID))
	}, testTimeout, pollInterval).Should(Succeed())

	h.delete(c.scaled.machine)
	h.delete(c.scaled.pool)
	for _, obj := range []objecttest.Object{c.scaled.machine, c.scaled.captMachine, c.scaled.config, c.scaled.pool, c.scaled.captPool, c.scaled.poolConfig} {
		deleted, ok := obj.DeepCopyObject().(objecttest.Object)
		h.Expect(ok).To(BeTrue())
		h.waitDeleted(deleted)
	}
	return c
}}

// joinAll waits for count instances of the pool, and creates a node for each instance
// that has none.
func (h *harness) joinAll(count int) {
	var listed []string
	h.Eventually(func(g Gomega) {
		listed = get(h, "pool", emptyPool()).Spec.ProviderIDList
		g.Expect(listed).To(HaveLen(count))
	}, testTimeout, pollInterval).Should(Succeed())
	var nodes corev1.NodeList
	h.Expect(h.env.Client.List(h.ctx, &nodes)).To(Succeed())
	existing := map[string]bool{}
	for i := range nodes.Items {
		existing[nodes.Items[i].Spec.ProviderID] = true
	}
	for _, id := range listed {
		if !existing[id] {
			h.join(id)
		}
	}
}

// unprovisioned are the workers of a Cluster that never gets its infrastructure.
type unprovisioned struct {
	*harness
	captMachine *infrav1.CAPTMachine
	// blocked is a config whose Secret has another owner, and machine its Machine.
	blocked *bootstrapv1.CAPTBootstrapConfig
	machine *clusterv1.Machine
	// formatted is the Secret of a config with a format.
	formatted *corev1.Secret
}

var withoutInfrastructure = scenario[unprovisioned]{run: func(h *harness) unprovisioned {
	i := unprovisioned{harness: h}
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "blocked"}, StringData: map[string]string{"mine": "yes"}})
	formatted := newConfig("formatted")
	formatted.Spec.Format = bootstrapv1.FormatCloudConfig
	for _, config := range []*bootstrapv1.CAPTBootstrapConfig{newConfig("early"), newConfig("blocked"), formatted} {
		h.create(newMachine(config.Name), config,
			&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: config.Name}, Spec: machineSpec("demo", config.Name, "CAPTMachine")})
	}
	i.captMachine = waitCondition(h, "early", emptyMachine(), infrav1.ReadyCondition, "False "+infrav1.WaitingForInfrastructureReason)
	i.blocked = waitCondition(h, "blocked", emptyConfig(), infrav1.ReadyCondition, "False "+bootstrapv1.SecretConflictReason)
	h.Eventually(func(g Gomega) {
		i.machine = get(h, "blocked", &clusterv1.Machine{})
		g.Expect(objecttest.Text(objecttest.Condition(i.machine, clusterv1.MachineBootstrapConfigReadyCondition))).To(HavePrefix("False " + bootstrapv1.SecretConflictReason))
	}, testTimeout, pollInterval).Should(Succeed())
	waitCondition(h, "formatted", emptyConfig(), infrav1.ReadyCondition, "True")
	i.formatted = get(h, "formatted", &corev1.Secret{})

	h.delete(get(h, "early", &clusterv1.Machine{}))
	h.waitDeleted(i.captMachine.DeepCopy())
	return i
}}
