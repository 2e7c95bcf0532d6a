package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// startControllerManager runs all controllers of Kubernetes, such as those for garbage
// collection, namespaces and service accounts.
func (e *Environment) startControllerManager(assets string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	certs := e.api.ControlPlane.GetAPIServer().CertDir
	// Pods verify the API server with this CA.
	ca := filepath.Join(e.Dir, "ca.crt")
	if err := os.WriteFile(ca, e.Config.CAData, 0o644); err != nil {
		return fmt.Errorf("writing the CA of the API server: %w", err)
	}
	cmd := exec.Command(filepath.Join(assets, "kube-controller-manager"),
		"--kubeconfig="+e.Kubeconfig,
		"--authentication-kubeconfig="+e.Kubeconfig,
		"--authorization-kubeconfig="+e.Kubeconfig,
		"--service-account-private-key-file="+filepath.Join(certs, "sa-signer.key"),
		"--root-ca-file="+ca,
		"--use-service-account-credentials=false",
		"--leader-elect=false",
		"--node-monitor-grace-period=1h", // No kubelet renews the nodes of tests.
		"--bind-address=127.0.0.1",
		"--secure-port="+port,
		"--cert-dir="+e.Dir,
	)
	return e.startProcess("kube-controller-manager", cmd, fmt.Sprintf("https://127.0.0.1:%s/healthz", port))
}
