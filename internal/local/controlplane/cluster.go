// Package controlplane runs a Kubernetes control plane as processes on this
// machine, with all its files in one directory. A detached supervisor process
// restarts the programs when they exit. Cluster starts, changes, inspects and stops
// a control plane.
//
// No kubelet runs the pods of such a cluster: KWOK simulates them. With the extra
// part Workloads the supervisor runs the real programs of a few Deployments on this
// machine: Flux's source-controller and helm-controller, and Karpenter with its
// KWOK provider. Such a program runs while its Deployment asks for at least one
// replica, as one process, whether or not a pod was simulated. It is the version
// installed on this machine, whatever image the Deployment names. It acts as an
// administrator, so the permissions of the Deployment's service account are not
// tested.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/appthrust/capt/internal/host"
)

// Cluster is the control plane of a directory, whether or not it is running.
type Cluster struct {
	// Dir contains all files of the control plane. It is absolute.
	Dir string
	// Supervisor is the command that calls Supervise. "--dir" and the directory
	// are appended to it. The default is this program with the argument "run".
	Supervisor []string
}

// New returns the control plane of a directory. It changes no files.
func New(dir string) (*Cluster, error) {
	if dir == "" {
		return nil, errors.New("the directory is required: choose one that is empty or does not exist yet")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the directory: %w", err)
	}
	return &Cluster{Dir: abs}, nil
}

// Kubeconfig returns the path of an administrator's kubeconfig. The file exists
// once the control plane has been up.
func (c *Cluster) Kubeconfig() string { return layout(c.Dir).kubeconfig() }

// Log returns the path of the log of a part or program.
func (c *Cluster) Log(name string) string { return layout(c.Dir).log(name) }

// CACertificate returns the path of the cluster's CA certificate.
func (c *Cluster) CACertificate() string { return layout(c.Dir).caCertificate() }

// WebhookCertificate returns the paths of a certificate and its key with which
// programs serve webhooks on the loopback address. The cluster's CA has signed it.
// The files exist once the control plane has been up.
func (c *Cluster) WebhookCertificate() (certificate, key string) {
	l := layout(c.Dir)
	return l.pki(webhookPair + ".crt"), l.pki(webhookPair + ".key")
}

// supervisorCommand returns the command line of the supervisor.
func (c *Cluster) supervisorCommand() ([]string, error) {
	command := c.Supervisor
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("finding this program: %w", err)
		}
		command = []string{self, "run"}
	}
	return append(slices.Clip(command), "--dir", c.Dir), nil
}

// lockOperation acquires the directory's operation lock: only one process at a time
// may start or stop the control plane. If the directory does not exist, it is
// created if create is set, and otherwise the lock is nil.
func (c *Cluster) lockOperation(ctx context.Context, create bool) (*host.FileLock, error) {
	for {
		if err := checkDirectory(c.Dir); errors.Is(err, os.ErrNotExist) {
			if !create {
				return nil, nil
			}
			if err := os.MkdirAll(c.Dir, 0o700); err != nil {
				return nil, fmt.Errorf("creating the directory: %w", err)
			}
		} else if err != nil {
			return nil, err
		}
		held, err := host.LockFile(ctx, layout(c.Dir).operationLock())
		if errors.Is(err, os.ErrNotExist) || err == nil && !held.Current() {
			// The previous holder removed the directory.
			if held != nil {
				held.Release()
			}
			continue
		}
		return held, err
	}
}
