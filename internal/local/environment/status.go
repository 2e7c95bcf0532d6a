package environment

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// Status is what is known of an environment.
type Status struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
	// Exists is whether it was ever brought up.
	Exists     bool   `json:"exists"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Endpoint   string `json:"endpoint,omitempty"`
	// Charts is the host and port at which charts are served, if they are.
	Charts            string `json:"charts,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Running is whether anything keeps it alive, Ready whether all parts of
	// the management cluster are ready.
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Parts are those of the management cluster.
	Parts []Part `json:"parts,omitempty"`
	// Clusters are the local clusters that it has made.
	Clusters []Cluster `json:"clusters,omitempty"`
}

// Part is one process.
type Part struct {
	controlplane.PartStatus
	// Log is the file with its output.
	Log string `json:"log"`
}

// Cluster is a local cluster.
type Cluster struct {
	Name              string `json:"name"`
	Directory         string `json:"directory"`
	Endpoint          string `json:"endpoint,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Ready             bool   `json:"ready"`
	// Parts are those of the control plane, and programs that carry out
	// Deployments.
	Parts []Part `json:"parts,omitempty"`
}

// Status looks at the environment and changes nothing.
func (e *Environment) Status(ctx context.Context) (*Status, error) {
	status := &Status{Name: e.Name, Directory: e.Dir}
	exists, err := e.exists()
	if err != nil || !exists {
		return status, err
	}
	status.Exists, status.Kubeconfig = true, e.Kubeconfig()
	management, err := e.management("")
	if err != nil {
		return nil, err
	}
	seen, err := management.Status(ctx)
	if err != nil {
		return nil, err
	}
	status.Running, status.Ready = seen.Running, seen.Ready
	status.Endpoint, status.KubernetesVersion = seen.Endpoint, seen.KubernetesVersion
	status.Parts = partsOf(management, seen)
	if slices.ContainsFunc(status.Parts, func(p Part) bool { return p.Name == Charts }) {
		port, err := management.Port(chartsPort)
		if err != nil {
			return nil, err
		}
		status.Charts = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	clusters, err := e.workloads("")
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters {
		seen, err := cluster.Status(ctx)
		if err != nil {
			return nil, err
		}
		if !seen.Exists {
			continue
		}
		status.Clusters = append(status.Clusters, Cluster{
			Name: seen.Name, Directory: seen.Directory, Endpoint: seen.Endpoint, KubernetesVersion: seen.KubernetesVersion,
			Ready: seen.Ready, Parts: partsOf(cluster, seen),
		})
	}
	return status, nil
}

func partsOf(cluster *controlplane.Cluster, seen *controlplane.Status) []Part {
	var parts []Part
	for _, part := range append(seen.Parts, seen.Workloads...) {
		parts = append(parts, Part{PartStatus: part, Log: cluster.Log(part.Name)})
	}
	return parts
}
