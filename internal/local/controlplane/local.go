// Package local runs a Kubernetes control plane as processes of this machine,
// with all it needs in one directory. A detached supervisor keeps the processes
// alive; Cluster asks for one, changes it, looks at it and ends it.
//
// The pods of such a cluster do nothing: KWOK says that they run. With the extra
// part Workloads the supervisor carries out a few Deployments nevertheless, by
// real programs of this machine: Flux's source-controller and helm-controller,
// and Karpenter with its kwok provider. The program runs while the Deployment
// asks for replicas, whether or not a pod of it was played; there is one process
// however many replicas there are; it is the version that is installed here,
// whatever image the Deployment names; and it acts as an administrator, so the
// Deployment's service account and its permissions are not put to the test.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Cluster is the control plane of one directory, whether it runs or not.
type Cluster struct {
	// Dir holds everything that belongs to the control plane. It is absolute.
	Dir string
	// Supervisor is the command that calls Supervise; "--dir" and the directory
	// are added to it. Empty is this program with the argument "run".
	Supervisor []string
}

// New returns the control plane of a directory and touches nothing.
func New(dir string) (*Cluster, error) {
	if dir == "" {
		return nil, errors.New("a directory is needed: name one that is empty or does not exist yet")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the directory: %w", err)
	}
	return &Cluster{Dir: abs}, nil
}

// Kubeconfig is the file with which an administrator reaches the API server. It
// exists once the control plane was up.
func (c *Cluster) Kubeconfig() string { return layout(c.Dir).kubeconfig() }

// Log is the file with the output of a part or program.
func (c *Cluster) Log(name string) string { return layout(c.Dir).log(name) }

// Authority is the file with the certificate of the cluster's authority.
func (c *Cluster) Authority() string { return layout(c.Dir).authority() }

// WebhookPair are the files of a certificate and its key with which programs
// serve webhooks at the loopback address: it is of the cluster's authority. They
// exist once the control plane was up.
func (c *Cluster) WebhookPair() (certificate, key string) {
	l := layout(c.Dir)
	return l.pki(webhookPair + ".crt"), l.pki(webhookPair + ".key")
}

// supervisorCommand returns what starts the supervisor.
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

// begin takes the directory's operation lock, for a control plane is brought up
// or ended by one process at a time. The directory is made if create says so;
// without it, a nil lock means that there is no directory.
func (c *Cluster) begin(ctx context.Context, create bool) (*lock, error) {
	for {
		if err := checkDirectory(c.Dir); errors.Is(err, os.ErrNotExist) {
			if !create {
				return nil, nil
			}
			if err := os.MkdirAll(c.Dir, 0o700); err != nil {
				return nil, fmt.Errorf("making the directory: %w", err)
			}
		} else if err != nil {
			return nil, err
		}
		held, err := waitForLock(ctx, layout(c.Dir).operationLock())
		if errors.Is(err, os.ErrNotExist) || err == nil && !held.current() {
			// Whoever held it before removed the directory.
			if held != nil {
				held.release()
			}
			continue
		}
		return held, err
	}
}
