package captbootstrapconfig

import (
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithClusterAPI(), testenv.WithManager(func(mgr ctrl.Manager) error {
		return (&Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capt-bootstrap"),
		}).SetupWithManager(mgr, controller.Options{})
	})))
}

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

const tick = 50 * time.Millisecond

type world struct {
	*WithT
	t         *testing.T
	namespace string
	cluster   *nodestest.Cluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{WithT: NewWithT(t), t: t, namespace: env.Namespace(t)}
	kubeconfig, err := os.ReadFile(env.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.cluster, err = nodestest.NewCluster(t.Context(), env.Client, w.namespace, "production", kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.cluster.Provision(t.Context())).To(Succeed())
	w.Expect(w.cluster.Initialize(t.Context())).To(Succeed())
	return w
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	w.Expect(env.Client.Create(w.t.Context(), obj)).To(Succeed())
}

func (w *world) config(spec bootstrapv1.CAPTBootstrapConfigSpec) *bootstrapv1.CAPTBootstrapConfig {
	w.t.Helper()
	config := &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "worker"}, Spec: spec}
	w.create(config)
	return config
}

func (w *world) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "worker"}}
}

// machineSpec is that of a Machine, or of those of a MachinePool.
func machineSpec(infra string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: "production", Version: nodestest.Version,
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "CAPTBootstrapConfig", Name: "worker",
		}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infra, Name: "worker"},
	}
}

func (w *world) machine() *clusterv1.Machine {
	w.t.Helper()
	ref := infrav1.TemplateReference{Name: "node"}
	w.create(&infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "worker"}, Spec: infrav1.CAPTMachineSpec{WorkspaceTemplateRef: ref}})
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "worker"}, Spec: machineSpec("CAPTMachine")}
	w.create(machine)
	return machine
}

func (w *world) machinePool() *clusterv1.MachinePool {
	w.t.Helper()
	ref := infrav1.TemplateReference{Name: "group"}
	w.create(&infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "worker"}, Spec: infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: ref}})
	pool := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "worker"},
		Spec:       clusterv1.MachinePoolSpec{ClusterName: "production", Template: clusterv1.MachineTemplateSpec{Spec: machineSpec("CAPTMachinePool")}},
	}
	w.create(pool)
	return pool
}

func (w *world) eventually(obj client.Object, why string, check func(g Gomega)) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		check(g)
	}, patience, tick).Should(Succeed(), why)
}

func (w *world) condition(config *bootstrapv1.CAPTBootstrapConfig, condition string, status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	w.eventually(config, fmt.Sprintf("%s is to be %s for %s", condition, status, reason), func(g Gomega) {
		c := conditions.Get(config, condition)
		g.Expect(c).NotTo(BeNil(), "%v", config.Status.Conditions)
		g.Expect(c.Status).To(Equal(status), "%s: %s", c.Reason, c.Message)
		g.Expect(c.Reason).To(Equal(reason), "%s", c.Message)
	})
}

// change writes a config, whoever else does.
func (w *world) change(config *bootstrapv1.CAPTBootstrapConfig, change func()) {
	w.t.Helper()
	w.eventually(config, "nobody else writes all the time", func(g Gomega) {
		change()
		g.Expect(env.Client.Update(w.t.Context(), config)).To(Succeed())
	})
}

