package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/environment"
)

// The life of a cluster, from two labels to nothing left.
func TestStory_fromTwoLabelsToNothingLeft(t *testing.T) {
	w := newHarness(t, "story")
	for _, chapter := range []struct {
		name string
		tell func()
	}{
		{"a Cluster with both labels gets Flux and Karpenter", w.begins},
		{"a pending pod gets a node", w.getsNodes},
		{"an output of Terraform changes and reaches Karpenter", w.followsOutputs},
		{"odd values arrive as they are", w.keepsOddValues},
		{"a user triggers the add-on", w.isTriggered},
		{"the chart is upgraded in place", w.upgradesChart},
		{"Kubernetes is upgraded", w.upgradesKubernetes},
		{"an upgrade that does not fit is held", w.holdsUpgrade},
		{"a third add-on needs nothing special", w.takesThird},
		{"a label goes, and the add-on with it", w.losesLabel},
		{"the Cluster is deleted, nodes first", w.isDeleted},
		{"nothing is left", w.leavesNothing},
	} {
		began := time.Now()
		w.say("== %s", chapter.name)
		chapter.tell()
		w.say("== took %.1fs", time.Since(began).Seconds())
	}
}

// begins brings a cluster up to Karpenter and its node pool.
func (w *harness) begins() {
	w.install(flux)
	w.install(karpenter, w.chartVersion("1.14.0"))
	w.install(nodePool)
	w.create("v1.35.0")
	w.comesUp()
}

// comesUp waits for each part of a new cluster.
func (w *harness) comesUp() {
	w.t.Helper()
	w.Eventually(func() string {
		var list infrav1.CAPTClusterList
		w.Expect(w.client.List(w.ctx, &list, w.ofCluster()...)).To(Succeed())
		if len(list.Items) == 0 {
			return "not made yet"
		}
		return condition(list.Items[0].Status.Conditions, infrav1.ReadyCondition)
	}).Should(Equal("True"), "the VPC")
	w.say("The VPC is ready")
	w.Eventually(func() string { return condition(w.controlPlane().Status.Conditions, infrav1.ReadyCondition) }).Should(Equal("True"), "the control plane")
	w.say("The control plane is ready: Kubernetes %s", w.controlPlane().Status.Version)
	w.reach()
	w.ready(flux, karpenter, nodePool)
	w.uid = string(w.deployment().UID)
}

// deployment is Karpenter's.
func (w *harness) deployment() *appsv1.Deployment {
	w.t.Helper()
	found := &appsv1.Deployment{}
	w.Expect(w.workload.Get(w.ctx, client.ObjectKey{Namespace: karpenter, Name: karpenter}, found)).To(Succeed())
	return found
}

// queue is the name of the queue that Karpenter was started with.
func (w *harness) queue() string {
	w.t.Helper()
	for _, variable := range w.deployment().Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "INTERRUPTION_QUEUE" {
			return variable.Value
		}
	}
	return ""
}

// getsNodes makes pods that no node takes.
func (w *harness) getsNodes() {
	root, err := w.env.Root()
	w.Expect(err).NotTo(HaveOccurred())
	objects, err := environment.ReadManifests(filepath.Join(root, "examples", "quickstart-workload.yaml"))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(environment.Apply(w.ctx, w.workload, "default", objects)).To(Succeed())
	w.Eventually(func(g Gomega) {
		pods := &appsv1.Deployment{}
		g.Expect(w.workload.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "inflate"}, pods)).To(Succeed())
		g.Expect(pods.Status.AvailableReplicas).To(Equal(int32(3)))
		g.Expect(w.claims()).NotTo(BeEmpty())
	}).Should(Succeed(), "Karpenter makes a node for pending pods")
	var nodes corev1.NodeList
	w.Expect(w.workload.List(w.ctx, &nodes, client.MatchingLabels{"karpenter.sh/nodepool": "default"})).To(Succeed())
	w.Expect(nodes.Items).NotTo(BeEmpty())
	w.say("Karpenter has made %d node(s)", len(nodes.Items))
}

