package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/host"
)

const (
	// nodeName is the name of the node that runs pods.
	nodeName = "capt-test"
	// nodeBridge connects pods with the machine.
	nodeBridge = "capt-test0"
	// nodeAddress is the address at which pods reach the machine.
	nodeAddress = "10.214.0.1"
	nodeSubnet  = "10.214.0.0/16"
	// apiAddress is the address of the API server's Service, the first of its range.
	// The API server listens on it, so that pods reach it without a proxy for
	// Services.
	apiAddress   = "10.213.0.1"
	serviceRange = "10.213.0.0/24"

	pauseImage = "capt.test/pause:1"
)

// cniPlugins is the directory in which Debian installs the plugins.
const cniPlugins = "/usr/lib/cni"

// Node runs the pods of an environment on this machine.
type Node struct {
	// Address is the address at which pods reach the machine.
	Address string

	env     *Environment
	root    string
	dir     string
	kubelet *exec.Cmd
}

// WithNode adds a node that runs pods: containerd, a kubelet, the scheduler and
// kube-controller-manager. It fails if MissingForNode is not empty. A machine can have
// only one such environment at a time; the next one waits.
func WithNode() Option {
	return func(o *options) { o.node, o.controllerManager = true, true }
}

// MissingForNode returns why this machine cannot run pods, or an empty string if it
// can.
func MissingForNode() string {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return "running pods requires Linux and root"
	}
	var missing []string
	for _, program := range []string{"containerd", "ctr", "runc", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if _, err := os.Stat(filepath.Join(cniPlugins, "bridge")); err != nil {
		missing = append(missing, "CNI plugins in "+cniPlugins)
	}
	if len(missing) == 0 {
		return ""
	}
	return "running pods requires " + strings.Join(missing, ", ") +
		": apt-get install --no-install-recommends containerd runc containernetworking-plugins iproute2"
}

// nodeEnv enables the tests that run pods. They are disabled by default because they
// need root and change the machine's network.
const nodeEnv = "CAPT_TEST_NODE"

// NeedsNode skips the test if this machine cannot run pods.
func NeedsNode(t testing.TB) {
	t.Helper()
	if os.Getenv(nodeEnv) == "" {
		t.Skipf("tests that run pods are disabled: use `make test-job` or set %s=1", nodeEnv)
	}
	if missing := MissingForNode(); missing != "" {
		t.Skip(missing)
	}
}

// Node returns the node of WithNode.
func (e *Environment) Node() *Node { return e.node }

// prepareNode creates the network and makes the API server listen in it.
func (e *Environment) prepareNode(root string) error {
	if missing := MissingForNode(); missing != "" {
		return errors.New(missing)
	}
	e.node = &Node{Address: nodeAddress, env: e, root: root, dir: filepath.Join(e.Dir, "node")}
	if err := os.MkdirAll(e.node.dir, 0o755); err != nil {
		return fmt.Errorf("creating the directory of the node: %w", err)
	}
	if err := e.node.lock(); err != nil {
		return err
	}
	if err := e.node.createNetwork(); err != nil {
		return err
	}
	server := e.api.ControlPlane.GetAPIServer()
	server.Address, server.Port = apiAddress, "443"
	// Webhooks are called in their pods: there is no proxy for Services.
	server.Configure().Set("service-cluster-ip-range", serviceRange).Set("enable-aggregator-routing", "true")
	return nil
}

// lock waits until no other environment on this machine has a node.
func (n *Node) lock() error {
	lock, err := host.LockFile(context.Background(), filepath.Join(os.TempDir(), "capt-test-node.lock"))
	if err != nil {
		return fmt.Errorf("locking the node: %w", err)
	}
	n.env.stops = append(n.env.stops, lock.File.Close)
	return nil
}

// createNetwork creates a bridge for the pods and an address for the API server. Pods
// reach only the machine, which forwards no packets.
func (n *Node) createNetwork() error {
	n.env.stops = append(n.env.stops, func() error {
		return errors.Join(run("ip", "link", "del", nodeBridge), run("ip", "addr", "del", apiAddress+"/32", "dev", "lo"))
	})
	// A killed environment has not deleted its bridge.
	_ = run("ip", "link", "del", nodeBridge)
	return errors.Join(
		run("ip", "addr", "replace", apiAddress+"/32", "dev", "lo"),
		// Without its own address a bridge has that of one of its ports, and pods
		// lose the connection to the machine when that port is removed.
		run("ip", "link", "add", nodeBridge, "address", "02:ca:97:00:00:01", "type", "bridge"),
		run("ip", "addr", "add", nodeAddress+"/16", "dev", nodeBridge),
		run("ip", "link", "set", nodeBridge, "up"),
	)
}

// start starts the programs of the node.
func (n *Node) start(assets string) error {
	if err := n.startScheduler(assets); err != nil {
		return err
	}
	if err := n.startContainerd(); err != nil {
		return err
	}
	pause := filepath.Join(n.dir, "pause")
	if err := n.Build(pause, "./internal/testenv/nodepause"); err != nil {
		return err
	}
	if err := n.LoadImage(pauseImage, "/pause", map[string]string{"/pause": pause}); err != nil {
		return err
	}
	if err := n.startKubelet(assets); err != nil {
		return err
	}
	n.env.stops = append(n.env.stops, n.removePods)
	return waitUntil(context.Background(), "the node", func() error {
		var node corev1.Node
		if err := n.env.Client.Get(context.Background(), client.ObjectKey{Name: nodeName}, &node); err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return errors.New("not ready")
		}
		return nil
	})
}

// PodsDir returns the directory in which the kubelet keeps the volumes of pods. What is
// mounted there is unmounted with the environment.
func (n *Node) PodsDir() string { return filepath.Join(n.dir, "kubelet", "pods") }

// LogsDir returns the directory with the output of all containers.
func (n *Node) LogsDir() string { return filepath.Join(n.dir, "logs") }

// Build compiles a program of the repository for an image.
func (n *Node) Build(out, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, pkg)
	cmd.Dir, cmd.Env = n.root, append(os.Environ(), "CGO_ENABLED=0")
	return runCommand(cmd)
}

// LoadImage builds an image of files, given by their paths in the image, and imports it
// into containerd. Pods refer to it by the tag.
func (n *Node) LoadImage(tag, entrypoint string, files map[string]string) error {
	archive := filepath.Join(n.dir, "image.tar")
	defer os.Remove(archive)
	args := []string{"run", "./image", "pack", "-tag", tag, "-entrypoint", entrypoint, "-o", archive}
	for target, source := range files {
		args = append(args, target+"="+source)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = filepath.Join(n.root, "dev"), append(os.Environ(), "CGO_ENABLED=0")
	if err := runCommand(cmd); err != nil {
		return fmt.Errorf("building image %s: %w", tag, err)
	}
	return n.ImportImage(archive)
}

// ImportImage imports the archive of an image into containerd. Pods refer to it by the
// name in the archive.
func (n *Node) ImportImage(archive string) error {
	if err := n.ctr("images", "import", archive); err != nil {
		return fmt.Errorf("importing %s: %w", archive, err)
	}
	return nil
}

func run(name string, args ...string) error { return runCommand(exec.Command(name, args...)) }

// runCommand runs a command. The error contains the output.
func runCommand(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
