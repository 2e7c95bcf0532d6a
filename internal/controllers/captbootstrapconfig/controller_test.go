package captbootstrapconfig

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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

// harness is a namespace with a ready cluster.
type harness struct{ *nodestest.Harness }

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{Harness: nodestest.NewHarness(t, env)}
	h.MakeReady()
	return h
}

func (h *harness) config(spec bootstrapv1.CAPTBootstrapConfigSpec) *bootstrapv1.CAPTBootstrapConfig {
	h.T.Helper()
	config := &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "worker"}, Spec: spec}
	h.Create(config)
	return config
}

func (h *harness) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "worker"}}
}

// machineSpec returns the spec of a Machine or of the template of a MachinePool.
func machineSpec(infra string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: "production", Version: nodestest.Version,
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "CAPTBootstrapConfig", Name: "worker",
		}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infra, Name: "worker"},
	}
}

func (h *harness) machine() *clusterv1.Machine {
	h.T.Helper()
	ref := infrav1.TemplateReference{Name: "node"}
	h.Create(&infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "worker"}, Spec: infrav1.CAPTMachineSpec{WorkspaceTemplateRef: ref}})
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "worker"}, Spec: machineSpec("CAPTMachine")}
	h.Create(machine)
	return machine
}

func (h *harness) machinePool() *clusterv1.MachinePool {
	h.T.Helper()
	ref := infrav1.TemplateReference{Name: "group"}
	h.Create(&infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "worker"}, Spec: infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: ref}})
	pool := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "worker"},
		Spec:       clusterv1.MachinePoolSpec{ClusterName: "production", Template: clusterv1.MachineTemplateSpec{Spec: machineSpec("CAPTMachinePool")}},
	}
	h.Create(pool)
	return pool
}

func TestConfig_createsDataOfMachine(t *testing.T) {
	h := newHarness(t)
	config := h.config(bootstrapv1.CAPTBootstrapConfigSpec{UserData: "#!/bin/sh\necho hello\n"})
	h.WaitForCondition(config, infrav1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.WaitingForOwnerReason)

	machine := h.machine()
	h.WaitForCondition(config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.WaitForCondition(config, bootstrapv1.DataSecretAvailableCondition, metav1.ConditionTrue, "Available")
	h.Expect(config.Status.DataSecretName).To(Equal("worker"))
	h.Expect(config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
	secret := h.secret()
	h.WaitFor(secret, "the Secret should have the data", func(g Gomega) {
		g.Expect(secret.Data).To(Equal(map[string][]byte{"value": []byte("#!/bin/sh\necho hello\n")}))
		g.Expect(secret.Type).To(Equal(clusterv1.ClusterSecretType))
		g.Expect(secret.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"))
		g.Expect(metav1.IsControlledBy(secret, config)).To(BeTrue())
	})
	h.WaitFor(machine, "Cluster API should have the name of the Secret", func(g Gomega) {
		g.Expect(machine.Spec.Bootstrap.DataSecretName).To(HaveValue(Equal("worker")))
		g.Expect(machine.Status.Initialization.BootstrapDataSecretCreated).To(HaveValue(BeTrue()))
	})

	h.Update(config, func() { config.Spec.UserData = "#!/bin/sh\necho late\n" })
	h.WaitFor(config, "the change should be observed", func(g Gomega) {
		g.Expect(config.Status.ObservedGeneration).To(Equal(config.Generation))
	})
	h.Get(secret)
	h.Expect(secret.Data["value"]).To(ContainSubstring("hello"), "the data of a Machine should not change")

	uid := secret.UID
	h.Delete(secret)
	h.WaitFor(secret, "a deleted Secret should be created again", func(g Gomega) { g.Expect(secret.UID).NotTo(Equal(uid)) })
}

func TestConfig_createsDataOfMachinePool(t *testing.T) {
	h := newHarness(t)
	config := h.config(bootstrapv1.CAPTBootstrapConfigSpec{})
	pool := h.machinePool()
	h.WaitForCondition(config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	secret := h.secret()
	h.WaitFor(secret, "the data should be empty", func(g Gomega) { g.Expect(secret.Data).To(HaveKeyWithValue("value", BeEmpty())) })
	h.WaitFor(pool, "Cluster API should have the name of the Secret", func(g Gomega) {
		g.Expect(pool.Spec.Template.Spec.Bootstrap.DataSecretName).To(HaveValue(Equal("worker")))
	})

	h.Update(config, func() { config.Spec.UserData, config.Spec.Format = "{}", bootstrapv1.FormatIgnition })
	h.WaitFor(secret, "later nodes should get the new data", func(g Gomega) {
		g.Expect(secret.Data).To(Equal(map[string][]byte{"value": []byte("{}"), "format": []byte("ignition")}))
	})
}

func TestConfig_doesNotTouchSecretsOfOthers(t *testing.T) {
	h := newHarness(t)
	secret := h.secret()
	secret.StringData = map[string]string{"value": "mine"}
	h.Create(secret)
	config := h.config(bootstrapv1.CAPTBootstrapConfigSpec{UserData: "x"})
	h.machine()
	h.WaitForCondition(config, bootstrapv1.DataSecretAvailableCondition, metav1.ConditionFalse, bootstrapv1.SecretConflictReason)
	h.Get(secret)
	h.Expect(secret.Data).To(HaveKeyWithValue("value", []byte("mine")))
	h.Expect(config.Status.DataSecretName).To(BeEmpty())
}

// A Secret of this name would be taken for the kubeconfig of a cluster.
func TestConfig_createsNoSecretOfClusters(t *testing.T) {
	h := newHarness(t)
	machine := h.machine()
	for _, name := range []string{"victim-kubeconfig", "tfstate-default-victim-ws"} {
		config := &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "production"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID, Controller: new(true)}},
		}, Spec: bootstrapv1.CAPTBootstrapConfigSpec{UserData: "x"}}
		h.Create(config)
		h.WaitForCondition(config, bootstrapv1.DataSecretAvailableCondition, metav1.ConditionFalse, infrav1.ReservedNameReason)
		h.Expect(apierrors.IsNotFound(h.Client.Get(t.Context(), client.ObjectKeyFromObject(config), &corev1.Secret{}))).To(BeTrue())
	}
}

func TestConfig_doesNothingWhilePaused(t *testing.T) {
	h := newHarness(t)
	config := &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.Namespace, Name: "worker", Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
	}}
	h.Create(config)
	h.machine()
	h.WaitForCondition(config, infrav1.PausedCondition, metav1.ConditionTrue, "Paused")
	h.WaitFor(config, "Cluster API should own it", func(g Gomega) { g.Expect(config.OwnerReferences).NotTo(BeEmpty()) })
	h.Expect(config.Status.DataSecretName).To(BeEmpty())

	h.Update(config, func() { config.Annotations = nil })
	h.WaitForCondition(config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
}

func TestOwnerKind(t *testing.T) {
	for name, c := range map[string]struct{ apiVersion, kind, want string }{
		"Machine":       {"cluster.x-k8s.io/v1beta2", "Machine", "Machine"},
		"MachinePool":   {"cluster.x-k8s.io/v1beta1", "MachinePool", "MachinePool"},
		"MachineSet":    {"cluster.x-k8s.io/v1beta2", "MachineSet", ""},
		"another group": {"example.com/v1", "Machine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ownerKind([]metav1.OwnerReference{{APIVersion: c.apiVersion, Kind: c.kind}})).To(Equal(c.want))
		})
	}
}
