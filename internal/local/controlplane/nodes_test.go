package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/local/node"
)

func namespacesOf(t *testing.T, kubeconfig string) error {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		return err
	}
	return namespaces(t, config)
}

var keyData = regexp.MustCompile(`client-key-data: (\S+)`)

// expectNoKeys checks that tofu has not printed the key of a kubeconfig.
func expectNoKeys(t *testing.T, w *workspace, kubeconfig string) {
	t.Helper()
	key := keyData.FindStringSubmatch(kubeconfig)
	if key == nil {
		t.Fatal("the kubeconfig has no key")
	}
	NewWithT(t).Expect(w.output.String()).NotTo(ContainSubstring(key[1][:60]))
}

func getNode(t *testing.T, c client.Client, name string) *corev1.Node {
	t.Helper()
	var found corev1.Node
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &found); err != nil {
		t.Fatal(err)
	}
	return &found
}

func isReady(g Gomega, c client.Client, t *testing.T, name string) {
	var found corev1.Node
	g.Expect(c.Get(t.Context(), client.ObjectKey{Name: name}, &found)).To(Succeed())
	for _, condition := range found.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			g.Expect(condition.Status).To(Equal(corev1.ConditionTrue))
			return
		}
	}
	g.Expect(found.Status.Conditions).NotTo(BeEmpty())
}

func TestNodes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	status := mustUp(t, cluster, spec(func(s *Spec) { s.With = []string{"controller-manager", "scheduler", "kwok"} }))
	kubeconfig := read(t, layout(cluster.Dir).kubeconfig())
	c := connect(t, cluster)
	common := map[string]any{
		"cluster_name": "demo", "cluster_endpoint": status.Endpoint, "kubeconfig": kubeconfig, "kubernetes_version": "1.37", "program": program,
	}

	group := newWorkspace(t, "node-group", common)
	t.Run("machine", func(t *testing.T) { testMachine(t, newWorkspace(t, "machine", common), c, kubeconfig) })
	t.Run("node group", func(t *testing.T) { testNodeGroup(t, group, c, kubeconfig) })
	t.Run("pods", func(t *testing.T) { testPods(t, c) })
	t.Run("client", func(t *testing.T) { testClient(t, cluster, c, kubeconfig) })

	// Deleting a node of a cluster that no longer exists succeeds.
	g.Expect(cluster.Down(t.Context())).To(Succeed())
	group.destroy(t)
	api, err := node.NewClient([]byte(kubeconfig))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(StateOf([]byte(kubeconfig))).To(Equal(Stopped))
	api.MaxAbsence = func() time.Duration { return 0 }
	g.Expect(api.Delete(t.Context(), "pool-0", "local:///x/pool-0")).To(Equal("the cluster no longer exists"))
	g.Expect(runNode(t, "delete", kubeconfig, "pool-0")).To(Equal("node pool-0: the cluster no longer exists\n"))
	expectNoKeys(t, group, kubeconfig)
}

