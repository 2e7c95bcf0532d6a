package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/node"
	"github.com/appthrust/capt/internal/testenv"
)

// labelledCluster creates a local cluster with labels. KWOK simulates its pods.
func (h *harness) labelledCluster(name string, labels map[string]string) {
	h.t.Helper()
	cluster := newCluster(name)
	cluster.Labels = labels
	h.create(cluster, newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.WorkspaceTemplateRef.Name = "local-controlplane"
			s.Variables = map[string]infrav1.Value{"with": {Raw: []byte(`["controller-manager","scheduler","kwok"]`)}}
		}))
}

// node adds a node to a local cluster.
func (h *harness) node(cluster string) {
	h.t.Helper()
	nodes, err := node.NewClient(get(h, cluster+"-kubeconfig", &corev1.Secret{}).Data["value"])
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(nodes.Apply(h.ctx, &node.Node{Name: "node", ProviderID: "local://node"})).To(Succeed())
}

func newAddon(name, label, manifests string, change ...func(*addonsv1.CAPTAddonSpec)) *addonsv1.CAPTAddon {
	a := &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}},
			Manifests:       []addonsv1.ManifestSource{{Name: "all", Inline: manifests}},
		},
	}
	for _, edit := range change {
		edit(&a.Spec)
	}
	return a
}

