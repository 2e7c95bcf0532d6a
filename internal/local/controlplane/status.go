package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/host"
)

// Status is the observed state of a control plane.
type Status struct {
	Directory string `json:"directory"`
	// Exists reports whether the directory has a control plane.
	Exists            bool   `json:"exists"`
	Name              string `json:"name,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Endpoint          string `json:"endpoint,omitempty"`
	// Running reports whether a supervisor is running. Ready reports whether it has
	// applied the latest spec and all parts are ready.
	Running    bool         `json:"running"`
	Ready      bool         `json:"ready"`
	Supervisor *Process     `json:"supervisor,omitempty"`
	Parts      []PartStatus `json:"parts,omitempty"`
	// Workloads are the programs that run for Deployments of the cluster. They do
	// not count for Ready.
	Workloads []PartStatus `json:"workloads,omitempty"`
}

// PartStatus is the observed state of a part.
type PartStatus struct {
	Name string `json:"name"`
	// Process is the running process, or the last one.
	Process
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Restarts counts how often it exited unexpectedly and was restarted.
	Restarts int `json:"restarts"`
	// Since is when it was last started, and LastExit how it exited before.
	Since    time.Time `json:"since,omitzero"`
	LastExit string    `json:"lastExit,omitempty"`
	// Waiting is what it waits for before it can start.
	Waiting string `json:"waiting,omitempty"`
}

// observation is the state that the supervisor records.
type observation struct {
	// RequestID is the ID of the applied request.
	RequestID  string       `json:"requestID"`
	Supervisor Process      `json:"supervisor"`
	Parts      []PartStatus `json:"parts"`
	Workloads  []PartStatus `json:"workloads,omitempty"`
}

func (o *observation) ready(id string) bool {
	if o.RequestID != id || len(o.Parts) == 0 {
		return false
	}
	for _, part := range o.Parts {
		if !part.Ready {
			return false
		}
	}
	return true
}

// waiting returns the names of the parts that are not ready.
func (o *observation) waiting() string {
	var names []string
	for _, part := range o.Parts {
		if !part.Ready {
			names = append(names, part.Name)
		}
	}
	if len(names) == 0 {
		return "the supervisor"
	}
	return strings.Join(names, ", ")
}

// Status returns the state of the control plane. It does not wait and changes nothing.
func (c *Cluster) Status(ctx context.Context) (*Status, error) {
	l := layout(c.Dir)
	status := &Status{Directory: c.Dir}
	var desired request
	if err := readJSON(l.spec(), &desired); err != nil {
		return nil, err
	}
	if desired.ID == "" {
		return status, nil
	}
	status.Exists = true
	status.Name, status.KubernetesVersion = desired.Name, desired.KubernetesVersion
	endpoint, err := os.ReadFile(l.endpoint())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the endpoint: %w", err)
	}
	status.Endpoint = strings.TrimSpace(string(endpoint))
	var observed observation
	if err := readJSON(l.status(), &observed); err != nil {
		return nil, err
	}
	if status.Running, err = host.IsLocked(l.supervisorLock()); err != nil {
		return nil, err
	}
	status.Parts, status.Workloads = observed.Parts, observed.Workloads
	if !status.Running {
		for i := range status.Parts {
			status.Parts[i].Running, status.Parts[i].Ready = false, false
		}
		status.Workloads = nil
		return status, nil
	}
	status.Supervisor = &observed.Supervisor
	status.Ready = observed.ready(desired.ID) && c.probe(ctx, "/readyz") == nil
	return status, nil
}

// probe requests a path of the API server as an administrator.
func (c *Cluster) probe(ctx context.Context, path string) error {
	l := layout(c.Dir)
	endpoint, err := os.ReadFile(l.endpoint())
	if err != nil {
		return fmt.Errorf("reading the endpoint: %w", err)
	}
	client, err := l.client(probeTimeout)
	if err != nil {
		return err
	}
	return get(ctx, client, strings.TrimSpace(string(endpoint))+path)
}

// get returns an error unless the status of the response is 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("requesting: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned status %s", url, resp.Status)
	}
	return nil
}
