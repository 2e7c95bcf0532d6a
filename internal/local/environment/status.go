package environment

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// Status is the observed state of an environment.
type Status struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
	// Exists reports whether it has ever been up.
	Exists     bool   `json:"exists"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Endpoint   string `json:"endpoint,omitempty"`
	// Charts is the host and port of the chart server, if there is one.
	Charts            string `json:"charts,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Running reports whether the supervisor of the management cluster is running.
	// Ready reports whether all parts of the management cluster are ready.
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Parts are the processes of the management cluster.
	Parts []Part `json:"parts,omitempty"`
	// Clusters are the local clusters that it has created.
	Clusters []Cluster `json:"clusters,omitempty"`
}

// Part is a process.
type Part struct {
	controlplane.PartStatus
	// Log is the path of its log.
	Log string `json:"log"`
}

// Cluster is a local cluster.
type Cluster struct {
	Name              string `json:"name"`
	Directory         string `json:"directory"`
	Endpoint          string `json:"endpoint,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Ready             bool   `json:"ready"`
	// Parts are the processes of the control plane and the programs of
	// Deployments.
	Parts []Part `json:"parts,omitempty"`
}

// Status returns the state of the environment. It changes nothing.
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
	observed, err := management.Status(ctx)
	if err != nil {
		return nil, err
	}
	status.Running, status.Ready = observed.Running, observed.Ready
	status.Endpoint, status.KubernetesVersion = observed.Endpoint, observed.KubernetesVersion
	status.Parts = partsOf(management, observed)
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
		observed, err := cluster.Status(ctx)
		if err != nil {
			return nil, err
		}
		if !observed.Exists {
			continue
		}
		status.Clusters = append(status.Clusters, Cluster{
			Name: observed.Name, Directory: observed.Directory, Endpoint: observed.Endpoint, KubernetesVersion: observed.KubernetesVersion,
			Ready: observed.Ready, Parts: partsOf(cluster, observed),
		})
	}
	return status, nil
}

func partsOf(cluster *controlplane.Cluster, observed *controlplane.Status) []Part {
	var parts []Part
	for _, part := range append(observed.Parts, observed.Workloads...) {
		parts = append(parts, Part{PartStatus: part, Log: cluster.Log(part.Name)})
	}
	return parts
}
