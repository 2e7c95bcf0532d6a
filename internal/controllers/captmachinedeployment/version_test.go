package captmachinedeployment

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// newControlPlane creates a Cluster named production with a control plane, and the
// template of its machines.
func newControlPlane(t *testing.T, version string) *controlplanev1.CAPTControlPlane {
	t.Helper()
	g := NewWithT(t)
	namespace := env.Namespace(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "node"}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: `variable "kubernetes_version" {}`}
	create(t, template)
	template.Status.Variables = []infrav1.DeclaredVariable{{Name: "kubernetes_version"}}
	conditions.Set(template, metav1.Condition{
		Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleInspectedReason, ObservedGeneration: template.Generation,
	})
	g.Expect(env.Client.Status().Update(t.Context(), template)).To(Succeed())
	controlPlane := create(t, &controlplanev1.CAPTControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "production", Labels: map[string]string{clusterv1.ClusterNameLabel: "production"}},
		Spec:       controlplanev1.CAPTControlPlaneSpec{Version: version, WorkspaceTemplateRef: infrav1.TemplateReference{Name: "eks"}},
	})
	create(t, &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "production"},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "production"},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "production"},
		},
	})
	serve(t, controlPlane, version)
	return controlPlane
}

// serve sets the version that the API server serves.
func serve(t *testing.T, controlPlane *controlplanev1.CAPTControlPlane, version string) {
	t.Helper()
	before := controlPlane.DeepCopy()
	controlPlane.Status.Version = version
	NewWithT(t).Expect(env.Client.Status().Patch(t.Context(), controlPlane, client.MergeFrom(before))).To(Succeed())
}

func versionOfMachines(t *testing.T, namespace string) []string {
	t.Helper()
	var versions []string
	for _, m := range alive(t, namespace) {
		versions = append(versions, m.Spec.Version)
	}
	return versions
}

func TestDeployment_followsTheVersionOfTheControlPlane(t *testing.T) {
	g := NewWithT(t)
	controlPlane := newControlPlane(t, "v1.33.2")
	d := create(t, deploymentIn(controlPlane.Namespace, 2, rolling(1, 0)))
	simulateMachines(t, d.Namespace)
	waitRolledOut(t, d)
	g.Expect(versionOfMachines(t, d.Namespace)).To(Equal([]string{"1.33", "1.33"}))
	tester(t).WaitForCondition(d, infrav1.VersionCurrentCondition, metav1.ConditionTrue, infrav1.VersionCurrentCondition)

	serve(t, controlPlane, "v1.34.1")
	tester(t).WaitFor(d, "the machines should be replaced", func(g Gomega) { g.Expect(d.Status.Revision).To(BeEquivalentTo(2)) })
	waitRolledOut(t, d)
	g.Expect(versionOfMachines(t, d.Namespace)).To(Equal([]string{"1.34", "1.34"}))
	tester(t).WaitForCondition(d, infrav1.VersionCurrentCondition, metav1.ConditionTrue, infrav1.VersionCurrentCondition)
	g.Expect(d.Spec.Template.Spec.Version).To(BeEmpty(), "the template of the user should not change")

	update(t, d, instanceType("m7g.xlarge"))
	waitRolledOut(t, d)
	serve(t, controlPlane, "v1.35.0")
	tester(t).WaitFor(d, "the machines should be replaced", func(g Gomega) { g.Expect(d.Status.Revision).To(BeEquivalentTo(4)) })
	waitRolledOut(t, d)
	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.RollbackTo = new(int64(0)) })
	tester(t).WaitFor(d, "spec.rollbackTo should be cleared", func(g Gomega) {
		g.Expect(d.Spec.RollbackTo).To(BeNil())
		g.Expect(d.Spec.Template.Spec.InstanceType).To(Equal("m7g.large"), "the revision before has the same template and another version")
	})
	waitRolledOut(t, d)
	g.Expect(versionOfMachines(t, d.Namespace)).To(Equal([]string{"1.35", "1.35"}), "a rollback should not change the version")
}

func TestDeployment_keepsMachinesWithoutARecordedVersion(t *testing.T) {
	g := NewWithT(t)
	controlPlane := newControlPlane(t, "v1.34.1")
	d := deploymentIn(controlPlane.Namespace, 1)
	d.Labels[clusterv1.WatchLabel] = "later"
	create(t, d)
	// The version of the control plane was not known when they were created.
	set := &infrav1.CAPTMachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: "workers-1", Labels: map[string]string{"pool": "workers", clusterv1.WatchLabel: byManager},
			Annotations: map[string]string{infrav1.RevisionAnnotation: "1"},
		},
		Spec: infrav1.CAPTMachineSetSpec{ClusterName: "production", Replicas: new(int32(1)), Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
	create(t, set)
	var old *infrav1.CAPTMachine
	g.Eventually(func(g Gomega) {
		machines := alive(t, d.Namespace)
		g.Expect(machines).To(HaveLen(1))
		old = machines[0]
	}).Should(Succeed())
	update(t, old, func(m *infrav1.CAPTMachine) { m.Spec.ProviderID = "test:///1" })
	old.Status.Version = "v1.33.5"
	g.Expect(setReady(t.Context(), old, metav1.ConditionTrue)).To(Succeed())

	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Labels[clusterv1.WatchLabel] = byManager })
	waitRolledOut(t, d)
	tester(t).WaitForCondition(d, infrav1.VersionCurrentCondition, metav1.ConditionFalse, infrav1.VersionBehindReason, old.Name, "1.34", "versionPolicy: Follow")
	g.Expect(alive(t, d.Namespace)).To(ConsistOf(HaveField("UID", old.UID)), "nothing should be replaced")

	simulateMachines(t, d.Namespace)
	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.VersionPolicy = infrav1.VersionPolicyFollow })
	tester(t).WaitForCondition(d, infrav1.VersionCurrentCondition, metav1.ConditionTrue, infrav1.VersionCurrentCondition)
	waitRolledOut(t, d)
	g.Expect(versionOfMachines(t, d.Namespace)).To(Equal([]string{"1.34"}))
}