// deployment returns the manifest of a Deployment with the name of its cluster in an
// annotation.
func deployment(name, value string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default, annotations: {cluster: "${CLUSTER_NAME}", value: %[2]q}}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: c, image: example.com/none}]}
`, name, value)
}

// addonStatus returns the status of an add-on in a cluster.
func (h *harness) addonStatus(addon, cluster string) addonsv1.ClusterAddonStatus {
	h.t.Helper()
	if status := get(h, addon, &addonsv1.CAPTAddon{}).StatusIn(cluster); status != nil {
		return *status
	}
	return addonsv1.ClusterAddonStatus{}
}

// waitAddon waits until the status of an add-on in a cluster begins with the text
// "Reason message".
func (h *harness) waitAddon(addon, cluster, prefix string) {
	h.t.Helper()
	h.Eventually(func() string {
		s := h.addonStatus(addon, cluster)
		return strings.TrimSpace(s.Reason + " " + s.Message)
	}, testTimeout).Should(HavePrefix(prefix))
}

// An add-on is applied to its clusters in the order of dependencies. Its changes are
// applied, and its deleted objects are restored.
func TestAddon_installsKeepsAndRemoves(t *testing.T) {
	h := newHarness(t)
	name := h.localTemplates()
	h.create(
		newAddon("second", "second", deployment("second", "${cluster_name}"), func(s *addonsv1.CAPTAddonSpec) {
			s.DependsOn = []infrav1.LocalReference{{Name: "first"}, {Name: "base"}}
			s.Connection = &addonsv1.ConnectionSource{SecretName: "${WORKSPACE_NAME}-eks-connection", Keys: []string{"cluster_name"}}
			s.DeletionPolicy = addonsv1.DeletionPolicyRemove
		}),
		newAddon("first", "first", deployment("first", "one")),
		newAddon("base", "second", "apiVersion: v1\nkind: Namespace\nmetadata: {name: base}\n", func(s *addonsv1.CAPTAddonSpec) {
			s.DeletionPolicy = addonsv1.DeletionPolicyRemove
		}),
	)
	h.labelledCluster(name, map[string]string{"first": "true", "second": "true"})
	h.waitReady(name)

	// No pod runs without a node, so the second add-on waits for the first.
	h.waitAddon("first", name, addonsv1.NotReadyReason+" Deployment default/first")
	h.waitAddon("second", name, addonsv1.WaitingForDependencyReason+" Add-on first is not ready")
	h.node(name)
	h.waitAddon("first", name, clusterv1.ReadyReason)
	h.waitAddon("second", name, clusterv1.ReadyReason)
	workload := h.workload(name)
	deployed := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: "default", Name: "second"}
	h.Expect(workload.Get(h.ctx, key, deployed)).To(Succeed())
	h.Expect(deployed.Annotations).To(HaveKeyWithValue("value", name), "an output of Terraform")
	waitCondition(h, "second", &addonsv1.CAPTAddon{}, infrav1.ReadyCondition, "True")

	t.Log("the Deployment is deleted")
	h.Expect(workload.Delete(h.ctx, deployed)).To(Succeed())
	h.Eventually(func(g Gomega) {
		restored := &appsv1.Deployment{}
		g.Expect(workload.Get(h.ctx, key, restored)).To(Succeed())
		g.Expect(restored.UID).NotTo(Equal(deployed.UID))
	}, testTimeout).Should(Succeed())
	h.waitAddon("second", name, clusterv1.ReadyReason)

	t.Log("the add-on changes, and others have changed its objects too")
	firstKey := client.ObjectKey{Namespace: "default", Name: "first"}
	h.Expect(workload.Get(h.ctx, firstKey, deployed)).To(Succeed())
	h.Expect(deployed.Annotations).To(HaveKey("cluster"))
	others := deployed.DeepCopy()
	others.Labels["theirs"], others.Annotations["theirs"] = "kept", "kept"
	others.Finalizers = []string{"example.com/theirs"}
	h.Expect(workload.Patch(h.ctx, others, client.MergeFrom(deployed), client.FieldOwner("theirs"))).To(Succeed())
	change(h, "first", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = deployment("first", "two") })
	h.Eventually(func(g Gomega) {
		g.Expect(workload.Get(h.ctx, firstKey, deployed)).To(Succeed())
		g.Expect(deployed.Annotations).To(HaveKeyWithValue("value", "two"))
	}, testTimeout).Should(Succeed())
	h.Expect(deployed.Labels).To(HaveKeyWithValue("theirs", "kept"))
	h.Expect(deployed.Annotations).To(HaveKeyWithValue("theirs", "kept"))
	h.Expect(deployed.Finalizers).To(Equal([]string{"example.com/theirs"}))
	removed := deployed.DeepCopy()
	removed.Finalizers = nil
	h.Expect(workload.Patch(h.ctx, removed, client.MergeFrom(deployed))).To(Succeed())

	t.Log("a user triggers it")
	change(h, "first", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) {
		a.Annotations = map[string]string{addonsv1.TriggerAnnotation: "again"}
	})
	h.Eventually(func() string { return get(h, "first", &addonsv1.CAPTAddon{}).Status.HandledTrigger }, testTimeout).Should(Equal("again"))
	h.waitAddon("first", name, clusterv1.ReadyReason)

	t.Log("the labels are removed")
	change(h, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { delete(c.Labels, "first"); delete(c.Labels, "second") })
	h.Eventually(func(g Gomega) {
		g.Expect(get(h, "first", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
		g.Expect(get(h, "second", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
		g.Expect(get(h, "base", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty(), "it waits only for the add-on that depends on it")
	}, testTimeout).Should(Succeed())
	h.Eventually(func() bool {
		return apierrors.IsNotFound(workload.Get(h.ctx, client.ObjectKey{Name: "base"}, &corev1.Namespace{}))
	}, testTimeout).Should(BeTrue(), "the namespace is deleted")
	h.Expect(apierrors.IsNotFound(workload.Get(h.ctx, key, deployed))).To(BeTrue(), "policy Remove")
	h.Expect(workload.Get(h.ctx, client.ObjectKey{Namespace: "default", Name: "first"}, deployed)).To(Succeed(), "policy Leave")
	var sets clusteraddonsv1.ClusterResourceSetList
	h.Eventually(func(g Gomega) {
		g.Expect(h.env.Client.List(h.ctx, &sets, client.InNamespace(h.namespace))).To(Succeed())
		g.Expect(sets.Items).To(BeEmpty())
	}, testTimeout).Should(Succeed())
}

// Objects that an add-on no longer contains are deleted from its clusters once the
// others are ready, except those that have another owner or are still in use.
func TestAddon_prunesRemovedObjects(t *testing.T) {
	h := newHarness(t)
	name := h.localTemplates()
	settings := func(names ...string) string {
		var text strings.Builder
		for _, name := range names {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\n", name)
		}
		return text.String()
	}
	const kind = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things, singular: thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	h.create(newAddon("pruned", "yes", settings("kept", "dropped", "taken")+kind))
	h.labelledCluster(name, map[string]string{"yes": "true"})
	h.waitReady(name)
	h.waitAddon("pruned", name, clusterv1.ReadyReason)
	workload := h.workload(name)
	taken := &corev1.ConfigMap{}
	h.Expect(workload.Get(h.ctx, client.ObjectKey{Namespace: "default", Name: "taken"}, taken)).To(Succeed())
	taken.Labels[addonsv1.AddonLabel] = "another"
	h.Expect(workload.Update(h.ctx, taken)).To(Succeed())
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "theirs"}}}
	h.Expect(workload.Create(h.ctx, thing)).To(Succeed())

	change(h, "pruned", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = settings("kept") })
	h.waitAddon("pruned", name, addonsv1.RemovingReason+" Thing theirs is of a kind that this add-on installed and would be deleted with it")
	h.Expect(workload.Delete(h.ctx, thing)).To(Succeed())
	h.waitAddon("pruned", name, clusterv1.ReadyReason)
	for object, exists := range map[string]bool{"kept": true, "dropped": false, "taken": true} {
		err := workload.Get(h.ctx, client.ObjectKey{Namespace: "default", Name: object}, &corev1.ConfigMap{})
		h.Expect(err == nil).To(Equal(exists), "%s: %v", object, err)
	}
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	h.Expect(apierrors.IsNotFound(workload.Get(h.ctx, client.ObjectKey{Name: "things.example.com"}, definition))).To(BeTrue())
	var secrets corev1.SecretList
	h.Expect(h.env.Client.List(h.ctx, &secrets, client.InNamespace(h.namespace), client.MatchingLabels{addonsv1.AddonLabel: "pruned"})).To(Succeed())
	h.Expect(secrets.Items).To(HaveLen(1))
	h.Expect(secrets.Items[0].Annotations).NotTo(HaveKey(addonsv1.PruneAnnotation), "the prune is complete")
}

// Errors suggest the name that was probably meant, and quote the workload cluster's
// own message.
func TestAddon_reportsErrors(t *testing.T) {
	h := newHarness(t)
	name := h.localTemplates()
	h.create(
		newAddon("key", "yes", deployment("key", "x"), func(s *addonsv1.CAPTAddonSpec) {
			s.Connection = &addonsv1.ConnectionSource{Keys: []string{"cluster_nam"}}
		}),
		newAddon("kind", "yes", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\n"),
		newAddon("refused", "yes", "apiVersion: v1\nkind: Service\nmetadata: {name: service, namespace: default}\nspec: {ports: [{port: 99999}]}\n", func(s *addonsv1.CAPTAddonSpec) {
			s.Retry = &infrav1.RetryPolicy{Limit: new(int32(0))}
		}),
		newAddon("ring-a", "yes", deployment("ring-a", "x"), func(s *addonsv1.CAPTAddonSpec) { s.DependsOn = []infrav1.LocalReference{{Name: "ring-b"}} }),
		newAddon("ring-b", "yes", deployment("ring-b", "x"), func(s *addonsv1.CAPTAddonSpec) { s.DependsOn = []infrav1.LocalReference{{Name: "ring-a"}} }),
		newAddon("old", "yes", deployment("old", "x"), func(s *addonsv1.CAPTAddonSpec) {
			s.Versions = &addonsv1.AddonVersions{Kubernetes: ">=1.30 <1.36"}
		}),
	)
	h.labelledCluster(name, map[string]string{"yes": "true"})
	h.waitReady(name)
	h.waitAddon("key", name, addonsv1.MissingKeyReason+" Add-on key: connection.keys refers to key cluster_nam, which Secret "+name+"-eks-connection does not have: did you mean cluster_name?")
	h.waitAddon("kind", name, addonsv1.ApplyFailedReason+" Thing thing: its kind is not installed")
	h.waitAddon("refused", name, addonsv1.ApplyFailedReason+" Service service was rejected: ")
	h.Eventually(func() string { return h.addonStatus("refused", name).Message }, testTimeout).Should(And(ContainSubstring("65535"), ContainSubstring("no retries left after 0 attempts")))
	h.waitAddon("ring-a", name, addonsv1.DependencyCycleReason+" Add-ons depend on each other (ring-a → ring-b → ring-a)")
	h.waitAddon("old", name, addonsv1.VersionUnsupportedReason+" Add-on old: it supports Kubernetes >=1.30 <1.36, not v1.37.1")

	t.Log("one add-on is fixed")
	change(h, "key", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Connection.Keys = []string{"cluster_name"} })
	h.node(name)
	h.waitAddon("key", name, clusterv1.ReadyReason)

	t.Log("the cluster is deleted although its add-ons were never ready")
	h.destroy(h.cluster(name))
	h.Expect(get(h, "kind", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
}

// A change is applied to one cluster at a time, and stops at a cluster that does not
// become ready.
func TestAddon_limitsTheRolloutOfChanges(t *testing.T) {
	h := newHarness(t)
	base := h.localTemplates()
	h.create(newAddon("paced", "yes", deployment("paced", "one"), func(s *addonsv1.CAPTAddonSpec) {
		s.Rollout = &addonsv1.RolloutPolicy{MaxUnavailable: new(intstr.FromInt32(1))}
	}))
	names := []string{base + "-a", base + "-b"}
	for _, name := range names {
		h.labelledCluster(name, map[string]string{"yes": "true"})
	}
	for _, name := range names {
		h.waitReady(name)
		h.node(name)
		h.waitAddon("paced", name, clusterv1.ReadyReason)
	}
	// A node selector that matches no node keeps the first cluster from becoming ready.
	bad := strings.Replace(deployment("paced", "two"), "spec: {containers", "spec: {nodeSelector: {none: such}, containers", 1)
	change(h, "paced", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = bad })
	h.waitAddon("paced", names[0], addonsv1.NotReadyReason)
	h.waitAddon("paced", names[1], addonsv1.WaitingForRolloutReason)
	untouched := &appsv1.Deployment{}
	h.Expect(h.workload(names[1]).Get(h.ctx, client.ObjectKey{Namespace: "default", Name: "paced"}, untouched)).To(Succeed())
	h.Expect(untouched.Annotations).To(HaveKeyWithValue("value", "one"))

	change(h, "paced", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = deployment("paced", "three") })
	for _, name := range names {
		h.Eventually(func(g Gomega) {
			g.Expect(h.workload(name).Get(h.ctx, client.ObjectKey{Namespace: "default", Name: "paced"}, untouched)).To(Succeed())
			g.Expect(untouched.Annotations).To(HaveKeyWithValue("value", "three"))
		}, testTimeout).Should(Succeed())
		h.waitAddon("paced", name, clusterv1.ReadyReason)
	}
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	t.Log("a cluster is unreachable")
	dirs, err := filepath.Glob("/tmp/capt-local-" + names[0] + "-*")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(dirs).To(HaveLen(1))
	h.Expect(exec.Command(filepath.Join(root, "bin", "localcluster"), "stop", "--dir", dirs[0]).Run()).To(Succeed())
	h.waitAddon("paced", names[0], addonsv1.WaitingForControlPlaneReason)
}