// claims are Karpenter's nodes.
func (w *harness) claims() []metav1.PartialObjectMetadata {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(nodeClaims)
	if err := w.workload.List(w.ctx, &list); err != nil {
		return nil
	}
	return list.Items
}

// output has Terraform report another value.
func (w *harness) output(name, value string) {
	w.t.Helper()
	w.cluster(func(c *clusterv1.Cluster) {
		standIns := map[string]string{}
		kept := c.Spec.Topology.Variables[:0]
		for _, v := range c.Spec.Topology.Variables {
			if v.Name == "standIns" {
				w.Expect(json.Unmarshal(v.Value.Raw, &standIns)).To(Succeed())
				continue
			}
			kept = append(kept, v)
		}
		standIns[name] = value
		raw, err := json.Marshal(standIns)
		w.Expect(err).NotTo(HaveOccurred())
		c.Spec.Topology.Variables = append(kept, clusterv1.ClusterVariable{Name: "standIns", Value: jsonOf(raw)})
	})
}

func jsonOf(raw []byte) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: raw} }

// connection is the value of an output in the connection Secret.
func (w *harness) connection(key string) string {
	w.t.Helper()
	return string(get(w, w.name+"-eks-connection", &corev1.Secret{}).Data[key])
}

// followsOutputs measures how long a new value takes from Terraform's outputs to
// the running Deployment.
func (w *harness) followsOutputs() {
	asked := time.Now()
	w.output("karpenter_queue_name", "another-queue")
	w.Eventually(func() string { return w.connection("karpenter_queue_name") }, testTimeout, moment).Should(Equal("another-queue"), "the connection Secret")
	written := time.Now()
	w.Eventually(w.queue, testTimeout, moment).Should(Equal("another-queue"), "the running Deployment")
	w.say("MEASURED from the variable to the connection Secret %.1fs, from the Secret to the Deployment %.1fs",
		written.Sub(asked).Seconds(), time.Since(written).Seconds())
	w.ready(karpenter)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid), "the Deployment is upgraded, not replaced")
}

// keepsOddValues hands over what Helm's --set would tear apart.
func (w *harness) keepsOddValues() {
	const odd = "a,b=\"{c}\" 'd'\n[e]: \\f # null {{ g }}\n"
	w.output("karpenter_iam_role_arn", odd)
	w.Eventually(func(g Gomega) {
		account := &corev1.ServiceAccount{}
		g.Expect(w.workload.Get(w.ctx, client.ObjectKey{Namespace: karpenter, Name: karpenter}, account)).To(Succeed())
		g.Expect(account.Annotations).To(HaveKeyWithValue("eks.amazonaws.com/role-arn", odd))
	}).Should(Succeed(), "the annotation of the ServiceAccount")
	w.ready(karpenter)
}

// release reads the HelmRelease of an add-on; it has no status while it is gone.
func (w *harness) release(namespace, name string) *unstructured.Unstructured {
	w.t.Helper()
	hr := &unstructured.Unstructured{}
	hr.SetGroupVersionKind(helmReleases)
	err := w.workload.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: name}, hr)
	if err != nil {
		w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}
	return hr
}

// requested is the request that Flux has dealt with last.
func (w *harness) requested() string {
	w.t.Helper()
	token, _, err := unstructured.NestedString(w.release(karpenter, karpenter).Object, "status", "lastHandledReconcileAt")
	w.Expect(err).NotTo(HaveOccurred())
	return token
}

// trigger sets the annotation for users.
func (w *harness) trigger(addon, value string) {
	w.t.Helper()
	w.addon(addon, func(a *addonsv1.CAPTAddon) {
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[addonsv1.TriggerAnnotation] = value
	})
}

