package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

func (n *Node) startScheduler(assets string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	kubeconfig := n.env.Kubeconfig
	cmd := exec.Command(filepath.Join(assets, "kube-scheduler"),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port="+port,
		"--cert-dir="+filepath.Join(n.dir, "scheduler"),
	)
	return n.env.startProcess("kube-scheduler", cmd, fmt.Sprintf("https://127.0.0.1:%s/healthz", port))
}

// startKubelet runs a kubelet that does not change the machine's cgroups and never
// evicts pods, because other programs use the machine too.
func (n *Node) startKubelet(assets string) error {
	program := filepath.Join(assets, "kubelet")
	if _, err := os.Stat(program); err != nil {
		return errors.New("kubelet not found: run `make parts` first")
	}
	health, err := freePort()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	config := filepath.Join(n.dir, "kubelet.yaml")
	if err := os.WriteFile(config, n.kubeletConfig(health, port), 0o644); err != nil {
		return fmt.Errorf("configuring the kubelet: %w", err)
	}
	n.kubelet = exec.Command(program,
		"--config="+config,
		"--kubeconfig="+n.env.Kubeconfig,
		"--root-dir="+filepath.Join(n.dir, "kubelet"),
		"--cert-dir="+filepath.Join(n.dir, "kubelet-certs"),
		"--hostname-override="+nodeName,
		"--node-ip="+nodeAddress,
	)
	return n.env.startProcess("kubelet", n.kubelet, "http://127.0.0.1:"+health+"/healthz")
}

// Freeze stops the kubelet, as if the node was disconnected: pods keep running, but
// their status is no longer reported. Thaw resumes the kubelet.
func (n *Node) Freeze() error { return n.kubelet.Process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen node.
func (n *Node) Thaw() error { return n.kubelet.Process.Signal(syscall.SIGCONT) }

func (n *Node) kubeletConfig(health, port string) []byte {
	return []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: ` + port + `
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
healthzPort: ` + health + `
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: ` + strconv.Quote("unix://"+n.socket()) + `
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
resolvConf: ""
registerNode: true
podLogsDir: ` + strconv.Quote(filepath.Join(n.dir, "logs")) + `
volumePluginDir: ` + strconv.Quote(filepath.Join(n.dir, "plugins")) + `
`)
}