func TestConfig_makesTheDataOfAMachine(t *testing.T) {
	w := newWorld(t)
	config := w.config(bootstrapv1.CAPTBootstrapConfigSpec{UserData: "#!/bin/sh\necho hello\n"})
	w.condition(config, infrav1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.WaitingForOwnerReason)

	machine := w.machine()
	w.condition(config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	w.condition(config, bootstrapv1.DataSecretAvailableCondition, metav1.ConditionTrue, "Available")
	w.Expect(config.Status.DataSecretName).To(Equal("worker"))
	w.Expect(config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
	secret := w.secret()
	w.eventually(secret, "the data are there", func(g Gomega) {
		g.Expect(secret.Data).To(Equal(map[string][]byte{"value": []byte("#!/bin/sh\necho hello\n")}))
		g.Expect(secret.Type).To(Equal(clusterv1.ClusterSecretType))
		g.Expect(secret.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"))
		g.Expect(metav1.IsControlledBy(secret, config)).To(BeTrue())
	})
	w.eventually(machine, "Cluster API is told", func(g Gomega) {
		g.Expect(machine.Spec.Bootstrap.DataSecretName).To(HaveValue(Equal("worker")))
		g.Expect(machine.Status.Initialization.BootstrapDataSecretCreated).To(HaveValue(BeTrue()))
	})

	w.change(config, func() { config.Spec.UserData = "#!/bin/sh\necho late\n" })
	w.eventually(config, "the change was looked at", func(g Gomega) {
		g.Expect(config.Status.ObservedGeneration).To(Equal(config.Generation))
	})
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	w.Expect(secret.Data["value"]).To(ContainSubstring("hello"), "what a node has read does not change")

	uid := secret.UID
	w.Expect(env.Client.Delete(t.Context(), secret)).To(Succeed())
	w.eventually(secret, "lost data are made anew", func(g Gomega) { g.Expect(secret.UID).NotTo(Equal(uid)) })
}

func TestConfig_makesTheDataOfAMachinePool(t *testing.T) {
	w := newWorld(t)
	config := w.config(bootstrapv1.CAPTBootstrapConfigSpec{})
	pool := w.machinePool()
	w.condition(config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	secret := w.secret()
	w.eventually(secret, "the data are empty", func(g Gomega) { g.Expect(secret.Data).To(HaveKeyWithValue("value", BeEmpty())) })
	w.eventually(pool, "Cluster API is told", func(g Gomega) {
		g.Expect(pool.Spec.Template.Spec.Bootstrap.DataSecretName).To(HaveValue(Equal("worker")))
	})

	w.change(config, func() { config.Spec.UserData, config.Spec.Format = "{}", bootstrapv1.FormatIgnition })
	w.eventually(secret, "nodes to come get the new data", func(g Gomega) {
		g.Expect(secret.Data).To(Equal(map[string][]byte{"value": []byte("{}"), "format": []byte("ignition")}))
	})
}

func TestConfig_leavesTheSecretsOfOthersAlone(t *testing.T) {
	w := newWorld(t)
	secret := w.secret()
	secret.StringData = map[string]string{"value": "mine"}
	w.create(secret)
	config := w.config(bootstrapv1.CAPTBootstrapConfigSpec{UserData: "x"})
	w.machine()
	w.condition(config, bootstrapv1.DataSecretAvailableCondition, metav1.ConditionFalse, bootstrapv1.SecretConflictReason)
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	w.Expect(secret.Data).To(HaveKeyWithValue("value", []byte("mine")))
	w.Expect(config.Status.DataSecretName).To(BeEmpty())
}

func TestConfig_isLeftAloneWhilePaused(t *testing.T) {
	w := newWorld(t)
	config := &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: "worker", Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
	}}
	w.create(config)
	w.machine()
	w.condition(config, infrav1.PausedCondition, metav1.ConditionTrue, "Paused")
	w.eventually(config, "Cluster API has taken it over", func(g Gomega) { g.Expect(config.OwnerReferences).NotTo(BeEmpty()) })
	w.Expect(config.Status.DataSecretName).To(BeEmpty())

	w.change(config, func() { config.Annotations = nil })
	w.condition(config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
}

func TestOwnerKind_isAMachineOrAMachinePool(t *testing.T) {
	for name, c := range map[string]struct{ apiVersion, kind, want string }{
		"a Machine":         {"cluster.x-k8s.io/v1beta2", "Machine", "Machine"},
		"a MachinePool":     {"cluster.x-k8s.io/v1beta1", "MachinePool", "MachinePool"},
		"a MachineSet":      {"cluster.x-k8s.io/v1beta2", "MachineSet", ""},
		"somebody's object": {"example.com/v1", "Machine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ownerKind([]metav1.OwnerReference{{APIVersion: c.apiVersion, Kind: c.kind}})).To(Equal(c.want))
		})
	}
}
