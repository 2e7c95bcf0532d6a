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

// The lifecycle of a cluster, from two labels to the deletion.
func TestLifecycle_installsAndRemovesAddons(t *testing.T) {
	h := newHarness(t, "lifecycle")
	for _, stage := range []struct {
		name string
		run  func()
	}{
		{"a Cluster with both labels gets Flux and Karpenter", h.start},
		{"a pending pod gets a node", h.getsNodes},
		{"an output of Terraform changes and reaches Karpenter", h.followsOutputs},
		{"values with special characters are unchanged", h.keepsOddValues},
		{"a user triggers the add-on", h.isTriggered},
		{"the chart is upgraded in place", h.upgradesChart},
		{"Kubernetes is upgraded", h.upgradesKubernetes},
		{"an upgrade to an unsupported version is blocked", h.blocksUpgrade},
		{"a third add-on needs no special handling", h.installsThird},
		{"an add-on is removed with its label", h.losesLabel},
		{"the Cluster is deleted, nodes first", h.deletesInOrder},
		{"nothing is left", h.leavesNothing},
	} {
		began := time.Now()
		h.logf("== %s", stage.name)
		stage.run()
		h.logf("== took %.1fs", time.Since(began).Seconds())
	}
}

// start creates a cluster with Karpenter and its node pool.
func (h *harness) start() {
	h.install(flux)
	h.install(karpenter, h.chartVersion("1.14.0"))
	h.install(nodePool)
	h.create("v1.35.0")
	h.waitUntilReady()
}

// waitUntilReady waits for each part of a new cluster.
func (h *harness) waitUntilReady() {
	h.t.Helper()
	h.Eventually(func() string {
		var list infrav1.CAPTClusterList
		h.Expect(h.client.List(h.ctx, &list, h.ofCluster()...)).To(Succeed())
		if len(list.Items) == 0 {
			return "not created yet"
		}
		return condition(list.Items[0].Status.Conditions, infrav1.ReadyCondition)
	}).Should(Equal("True"), "the VPC")
	h.logf("The VPC is ready")
	h.Eventually(func() string { return condition(h.controlPlane().Status.Conditions, infrav1.ReadyCondition) }).Should(Equal("True"), "the control plane")
	h.logf("The control plane is ready: Kubernetes %s", h.controlPlane().Status.Version)
	h.connect()
	h.ready(flux, karpenter, nodePool)
	h.uid = string(h.deployment().UID)
}

// deployment returns Karpenter's Deployment.
func (h *harness) deployment() *appsv1.Deployment {
	h.t.Helper()
	found := &appsv1.Deployment{}
	h.Expect(h.workload.Get(h.ctx, client.ObjectKey{Namespace: karpenter, Name: karpenter}, found)).To(Succeed())
	return found
}

// queue returns the name of the queue of the running Karpenter.
func (h *harness) queue() string {
	h.t.Helper()
	for _, variable := range h.deployment().Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "INTERRUPTION_QUEUE" {
			return variable.Value
		}
	}
	return ""
}

// getsNodes creates pods that fit on no existing node.
func (h *harness) getsNodes() {
	root, err := h.env.Root()
	h.Expect(err).NotTo(HaveOccurred())
	objects, err := environment.ReadManifests(filepath.Join(root, "examples", "quickstart-workload.yaml"))
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(environment.Apply(h.ctx, h.workload, "default", objects)).To(Succeed())
	h.Eventually(func(g Gomega) {
		pods := &appsv1.Deployment{}
		g.Expect(h.workload.Get(h.ctx, client.ObjectKey{Namespace: "default", Name: "inflate"}, pods)).To(Succeed())
		g.Expect(pods.Status.AvailableReplicas).To(Equal(int32(3)))
		g.Expect(h.claims()).NotTo(BeEmpty())
	}).Should(Succeed(), "Karpenter creates a node for pending pods")
	var nodes corev1.NodeList
	h.Expect(h.workload.List(h.ctx, &nodes, client.MatchingLabels{"karpenter.sh/nodepool": "default"})).To(Succeed())
	h.Expect(nodes.Items).NotTo(BeEmpty())
	h.logf("Karpenter has created %d node(s)", len(nodes.Items))
}

