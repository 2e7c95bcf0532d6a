package tenancy

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/config/crd"
	"github.com/appthrust/capt/internal/testenv"
)

var infraGroup = infrav1.GroupVersion.Group

// reference refers to an object of CAPT.
func reference(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infraGroup, Kind: kind, Name: name}
}

// clusterWith returns a Cluster with an infrastructure.
func clusterWith(namespace, name string, infra clusterv1.ContractVersionedObjectReference) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: infra},
	}
}

// machineWith returns the spec of a Machine of the Cluster "plain".
func machineWith(infra, bootstrap clusterv1.ContractVersionedObjectReference) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{ClusterName: "plain", InfrastructureRef: infra, Bootstrap: clusterv1.Bootstrap{ConfigRef: bootstrap}}
}

func machineTemplate(infra, bootstrap clusterv1.ContractVersionedObjectReference) clusterv1.MachineTemplateSpec {
	return clusterv1.MachineTemplateSpec{Spec: machineWith(infra, bootstrap)}
}

// Cluster API has permissions for all kinds of a provider. It uses them for the objects that
// others name. The policies are not in force here.
func TestClusterAPI_deletesNothingOutsideOfTheContract(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	api := testenv.New(t, testenv.WithClusterAPI())
	ns := api.Namespace(t)
	rules := []infrav1.PolicyRule{{Name: "keep", Action: infrav1.PolicyDeny, Expression: `"delete" in resource.actions`, Message: "No"}}
	policy := func(name string) client.Object {
		return &infrav1.WorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: infrav1.WorkspacePolicySpec{Rules: rules}}
	}
	g.Expect(api.Client.Create(ctx, clusterWith(ns, "plain", reference("CAPTCluster", "none")))).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: ns, Name: "attack"}
	none := reference("CAPTMachine", "none")
	bootstrap := clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "CAPTBootstrapConfig", Name: "none"}
	pool := clusterWorkspacePolicy(ns, rules)

	for what, attack := range map[string]struct {
		victim client.Object
		owner  client.Object
	}{
		"infrastructureRef of a Cluster": {policy("a"), clusterWith(ns, "attack", reference("WorkspacePolicy", "a"))},
		"controlPlaneRef of a Cluster": {policy("b"), &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "attack-2"}, Spec: clusterv1.ClusterSpec{ControlPlaneRef: reference("WorkspacePolicy", "b")},
		}},
		"infrastructureRef of a Machine": {policy("c"), &clusterv1.Machine{ObjectMeta: meta, Spec: machineWith(reference("WorkspacePolicy", "c"), bootstrap)}},
		"configRef of a Machine": {policy("d"), &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "attack-2"}, Spec: machineWith(none, reference("WorkspacePolicy", "d")),
		}},
		// It deletes what it does not own.
		"configRef of a MachinePool": {pool, &clusterv1.MachinePool{ObjectMeta: meta, Spec: clusterv1.MachinePoolSpec{
			ClusterName: "plain", Template: machineTemplate(none, reference("ClusterWorkspacePolicy", pool.Name)),
		}}},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(api.Client.Create(ctx, attack.victim)).To(Succeed())
			g.Expect(api.Client.Create(ctx, attack.owner)).To(Succeed())
			observed(t, api, attack.owner, false)
			g.Expect(api.Client.Delete(ctx, attack.owner)).To(Succeed())
			observed(t, api, attack.owner, true)
			g.Expect(api.Client.Get(ctx, client.ObjectKeyFromObject(attack.victim), attack.victim)).To(Succeed())
			g.Expect(attack.victim.GetDeletionTimestamp()).To(BeNil())
			g.Expect(attack.victim.GetOwnerReferences()).To(BeEmpty())
		})
	}

	g.Expect(api.InstallRules(ctx)).To(Succeed())
	changed := &clusterv1.Cluster{}
	g.Expect(api.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "attack"}, changed)).To(Succeed())
	g.Expect(patched(api.Client, changed, func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} })).To(Succeed(), "an old reference does not hinder changes")
	refusesEarlierVersions(t, api, ns)
}