func testMachine(t *testing.T, w *workspace, c client.Client, kubeconfig string) {
	g := NewWithT(t)
	w.vars["name"], w.vars["availability_zone"] = "one", "zone-1"
	w.vars["labels"] = map[string]string{"team": "a", "old": "x"}
	w.vars["taints"] = []map[string]string{{"key": "dedicated", "value": "db", "effect": "NoSchedule"}}
	w.apply(t)
	w.settled(t)
	outputs := w.outputs(t)
	g.Expect(outputs["provider_id"]).To(Equal("local:///zone-1/one"))
	g.Expect(outputs["node_name"]).To(Equal("one"))
	g.Expect(outputs["availability_zone"]).To(Equal("zone-1"))
	g.Eventually(isReady).WithArguments(c, t, "one").Should(Succeed(), "KWOK simulates it")

	made := getNode(t, c, "one")
	g.Expect(made.Spec.ProviderID).To(Equal("local:///zone-1/one"))
	g.Expect(made.Labels).To(And(HaveKeyWithValue("topology.kubernetes.io/zone", "zone-1"), HaveKeyWithValue("node.kubernetes.io/instance-type", "m5.large"),
		HaveKeyWithValue("team", "a"), HaveKeyWithValue("old", "x")))
	g.Expect(made.Spec.Taints).To(ContainElement(corev1.Taint{Key: "dedicated", Value: "db", Effect: "NoSchedule"}))
	g.Expect(made.Status.NodeInfo.KubeletVersion).To(Equal("v1.37.0"))
	addresses := outputs["addresses"].([]any)
	g.Expect(addresses).To(HaveLen(2))
	for i, address := range made.Status.Addresses {
		g.Expect(addresses[i]).To(Equal(map[string]any{"type": string(address.Type), "address": address.Address}))
	}

	w.vars["labels"], w.vars["taints"] = map[string]string{"team": "b"}, []any{}
	w.vars["tags"] = map[string]string{"cost": "1"}
	g.Expect(w.actions(t)).To(Equal(map[string]string{"terraform_data.node": "delete create"}), "the machine is not replaced")
	w.apply(t)
	w.settled(t)
	changed := getNode(t, c, "one")
	g.Expect(changed.UID).To(Equal(made.UID))
	g.Expect(changed.Labels).To(And(HaveKeyWithValue("team", "b"), Not(HaveKey("old"))))
	g.Expect(changed.Spec.Taints).NotTo(ContainElement(HaveField("Key", "dedicated")))
	g.Expect(changed.Annotations).To(HaveKeyWithValue("capt.appthrust.io/tags", `{"cost":"1"}`))

	w.vars["availability_zone"] = "zone-2"
	w.apply(t)
	replaced := getNode(t, c, "one")
	g.Expect(replaced.UID).NotTo(Equal(made.UID))
	g.Expect(replaced.Spec.ProviderID).To(Equal("local:///zone-2/one"))
	w.destroy(t)
	g.Expect(apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "one"}, &corev1.Node{}))).To(BeTrue())
	expectNoKeys(t, w, kubeconfig)
}

func testNodeGroup(t *testing.T, w *workspace, c client.Client, kubeconfig string) {
	g := NewWithT(t)
	w.vars["name"], w.vars["desired_size"], w.vars["capacity_type"] = "pool", 2, "SPOT"
	w.vars["instance_types"] = []string{"m5.large", "m6i.large"}
	w.apply(t)
	w.settled(t)
	g.Expect(texts(w.outputs(t)["node_names"])).To(Equal([]string{"pool-0", "pool-1"}))
	first, second := getNode(t, c, "pool-0"), getNode(t, c, "pool-1")
	g.Expect(second.Labels).To(And(HaveKeyWithValue("eks.amazonaws.com/capacityType", "SPOT"), HaveKeyWithValue("eks.amazonaws.com/nodegroup", "pool"),
		HaveKeyWithValue("node.kubernetes.io/instance-type", "m6i.large"), HaveKeyWithValue("topology.kubernetes.io/zone", "local-b")))

	w.vars["desired_size"] = 3
	g.Expect(w.actions(t)).To(Equal(map[string]string{
		"terraform_data.node_group": "update", `terraform_data.machine["pool-2"]`: "create", `terraform_data.node["pool-2"]`: "create",
	}))
	w.apply(t)
	g.Expect(getNode(t, c, "pool-0").UID).To(Equal(first.UID))
	g.Expect(texts(w.outputs(t)["provider_id_list"])).To(Equal([]string{"local:///local-a/pool-0", "local:///local-b/pool-1", "local:///local-c/pool-2"}))

	w.vars["desired_size"] = 1
	w.apply(t)
	w.settled(t)
	g.Expect(w.outputs(t)["desired_size"]).To(BeEquivalentTo(1))
	var nodes corev1.NodeList
	g.Expect(c.List(t.Context(), &nodes)).To(Succeed())
	g.Expect(nodes.Items).To(HaveLen(1))
	g.Expect(nodes.Items[0].UID).To(Equal(first.UID), "the first node was never replaced")
	expectNoKeys(t, w, kubeconfig)
}