// claims returns Karpenter's NodeClaims.
func (h *harness) claims() []metav1.PartialObjectMetadata {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(nodeClaims)
	if err := h.workload.List(h.ctx, &list); err != nil {
		return nil
	}
	return list.Items
}

// output changes the value of a Terraform output.
func (h *harness) output(name, value string) {
	h.t.Helper()
	h.cluster(func(c *clusterv1.Cluster) {
		standIns := map[string]string{}
		kept := c.Spec.Topology.Variables[:0]
		for _, v := range c.Spec.Topology.Variables {
			if v.Name == "standIns" {
				h.Expect(json.Unmarshal(v.Value.Raw, &standIns)).To(Succeed())
				continue
			}
			kept = append(kept, v)
		}
		standIns[name] = value
		raw, err := json.Marshal(standIns)
		h.Expect(err).NotTo(HaveOccurred())
		c.Spec.Topology.Variables = append(kept, clusterv1.ClusterVariable{Name: "standIns", Value: jsonOf(raw)})
	})
}

func jsonOf(raw []byte) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: raw} }

// connection returns the value of an output in the connection Secret.
func (h *harness) connection(key string) string {
	h.t.Helper()
	return string(get(h, h.name+"-eks-connection", &corev1.Secret{}).Data[key])
}

// followsOutputs measures how long a new value takes from Terraform's outputs to
// the running Deployment.
func (h *harness) followsOutputs() {
	changed := time.Now()
	h.output("karpenter_queue_name", "another-queue")
	h.Eventually(func() string { return h.connection("karpenter_queue_name") }, testTimeout, measureInterval).Should(Equal("another-queue"), "the connection Secret")
	written := time.Now()
	h.Eventually(h.queue, testTimeout, measureInterval).Should(Equal("another-queue"), "the running Deployment")
	h.logf("MEASURED from the variable to the connection Secret %.1fs, from the Secret to the Deployment %.1fs",
		written.Sub(changed).Seconds(), time.Since(written).Seconds())
	h.ready(karpenter)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid), "the Deployment is upgraded, not replaced")
}

// keepsOddValues passes values with special characters of Helm's --set.
func (h *harness) keepsOddValues() {
	const odd = "a,b=\"{c}\" 'd'\n[e]: \\f # null {{ g }}\n"
	h.output("karpenter_iam_role_arn", odd)
	h.Eventually(func(g Gomega) {
		account := &corev1.ServiceAccount{}
		g.Expect(h.workload.Get(h.ctx, client.ObjectKey{Namespace: karpenter, Name: karpenter}, account)).To(Succeed())
		g.Expect(account.Annotations).To(HaveKeyWithValue("eks.amazonaws.com/role-arn", odd))
	}).Should(Succeed(), "the annotation of the ServiceAccount")
	h.ready(karpenter)
}

// release returns the HelmRelease of an add-on. The status is empty while it does not
// exist.
func (h *harness) release(namespace, name string) *unstructured.Unstructured {
	h.t.Helper()
	hr := &unstructured.Unstructured{}
	hr.SetGroupVersionKind(helmReleases)
	err := h.workload.Get(h.ctx, client.ObjectKey{Namespace: namespace, Name: name}, hr)
	if err != nil {
		h.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}
	return hr
}

// requested returns the request that Flux handled last.
func (h *harness) requested() string {
	h.t.Helper()
	token, _, err := unstructured.NestedString(h.release(karpenter, karpenter).Object, "status", "lastHandledReconcileAt")
	h.Expect(err).NotTo(HaveOccurred())
	return token
}

// trigger sets the trigger annotation.
func (h *harness) trigger(addon, value string) {
	h.t.Helper()
	h.addon(addon, func(a *addonsv1.CAPTAddon) {
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[addonsv1.TriggerAnnotation] = value
	})
}

