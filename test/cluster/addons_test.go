package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
func (w *harness) labelledCluster(name string, labels map[string]string) {
	w.t.Helper()
	cluster := newCluster(name)
	cluster.Labels = labels
	w.create(cluster, newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.WorkspaceTemplateRef.Name = "local-controlplane"
			s.Variables = map[string]infrav1.Value{"with": {Raw: []byte(`["controller-manager","scheduler","kwok"]`)}}
		}))
}

// node adds a node to a local cluster.
func (w *harness) node(cluster string) {
	w.t.Helper()
	nodes, err := node.NewClient(get(w, cluster+"-kubeconfig", &corev1.Secret{}).Data["value"])
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(nodes.Apply(w.ctx, &node.Node{Name: "node", ProviderID: "local://node"})).To(Succeed())
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
func (w *harness) addonStatus(addon, cluster string) addonsv1.ClusterAddonStatus {
	w.t.Helper()
	for _, c := range get(w, addon, &addonsv1.CAPTAddon{}).Status.Clusters {
		if c.Name == cluster {
			return c
		}
	}
	return addonsv1.ClusterAddonStatus{}
}

// waitAddon waits until the status of an add-on in a cluster begins with the text
// "Reason message".
func (w *harness) waitAddon(addon, cluster, prefix string) {
	w.t.Helper()
	w.Eventually(func() string {
		s := w.addonStatus(addon, cluster)
		return strings.TrimSpace(s.Reason + " " + s.Message)
	}, testTimeout, 100*time.Millisecond).Should(HavePrefix(prefix))
}

// An add-on is applied to its clusters in the order of dependencies. Its changes are
// applied, and its deleted objects are restored.
func TestAddon_installsKeepsAndRemoves(t *testing.T) {
	w := newHarness(t)
	name := w.localTemplates()
	w.create(
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
	w.labelledCluster(name, map[string]string{"first": "true", "second": "true"})
	w.waitReady(name)

	// No pod runs without a node, so the second add-on waits for the first.
	w.waitAddon("first", name, addonsv1.NotReadyReason+" Deployment default/first")
	w.waitAddon("second", name, addonsv1.WaitingForDependencyReason+" Add-on first is not ready")
	w.node(name)
	w.waitAddon("first", name, clusterv1.ReadyReason)
	w.waitAddon("second", name, clusterv1.ReadyReason)
	workload := w.workload(name)
	deployed := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: "default", Name: "second"}
	w.Expect(workload.Get(w.ctx, key, deployed)).To(Succeed())
	w.Expect(deployed.Annotations).To(HaveKeyWithValue("value", name), "an output of Terraform")
	waitCondition(w, "second", &addonsv1.CAPTAddon{}, infrav1.ReadyCondition, "True")

	t.Log("the Deployment is deleted")
	w.Expect(workload.Delete(w.ctx, deployed)).To(Succeed())
	w.Eventually(func(g Gomega) {
		restored := &appsv1.Deployment{}
		g.Expect(workload.Get(w.ctx, key, restored)).To(Succeed())
		g.Expect(restored.UID).NotTo(Equal(deployed.UID))
	}, testTimeout).Should(Succeed())
	w.waitAddon("second", name, clusterv1.ReadyReason)

	t.Log("the add-on changes")
	change(w, "first", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = deployment("first", "two") })
	w.Eventually(func(g Gomega) {
		g.Expect(workload.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "first"}, deployed)).To(Succeed())
		g.Expect(deployed.Annotations).To(HaveKeyWithValue("value", "two"))
	}, testTimeout).Should(Succeed())

	t.Log("a user triggers it")
	change(w, "first", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) {
		a.Annotations = map[string]string{addonsv1.TriggerAnnotation: "again"}
	})
	w.Eventually(func() string { return get(w, "first", &addonsv1.CAPTAddon{}).Status.HandledTrigger }, testTimeout).Should(Equal("again"))
	w.waitAddon("first", name, clusterv1.ReadyReason)

	t.Log("the labels are removed")
	change(w, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { delete(c.Labels, "first"); delete(c.Labels, "second") })
	w.Eventually(func(g Gomega) {
		g.Expect(get(w, "first", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
		g.Expect(get(w, "second", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
		g.Expect(get(w, "base", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty(), "it waits only for the add-on that depends on it")
	}, testTimeout).Should(Succeed())
	w.Eventually(func() bool {
		return apierrors.IsNotFound(workload.Get(w.ctx, client.ObjectKey{Name: "base"}, &corev1.Namespace{}))
	}, testTimeout).Should(BeTrue(), "the namespace is deleted")
	w.Expect(apierrors.IsNotFound(workload.Get(w.ctx, key, deployed))).To(BeTrue(), "policy Remove")
	w.Expect(workload.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "first"}, deployed)).To(Succeed(), "policy Leave")
	var sets clusteraddonsv1.ClusterResourceSetList
	w.Eventually(func(g Gomega) {
		g.Expect(w.env.Client.List(w.ctx, &sets, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(sets.Items).To(BeEmpty())
	}, testTimeout).Should(Succeed())
}

// Objects that an add-on no longer contains are deleted from its clusters once the
// others are ready, except those that have another owner or are still in use.
func TestAddon_prunesRemovedObjects(t *testing.T) {
	w := newHarness(t)
	name := w.localTemplates()
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
	w.create(newAddon("pruned", "yes", settings("kept", "dropped", "taken")+kind))
	w.labelledCluster(name, map[string]string{"yes": "true"})
	w.waitReady(name)
	w.waitAddon("pruned", name, clusterv1.ReadyReason)
	workload := w.workload(name)
	taken := &corev1.ConfigMap{}
	w.Expect(workload.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "taken"}, taken)).To(Succeed())
	taken.Labels[addonsv1.AddonLabel] = "another"
	w.Expect(workload.Update(w.ctx, taken)).To(Succeed())
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "theirs"}}}
	w.Expect(workload.Create(w.ctx, thing)).To(Succeed())

	change(w, "pruned", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = settings("kept") })
	w.waitAddon("pruned", name, addonsv1.RemovingReason+" Thing theirs is of a kind that this add-on installed and would be deleted with it")
	w.Expect(workload.Delete(w.ctx, thing)).To(Succeed())
	w.waitAddon("pruned", name, clusterv1.ReadyReason)
	for object, exists := range map[string]bool{"kept": true, "dropped": false, "taken": true} {
		err := workload.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: object}, &corev1.ConfigMap{})
		w.Expect(err == nil).To(Equal(exists), "%s: %v", object, err)
	}
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	w.Expect(apierrors.IsNotFound(workload.Get(w.ctx, client.ObjectKey{Name: "things.example.com"}, definition))).To(BeTrue())
	var secrets corev1.SecretList
	w.Expect(w.env.Client.List(w.ctx, &secrets, client.InNamespace(w.namespace), client.MatchingLabels{addonsv1.AddonLabel: "pruned"})).To(Succeed())
	w.Expect(secrets.Items).To(HaveLen(1))
	w.Expect(secrets.Items[0].Annotations).NotTo(HaveKey(addonsv1.PruneAnnotation), "the prune is complete")
}