func (w *harness) isTriggered() {
	before := w.requested()
	w.trigger(karpenter, "by hand")
	w.Eventually(w.requested).ShouldNot(Equal(before), "Flux is asked again")
	w.ready(karpenter)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

func (w *harness) upgradesChart() {
	w.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Helm.Chart.Version = "1.14.1" })
	w.ready(karpenter)
	deployment := w.deployment()
	w.Expect(deployment.Labels).To(HaveKeyWithValue("helm.sh/chart", HavePrefix("karpenter-1.14.1")))
	w.Expect(string(deployment.UID)).To(Equal(w.uid), "the Deployment is upgraded, not replaced")
	w.Expect(w.claims()).NotTo(BeEmpty(), "nodes stay")
}

func (w *harness) upgradesKubernetes() {
	w.cluster(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.0" })
	w.Eventually(func(g Gomega) {
		g.Expect(w.controlPlane().Status.Version).To(HavePrefix("v1.36"))
		cluster := get(w, w.name, &clusterv1.Cluster{})
		g.Expect(condition(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)).To(Equal("True"))
	}).Should(Succeed(), "the control plane and its workers have the new version")
	w.ready(flux, karpenter, nodePool)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
	w.say("Kubernetes is %s", w.controlPlane().Status.Version)
}

// holdsUpgrade asks for a version that neither Flux nor Karpenter is for.
func (w *harness) holdsUpgrade() {
	w.cluster(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.37.0" })
	w.Eventually(func() string { return condition(w.controlPlane().Status.Conditions, "WorkspaceReady") }).
		Should(And(HavePrefix("False: "+addonsv1.VersionUnsupportedReason+": The upgrade to 1.37 waits for add-on "), ContainSubstring("1.36")), "it says which versions fit")
	w.say("%s", condition(w.controlPlane().Status.Conditions, "WorkspaceReady"))
	w.Expect(w.controlPlane().Status.Version).To(HavePrefix("v1.36"))
	w.ready(flux, karpenter, nodePool)
	w.Expect(condition(w.controlPlane().Status.Conditions, clusterv1.AvailableCondition)).To(Equal("True"), "the cluster continues unchanged")
	w.Expect(condition(w.controlPlane().Status.Conditions, "WorkspaceReady")).To(ContainSubstring("add-on "+flux), "of several add-ons the first by name")
	version := func() string { return w.controlPlane().ResourceVersion }
	w.Eventually(func(g Gomega) {
		now := version()
		g.Consistently(version, 2*time.Second, look).Should(Equal(now))
	}).Should(Succeed(), "it waits without writing")
}

func (w *harness) takesThird() {
	w.install(third)
	w.Expect(w.addonStatus(third)).To(Equal("absent"), "no cluster has its label")
	w.cluster(func(c *clusterv1.Cluster) { c.Labels["elbv2.k8s.aws/enabled"] = "true" })
	w.ready(third)
	deployed := &appsv1.Deployment{}
	w.Expect(w.workload.Get(w.ctx, client.ObjectKey{Namespace: "kube-system", Name: third}, deployed)).To(Succeed())
	w.Expect(strings.Join(deployed.Spec.Template.Spec.Containers[0].Args, " ")).To(ContainSubstring("--cluster-name=" + w.name))
}

func (w *harness) losesLabel() {
	w.cluster(func(c *clusterv1.Cluster) { delete(c.Labels, "elbv2.k8s.aws/enabled") })
	w.Eventually(func() string { return w.addonStatus(third) }).Should(Equal("absent"), "it is removed")
	err := w.workload.Get(w.ctx, client.ObjectKey{Namespace: "kube-system", Name: third}, &appsv1.Deployment{})
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "its Deployment is gone")
	w.Expect(w.release("kube-system", third).GetName()).To(BeEmpty(), "its HelmRelease is gone")
	w.Eventually(func() []string { return w.rendered(third) }).Should(BeEmpty(), "Cluster API forgets it")
}