// refusesEarlierVersions expects that Cluster API's earlier version, in which the fields have
// other names, leads around no policy.
func refusesEarlierVersions(t *testing.T, api *testenv.Environment, ns string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(bind(t.Context(), api, ns, "user", rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"create"},
	})).To(Succeed())
	user, err := impersonate(api, "user")
	g.Expect(err).NotTo(HaveOccurred())
	for message, spec := range map[string]map[string]any{
		"spec.infrastructureRef must not name the WorkspacePolicy a": {
			"infrastructureRef": map[string]any{"apiVersion": infrav1.GroupVersion.String(), "kind": "WorkspacePolicy", "name": "a"},
		},
		"the ClusterClass prod is in the namespace default": {
			"topology": map[string]any{"class": "prod", "classNamespace": "default", "version": "v1.36.0"},
		},
	} {
		cluster := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": map[string]any{"namespace": ns, "name": "old"}, "spec": spec,
		}}
		g.Eventually(func() error { return user.Create(t.Context(), cluster.DeepCopy(), client.DryRunAll) }, testTimeout, 100*time.Millisecond).
			Should(MatchError(ContainSubstring(message)))
	}
}

func clusterWorkspacePolicy(name string, rules []infrav1.PolicyRule) *infrav1.ClusterWorkspacePolicy {
	return &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.ClusterWorkspacePolicySpec{Rules: rules}}
}

// observed waits until Cluster API has reconciled an object to the end: it writes the phase
// then. An object that is gone was reconciled, too.
func observed(t *testing.T, api *testenv.Environment, obj client.Object, deleting bool) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		err := api.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if deleting && client.IgnoreNotFound(err) == nil && err != nil {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		phase := ""
		switch o := obj.(type) {
		case *clusterv1.Cluster:
			phase = o.Status.Phase
		case *clusterv1.Machine:
			phase = o.Status.Phase
		case *clusterv1.MachinePool:
			phase = o.Status.Phase
		}
		g.Expect(phase).NotTo(BeEmpty())
		g.Expect(phase == "Deleting").To(Equal(deleting), phase)
		g.Expect(obj.GetFinalizers()).NotTo(BeEmpty())
	}, testTimeout, 100*time.Millisecond).Should(Succeed())
}

// kinds returns the kinds of CAPT.
func kinds(t *testing.T) []schema.GroupKind {
	t.Helper()
	definitions, err := crd.Definitions()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var all []schema.GroupKind
	for _, definition := range definitions {
		all = append(all, schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind})
	}
	return all
}

func remediation(r clusterv1.ContractVersionedObjectReference) clusterv1.MachineHealthCheckRemediationTemplateReference {
	return clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: r.APIGroup + "/v1beta1", Kind: r.Kind, Name: r.Name}
}