// Errors suggest the name that was probably meant, and quote the workload cluster's
// own message.
func TestAddon_reportsErrors(t *testing.T) {
	w := newHarness(t)
	name := w.localTemplates()
	w.create(
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
	w.labelledCluster(name, map[string]string{"yes": "true"})
	w.waitReady(name)
	w.waitAddon("key", name, addonsv1.MissingKeyReason+" Add-on key: connection.keys refers to key cluster_nam, which Secret "+name+"-eks-connection does not have: did you mean cluster_name?")
	w.waitAddon("kind", name, addonsv1.ApplyFailedReason+" Thing thing: its kind is not installed")
	w.waitAddon("refused", name, addonsv1.ApplyFailedReason+" Service service was rejected: ")
	w.Eventually(func() string { return w.addonStatus("refused", name).Message }, testTimeout).Should(And(ContainSubstring("65535"), ContainSubstring("no retries left after 0 attempts")))
	w.waitAddon("ring-a", name, addonsv1.DependencyCycleReason+" Add-ons depend on each other (ring-a → ring-b → ring-a)")
	w.waitAddon("old", name, addonsv1.VersionUnsupportedReason+" Add-on old: it supports Kubernetes >=1.30 <1.36, not v1.37.1")

	t.Log("one add-on is fixed")
	change(w, "key", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Connection.Keys = []string{"cluster_name"} })
	w.node(name)
	w.waitAddon("key", name, clusterv1.ReadyReason)

	t.Log("the cluster is deleted although its add-ons were never ready")
	cluster := w.cluster(name)
	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Expect(get(w, "kind", &addonsv1.CAPTAddon{}).Status.Clusters).To(BeEmpty())
}

// A change is applied to one cluster at a time, and stops at a cluster that does not
// become ready.
func TestAddon_limitsTheRolloutOfChanges(t *testing.T) {
	w := newHarness(t)
	base := w.localTemplates()
	w.create(newAddon("paced", "yes", deployment("paced", "one"), func(s *addonsv1.CAPTAddonSpec) {
		s.Rollout = &addonsv1.RolloutPolicy{MaxUnavailable: new(intstr.FromInt32(1))}
	}))
	names := []string{base + "-a", base + "-b"}
	for _, name := range names {
		w.labelledCluster(name, map[string]string{"yes": "true"})
	}
	for _, name := range names {
		w.waitReady(name)
		w.node(name)
		w.waitAddon("paced", name, clusterv1.ReadyReason)
	}
	// A node selector that matches no node keeps the first cluster from becoming ready.
	bad := strings.Replace(deployment("paced", "two"), "spec: {containers", "spec: {nodeSelector: {none: such}, containers", 1)
	change(w, "paced", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = bad })
	w.waitAddon("paced", names[0], addonsv1.NotReadyReason)
	w.waitAddon("paced", names[1], addonsv1.WaitingForRolloutReason)
	untouched := &appsv1.Deployment{}
	w.Expect(w.workload(names[1]).Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "paced"}, untouched)).To(Succeed())
	w.Expect(untouched.Annotations).To(HaveKeyWithValue("value", "one"))

	change(w, "paced", &addonsv1.CAPTAddon{}, func(a *addonsv1.CAPTAddon) { a.Spec.Manifests[0].Inline = deployment("paced", "three") })
	for _, name := range names {
		w.Eventually(func(g Gomega) {
			g.Expect(w.workload(name).Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "paced"}, untouched)).To(Succeed())
			g.Expect(untouched.Annotations).To(HaveKeyWithValue("value", "three"))
		}, testTimeout).Should(Succeed())
		w.waitAddon("paced", name, clusterv1.ReadyReason)
	}
	root, err := testenv.Root()
	w.Expect(err).NotTo(HaveOccurred())
	t.Log("a cluster is unreachable")
	dirs, err := filepath.Glob("/tmp/capt-local-" + names[0] + "-*")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(dirs).To(HaveLen(1))
	w.Expect(exec.Command(filepath.Join(root, "bin", "localcluster"), "stop", "--dir", dirs[0]).Run()).To(Succeed())
	w.waitAddon("paced", names[0], addonsv1.WaitingForControlPlaneReason)
}
