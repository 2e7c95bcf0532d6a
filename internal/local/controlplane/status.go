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
)

// Status is what is known of a control plane.
type Status struct {
	Directory string `json:"directory"`
	// Exists is whether there is a control plane in the directory at all.
	Exists            bool   `json:"exists"`
	Name              string `json:"name,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Endpoint          string `json:"endpoint,omitempty"`
	// Running is whether a supervisor lives, Ready whether it has carried out
	// what was asked for last and all parts are ready.
	Running    bool         `json:"running"`
	Ready      bool         `json:"ready"`
	Supervisor *Process     `json:"supervisor,omitempty"`
	Parts      []PartStatus `json:"parts,omitempty"`
	// Workloads are the programs that carry out Deployments of the cluster. The
	// cluster is ready without them.
	Workloads []PartStatus `json:"workloads,omitempty"`
}

// PartStatus is what is known of one part.
type PartStatus struct {
	Name string `json:"name"`
	// Process is the running process, or the one that ran last.
	Process
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Restarts counts how often it was started again after it ended by itself.
	Restarts int `json:"restarts"`
	// Since is when it last was started, LastExit how it ended before.
	Since    time.Time `json:"since,omitzero"`
	LastExit string    `json:"lastExit,omitempty"`
	// Waiting is what must come before it is started.
	Waiting string `json:"waiting,omitempty"`
}

// observation is what the supervisor writes down.
type observation struct {
	// RequestID is the request that was carried out.
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

// waiting names the parts that are not ready.
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

// Status looks at the control plane. It does not block and changes nothing.
func (c *Cluster) Status(ctx context.Context) (*Status, error) {
	l := layout(c.Dir)
	status := &Status{Directory: c.Dir}
	var wanted request
	if err := readJSON(l.spec(), &wanted); err != nil {
		return nil, err
	}
	if wanted.ID == "" {
		return status, nil
	}
	status.Exists = true
	status.Name, status.KubernetesVersion = wanted.Name, wanted.KubernetesVersion
	endpoint, err := os.ReadFile(l.endpoint())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the endpoint: %w", err)
	}
	status.Endpoint = strings.TrimSpace(string(endpoint))
	var seen observation
	if err := readJSON(l.status(), &seen); err != nil {
		return nil, err
	}
	if status.Running, err = isHeld(l.supervisorLock()); err != nil {
		return nil, err
	}
	status.Parts, status.Workloads = seen.Parts, seen.Workloads
	if !status.Running {
		for i := range status.Parts {
			status.Parts[i].Running, status.Parts[i].Ready = false, false
		}
		status.Workloads = nil
		return status, nil
	}
	status.Supervisor = &seen.Supervisor
	status.Ready = seen.ready(wanted.ID) && c.probe(ctx, "/readyz") == nil
	return status, nil
}

// probe asks the API server for a path as an administrator.
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

// get is nil when the answer is 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