// testPods runs a pod on the node of the group.
func testPods(t *testing.T, c client.Client) {
	g := NewWithT(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
	}
	// The default service account is created shortly after the namespace.
	g.Eventually(func() error { return c.Create(t.Context(), pod) }).Should(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		g.Expect(pod.Spec.NodeName).To(Equal("pool-0"))
		g.Expect(pod.Status.PodIP).NotTo(BeEmpty())
	}).Should(Succeed(), "it is scheduled and KWOK simulates it")

	// Kubernetes does this to the pods of a node that was unreachable for a while.
	marked := pod.DeepCopy()
	for i := range marked.Status.Conditions {
		if marked.Status.Conditions[i].Type == corev1.PodReady {
			marked.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	g.Expect(c.Status().Patch(t.Context(), marked, client.MergeFrom(pod))).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))
		g.Expect(pod.Status.Conditions).To(HaveLen(len(marked.Status.Conditions)))
	}).Should(Succeed(), "KWOK makes it ready again")
	g.Expect(c.Delete(t.Context(), pod)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	}).Should(BeTrue(), "KWOK deletes it")
}

func testClient(t *testing.T, cluster *Cluster, c client.Client, kubeconfig string) {
	g := NewWithT(t)
	api, err := node.NewClient([]byte(kubeconfig))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(api.Delete(t.Context(), "missing", "local:///x/missing")).To(Equal("the node does not exist"))
	g.Expect(api.Delete(t.Context(), "pool-0", "local:///elsewhere/pool-0")).To(ContainSubstring("belongs to another machine"))
	g.Expect(api.Apply(t.Context(), &node.Node{Name: "pool-0", ProviderID: "local:///elsewhere/pool-0"})).To(MatchError(ContainSubstring("choose another name")))
	g.Expect(getNode(t, c, "pool-0").Spec.ProviderID).To(Equal("local:///local-a/pool-0"))

	secret := keyData.ReplaceAllString(kubeconfig, "client-key-data: top-secret-but-not-base64!")
	g.Expect(node.NewClient([]byte(secret))).Error().To(MatchError(And(ContainSubstring("the kubeconfig is invalid"), Not(ContainSubstring("top-secret")))))

	// The client waits for an API server that restarts.
	g.Expect(StateOf([]byte(kubeconfig))).To(Equal(Supervised))
	g.Expect(runNode(t, "apply", kubeconfig, "late")).To(Equal("node late is applied\n"))
	server := part(t, cluster, APIServer)
	g.Expect(syscall.Kill(server.PID, syscall.SIGKILL)).To(Succeed())
	g.Expect(server.stop(t.Context(), time.Second)).To(Succeed())
	g.Expect(runNode(t, "delete", kubeconfig, "late")).To(Equal("node late: deleted\n"), "the cluster still exists")
	g.Expect(part(t, cluster, APIServer).PID).NotTo(Equal(server.PID))

	// Another cluster on the same port is not the cluster of the kubeconfig.
	foreign := layout(t.TempDir())
	g.Expect(foreign.ensureCertificates(now)).To(Succeed())
	g.Expect(foreign.writeKubeconfig("foreign", serverOf(t, kubeconfig))).To(Succeed())
	text, err := os.ReadFile(foreign.kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	other, err := node.NewClient(text)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(StateOf(text)).To(Equal(Stopped))
	g.Expect(other.Delete(t.Context(), "pool-0", "local:///local-a/pool-0")).To(Equal("the cluster no longer exists"))
	g.Expect(getNode(t, c, "pool-0")).NotTo(BeNil())
}

// runNode runs the program as the modules do.
func runNode(t *testing.T, command, kubeconfig, name string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "node", command)
	cmd.Env = []string{"LOCALCLUSTER_KUBECONFIG=" + kubeconfig}
	cmd.Stdin = strings.NewReader(`{"name":"` + name + `","providerID":"local:///a/` + name + `"}`)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

func serverOf(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	return config.Host
}