// A policy decides before Cluster API sees the reference, and says what to write.
func TestEditor_refersOnlyToKindsOfTheContract(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor := editor(t, ns)
	meta := metav1.ObjectMeta{Namespace: ns, GenerateName: "x-"}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	type ref = clusterv1.ContractVersionedObjectReference
	foreign := ref{APIGroup: infraGroup, Kind: "OtherThing", Name: "x"}
	topology := clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.0"}
	for field, f := range map[string]struct {
		accepted string
		object   func(ref) client.Object
	}{
		"Cluster spec.infrastructureRef": {"CAPTCluster", func(r ref) client.Object {
			return &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{InfrastructureRef: r}}
		}},
		"Cluster spec.controlPlaneRef": {"CAPTControlPlane", func(r ref) client.Object {
			return &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{ControlPlaneRef: r}}
		}},
		"Machine spec.infrastructureRef": {"CAPTMachine", func(r ref) client.Object {
			return &clusterv1.Machine{ObjectMeta: meta, Spec: machineWith(r, foreign)}
		}},
		"Machine spec.bootstrap.configRef": {"CAPTBootstrapConfig", func(r ref) client.Object {
			return &clusterv1.Machine{ObjectMeta: meta, Spec: machineWith(foreign, r)}
		}},
		"MachineDeployment spec.template.spec.infrastructureRef": {"CAPTMachineTemplate", func(r ref) client.Object {
			return &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{ClusterName: "plain", Selector: selector, Template: machineTemplate(r, foreign)}}
		}},
		"MachineDeployment spec.template.spec.bootstrap.configRef": {"CAPTBootstrapConfigTemplate", func(r ref) client.Object {
			return &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{ClusterName: "plain", Selector: selector, Template: machineTemplate(foreign, r)}}
		}},
		"MachinePool spec.template.spec.infrastructureRef": {"CAPTMachinePool", func(r ref) client.Object {
			return &clusterv1.MachinePool{ObjectMeta: meta, Spec: clusterv1.MachinePoolSpec{ClusterName: "plain", Template: machineTemplate(r, foreign)}}
		}},
		"MachinePool spec.template.spec.bootstrap.configRef": {"CAPTBootstrapConfig", func(r ref) client.Object {
			return &clusterv1.MachinePool{ObjectMeta: meta, Spec: clusterv1.MachinePoolSpec{ClusterName: "plain", Template: machineTemplate(foreign, r)}}
		}},
		// A remediation that is not needed any more is deleted by the name of the Machine.
		"MachineHealthCheck spec.remediation.templateRef": {"", func(r ref) client.Object {
			return &clusterv1.MachineHealthCheck{ObjectMeta: meta, Spec: clusterv1.MachineHealthCheckSpec{
				ClusterName: "plain", Selector: selector, Remediation: clusterv1.MachineHealthCheckRemediation{TemplateRef: remediation(r)},
			}}
		}},
		"Cluster spec.topology.controlPlane.healthCheck.remediation.templateRef": {"", func(r ref) client.Object {
			own := topology
			own.ControlPlane.HealthCheck.Remediation.TemplateRef = remediation(r)
			return &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{Topology: own}}
		}},
		"Cluster spec.topology.workers.machineDeployments[].healthCheck.remediation.templateRef": {"", func(r ref) client.Object {
			workers := clusterv1.MachineDeploymentTopology{Class: "a", Name: "a"}
			workers.HealthCheck.Remediation.TemplateRef = remediation(r)
			own := topology
			own.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Class: "a", Name: "b"}, workers}
			return &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{Topology: own}}
		}},
	} {
		allowed(t, field, func() error { return editor.Create(t.Context(), f.object(foreign), client.DryRunAll) })
		_, path, _ := strings.Cut(field, " ")
		for _, kind := range kinds(t) {
			err := editor.Create(t.Context(), f.object(ref{APIGroup: kind.Group, Kind: kind.Kind, Name: "victim"}), client.DryRunAll)
			if kind.Kind == f.accepted {
				g.Expect(err).NotTo(HaveOccurred(), "%s: %s", field, kind)
				continue
			}
			refused(t, field+" "+kind.Kind, err)
			g.Expect(err).To(MatchError(ContainSubstring(path+" must not name the "+kind.Kind+" victim")), field)
			g.Expect(err).To(MatchError(ContainSubstring(f.accepted)), field)
		}
	}
	g.Expect(env.Client.Create(t.Context(), clusterWith(ns, "admin", reference("WorkspacePolicy", "x")))).To(MatchError(ContainSubstring("write the name of a CAPTCluster")))
}