func (h *harness) isTriggered() {
	before := h.requested()
	h.trigger(karpenter, "by hand")
	h.Eventually(h.requested).ShouldNot(Equal(before), "Flux reconciles again")
	h.ready(karpenter)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

func (h *harness) upgradesChart() {
	h.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Helm.Chart.Version = "1.14.1" })
	h.ready(karpenter)
	deployment := h.deployment()
	h.Expect(deployment.Labels).To(HaveKeyWithValue("helm.sh/chart", HavePrefix("karpenter-1.14.1")))
	h.Expect(string(deployment.UID)).To(Equal(h.uid), "the Deployment is upgraded, not replaced")
	h.Expect(h.claims()).NotTo(BeEmpty(), "nodes stay")
}

func (h *harness) upgradesKubernetes() {
	h.cluster(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.0" })
	h.Eventually(func(g Gomega) {
		g.Expect(h.controlPlane().Status.Version).To(HavePrefix("v1.36"))
		cluster := get(h, h.name, &clusterv1.Cluster{})
		g.Expect(condition(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)).To(Equal("True"))
	}).Should(Succeed(), "the control plane and its workers have the new version")
	h.ready(flux, karpenter, nodePool)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
	h.logf("Kubernetes is %s", h.controlPlane().Status.Version)
}

// blocksUpgrade requests a version that neither Flux nor Karpenter supports.
func (h *harness) blocksUpgrade() {
	h.cluster(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.37.0" })
	h.Eventually(func() string { return condition(h.controlPlane().Status.Conditions, "WorkspaceReady") }).
		Should(And(HavePrefix("False: "+addonsv1.VersionUnsupportedReason+": The upgrade to 1.37 waits for add-on "), ContainSubstring("1.36")), "the message contains the supported versions")
	h.logf("%s", condition(h.controlPlane().Status.Conditions, "WorkspaceReady"))
	h.Expect(h.controlPlane().Status.Version).To(HavePrefix("v1.36"))
	h.ready(flux, karpenter, nodePool)
	h.Expect(condition(h.controlPlane().Status.Conditions, clusterv1.AvailableCondition)).To(Equal("True"), "the cluster continues unchanged")
	h.Expect(condition(h.controlPlane().Status.Conditions, "WorkspaceReady")).To(ContainSubstring("add-on "+flux), "of several add-ons the first by name")
	version := func() string { return h.controlPlane().ResourceVersion }
	h.Eventually(func(g Gomega) {
		now := version()
		g.Consistently(version, 2*time.Second, pollInterval).Should(Equal(now))
	}).Should(Succeed(), "it waits without writing")
}

func (h *harness) installsThird() {
	h.install(third)
	h.Expect(h.addonStatus(third)).To(Equal("absent"), "no cluster has its label")
	h.cluster(func(c *clusterv1.Cluster) { c.Labels["elbv2.k8s.aws/enabled"] = "true" })
	h.ready(third)
	deployed := &appsv1.Deployment{}
	h.Expect(h.workload.Get(h.ctx, client.ObjectKey{Namespace: "kube-system", Name: third}, deployed)).To(Succeed())
	h.Expect(strings.Join(deployed.Spec.Template.Spec.Containers[0].Args, " ")).To(ContainSubstring("--cluster-name=" + h.name))
}

func (h *harness) losesLabel() {
	h.cluster(func(c *clusterv1.Cluster) { delete(c.Labels, "elbv2.k8s.aws/enabled") })
	h.Eventually(func() string { return h.addonStatus(third) }).Should(Equal("absent"), "it is removed")
	err := h.workload.Get(h.ctx, client.ObjectKey{Namespace: "kube-system", Name: third}, &appsv1.Deployment{})
	h.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "its Deployment is deleted")
	h.Expect(h.release("kube-system", third).GetName()).To(BeEmpty(), "its HelmRelease is deleted")
	h.Eventually(func() []string { return h.rendered(third) }).Should(BeEmpty(), "its objects in the management cluster are deleted")
}
