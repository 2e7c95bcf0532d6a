package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// instance is a running instance of the cluster.
type instance struct {
	ID   string `xml:"instanceId"`
	Zone string `xml:"placement>availabilityZone"`
	DNS  string `xml:"privateDnsName"`
	Tags []struct {
		Key   string `xml:"key"`
		Value string `xml:"value"`
	} `xml:"tagSet>item"`
}

func (i *instance) tag(key string) string {
	for _, t := range i.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

func (i *instance) providerID() string { return "aws:///" + i.Zone + "/" + i.ID }

// joinNodes keeps the nodes of the workload cluster those of its instances, as their
// kubelets and the cloud controller manager do, until the test ends.
func joinNodes(m *management, server *apiServer) {
	m.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(server.dir, "kubeconfig"))
	m.Expect(err).NotTo(HaveOccurred())
	workload, err := kubernetes.NewForConfig(config)
	m.Expect(err).NotTo(HaveOccurred())
	// Errors pass: the API server restarts during an upgrade.
	m.repeat(func(ctx context.Context) { _ = m.updateNodes(ctx, workload) })
}

// repeat calls a function every two seconds until the test ends.
func (m *management) repeat(do func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(m.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			do(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	}()
	m.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// instances returns the running instances of the cluster. pairs are parameters of further
// filters.
func (m *management) instances(ctx context.Context, pairs ...string) ([]instance, error) {
	var found struct {
		Instances []instance `xml:"reservationSet>item>instancesSet>item"`
	}
	form := url.Values{
		"Action": {"DescribeInstances"}, "Version": {"2016-11-15"},
		"Filter.1.Name": {"tag:kubernetes.io/cluster/" + m.cluster}, "Filter.1.Value.1": {"owned"},
		"Filter.2.Name": {"instance-state-name"}, "Filter.2.Value.1": {"running"},
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	_, text, err := m.send(ctx, http.MethodPost, "/", "ec2", "application/x-www-form-urlencoded", "", form.Encode())
	if err != nil {
		return nil, err
	}
	err = xml.Unmarshal([]byte(text), &found)
	return found.Instances, err
}

// updateNodes creates the nodes of new instances and deletes those of terminated ones.
func (m *management) updateNodes(ctx context.Context, workload kubernetes.Interface) error {
	found, err := m.instances(ctx)
	if err != nil {
		return err
	}
	running := map[string]bool{}
	for _, i := range found {
		running[i.DNS] = true
		if err := m.joinNode(ctx, workload, i); err != nil {
			return err
		}
	}
	nodes, err := workload.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !running[name] {
			if err := workload.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// version returns the Kubernetes version of the cluster, or of one of its node groups.
func (m *management) version(ctx context.Context, nodeGroup string) (string, error) {
	path := "/clusters/" + m.cluster
	if nodeGroup != "" {
		path += "/node-groups/" + nodeGroup
	}
	_, text, err := m.send(ctx, "GET", path, "eks", "application/json", "", "")
	if err != nil {
		return "", err
	}
	var described struct {
		Cluster, NodeGroup struct{ Version string }
	}
	if err := json.Unmarshal([]byte(text), &described); err != nil {
		return "", err
	}
	return cmp.Or(described.NodeGroup.Version, described.Cluster.Version), nil
}

// joinNode creates the node of an instance. Its kubelet has the version that its node
// group has when it joins, or else that of the control plane.
func (m *management) joinNode(ctx context.Context, workload kubernetes.Interface, i instance) error {
	if _, err := workload.CoreV1().Nodes().Get(ctx, i.DNS, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	version, err := m.version(ctx, i.tag("eks:nodegroup-name"))
	if err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.DNS, Labels: map[string]string{corev1.LabelHostname: i.DNS, corev1.LabelTopologyZone: i.Zone}},
		Spec:       corev1.NodeSpec{ProviderID: i.providerID()},
	}
	if group := i.tag("eks:nodegroup-name"); group != "" {
		node.Labels["eks.amazonaws.com/nodegroup"] = group
	}
	if node, err = workload.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	now := metav1.Now()
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Kubelet", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	node.Status.NodeInfo.KubeletVersion = "v" + version + ".0"
	_, err = workload.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}