// classWith returns a ClusterClass with a kind of CAPT in one place.
func classWith(namespace string, change func(*clusterv1.ClusterClassSpec, clusterv1.ClusterClassTemplateReference), kind schema.GroupKind) *clusterv1.ClusterClass {
	template := func(group, kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: group + "/v1beta1", Kind: kind, Name: "victim"}
	}
	machine := template("infrastructure.cluster.x-k8s.io", "CAPTMachineTemplate")
	bootstrap := template("bootstrap.cluster.x-k8s.io", "CAPTBootstrapConfigTemplate")
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "class"}, Spec: clusterv1.ClusterClassSpec{
		Infrastructure: clusterv1.InfrastructureClass{TemplateRef: template("infrastructure.cluster.x-k8s.io", "CAPTClusterTemplate")},
		ControlPlane: clusterv1.ControlPlaneClass{
			TemplateRef:           template("controlplane.cluster.x-k8s.io", "CAPTControlPlaneTemplate"),
			MachineInfrastructure: clusterv1.ControlPlaneClassMachineInfrastructureTemplate{TemplateRef: machine},
		},
		Workers: clusterv1.WorkersClass{
			MachineDeployments: []clusterv1.MachineDeploymentClass{{
				Class: "a", Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: machine},
				Bootstrap: clusterv1.MachineDeploymentClassBootstrapTemplate{TemplateRef: bootstrap},
			}},
			MachinePools: []clusterv1.MachinePoolClass{{
				Class:          "b",
				Infrastructure: clusterv1.MachinePoolClassInfrastructureTemplate{TemplateRef: template("infrastructure.cluster.x-k8s.io", "CAPTMachinePoolTemplate")},
				Bootstrap:      clusterv1.MachinePoolClassBootstrapTemplate{TemplateRef: bootstrap},
			}},
		},
	}}
	change(&class.Spec, template(kind.Group, kind.Kind))
	return class
}

func TestClass_refersOnlyToTemplatesOfTheContract(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	platform := withRoles(t, ns, "platform", "capt-platform-editor")
	type ref = clusterv1.ClusterClassTemplateReference
	nothing := func(*clusterv1.ClusterClassSpec, ref) {}
	allowed(t, "a class", func() error {
		return platform.Create(t.Context(), classWith(ns, nothing, schema.GroupKind{}), client.DryRunAll)
	})
	for accepted, change := range map[string]func(*clusterv1.ClusterClassSpec, ref){
		"CAPTClusterTemplate":      func(s *clusterv1.ClusterClassSpec, r ref) { s.Infrastructure.TemplateRef = r },
		"CAPTControlPlaneTemplate": func(s *clusterv1.ClusterClassSpec, r ref) { s.ControlPlane.TemplateRef = r },
		"CAPTMachineTemplate":      func(s *clusterv1.ClusterClassSpec, r ref) { s.ControlPlane.MachineInfrastructure.TemplateRef = r },
		"CAPTMachineTemplate ": func(s *clusterv1.ClusterClassSpec, r ref) {
			s.Workers.MachineDeployments[0].Infrastructure.TemplateRef = r
		},
		"CAPTBootstrapConfigTemplate": func(s *clusterv1.ClusterClassSpec, r ref) { s.Workers.MachineDeployments[0].Bootstrap.TemplateRef = r },
		"CAPTMachinePoolTemplate":     func(s *clusterv1.ClusterClassSpec, r ref) { s.Workers.MachinePools[0].Infrastructure.TemplateRef = r },
		"CAPTBootstrapConfigTemplate ": func(s *clusterv1.ClusterClassSpec, r ref) {
			s.Workers.MachinePools[0].Bootstrap.TemplateRef = r
		},
		// CAPT has no templates for remediation.
		"": func(s *clusterv1.ClusterClassSpec, r ref) {
			s.ControlPlane.HealthCheck.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference(r)
		},
		" ": func(s *clusterv1.ClusterClassSpec, r ref) {
			s.Workers.MachineDeployments[0].HealthCheck.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference(r)
		},
	} {
		for _, kind := range append(kinds(t), schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: "OtherTemplate"}) {
			err := platform.Create(t.Context(), classWith(ns, change, kind), client.DryRunAll)
			if kind.Kind == strings.TrimSpace(accepted) || kind.Kind == "OtherTemplate" {
				g.Expect(err).NotTo(HaveOccurred(), "%s: %s", accepted, kind)
				continue
			}
			refused(t, accepted+": "+kind.Kind, err)
			g.Expect(err).To(MatchError(ContainSubstring("templateRef must not name the " + kind.Kind + " victim")))
		}
	}
}
