package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// containerdConfig separates this containerd from the machine's own. The kernel does
// not allow a container to have a lower OOM score than containerd, so
// restrict_oom_score_adj is required if the tests run with a raised score.
const containerdConfig = `version = 2
root = "DIR/root"
state = "DIR/state"
oom_score = 0
[grpc]
  address = "DIR/containerd.sock"
[metrics]
  address = "METRICS"
[plugins."io.containerd.internal.v1.opt"]
  path = "DIR/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "CNI"
    conf_dir = "DIR/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`

// cniConfig assigns pods an address on the existing bridge, which has the machine's
// address.
const cniConfig = `{
  "cniVersion": "1.0.0",
  "name": "capt-test",
  "plugins": [{
    "type": "bridge",
    "bridge": "BRIDGE",
    "ipam": {
      "type": "host-local",
      "dataDir": "DIR/ipam",
      "ranges": [[{"subnet": "SUBNET", "gateway": "GATEWAY"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }, {"type": "loopback"}]
}
`

func (n *Node) startContainerd() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("DIR", n.dir, "METRICS", "127.0.0.1:"+port, "PAUSE", pauseImage, "CNI", cniPlugins,
		"BRIDGE", nodeBridge, "SUBNET", nodeSubnet, "GATEWAY", nodeAddress)
	config := filepath.Join(n.dir, "containerd.toml")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(n.dir, "cni"), 0o755),
		os.WriteFile(filepath.Join(n.dir, "cni", "capt.conflist"), []byte(fill.Replace(cniConfig)), 0o644),
		os.WriteFile(config, []byte(fill.Replace(containerdConfig)), 0o644),
	); err != nil {
		return fmt.Errorf("configuring containerd: %w", err)
	}
	n.env.stops = append(n.env.stops, n.unmount)
	cmd := exec.Command("containerd", "--config="+config)
	if err := n.env.startProcess("containerd", cmd, "http://127.0.0.1:"+port+"/v1/metrics"); err != nil {
		return err
	}
	n.env.stops = append(n.env.stops, n.removeContainers)
	return nil
}

// ctr runs a containerd command in the namespace of the kubelet.
func (n *Node) ctr(args ...string) error {
	return run("ctr", slices.Concat([]string{"--address=" + n.socket(), "--namespace=k8s.io"}, args)...)
}

func (n *Node) socket() string { return filepath.Join(n.dir, "containerd.sock") }

// removePods deletes all pods while the kubelet is still running and stops them
// properly.
func (n *Node) removePods() error {
	ctx := context.Background()
	c := n.env.Client
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	now, background := int64(0), metav1.DeletePropagationBackground
	for i := range namespaces.Items {
		in := client.InNamespace(namespaces.Items[i].Name)
		if err := errors.Join(
			c.DeleteAllOf(ctx, &batchv1.Job{}, in, &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{PropagationPolicy: &background}}),
			c.DeleteAllOf(ctx, &corev1.Pod{}, in, &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{GracePeriodSeconds: &now}}),
		); err != nil {
			return fmt.Errorf("deleting pods: %w", err)
		}
	}
	return nil
}

// removeContainers removes the remaining containers, and with them their shim
// processes.
func (n *Node) removeContainers() error {
	out, err := exec.Command("ctr", "--address="+n.socket(), "--namespace=k8s.io", "tasks", "ls", "-q").Output()
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	for id := range strings.FieldsSeq(string(out)) {
		// A container may have exited already.
		_ = n.ctr("tasks", "rm", "--force", id)
	}
	return nil
}

// unmount unmounts what kubelet and containerd have mounted, in reverse order.
func (n *Node) unmount() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(mounts)), "\n")
	var errs []error
	for _, line := range slices.Backward(lines) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], n.dir+"/") {
			errs = append(errs, run("umount", "--lazy", fields[1]))
		}
	}
	return errors.Join(errs...)
}
