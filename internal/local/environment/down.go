package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// grace is how long a run of Terraform may take to exit. It is short because the
// local clusters that the run creates are stopped too.
const grace = 3 * time.Second

// Down stops all processes of the environment and its local clusters, and removes its
// directory. It does not delete clusters: resources that a template has created outside
// of this machine stay. An environment that does not exist is not an error.
func (e *Environment) Down(ctx context.Context, report Report) error {
	if exists, err := e.exists(); err != nil || !exists {
		return err
	}
	release, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"Management cluster", e.stopManagement},
		{"Terraform runs", func(ctx context.Context) error { return controlplane.StopProcesses(ctx, e.workDir(), grace) }},
		{"Local clusters", e.removeWorkloads},
		{"Files", e.remove},
	} {
		began := time.Now()
		report(Step{Name: step.name})
		if err := step.run(ctx); err != nil {
			return err
		}
		report(Step{Name: step.name, Done: true, Took: time.Since(began)})
	}
	return nil
}

// stopManagement stops the control plane with its programs, and the runners, which
// outlive the manager.
func (e *Environment) stopManagement(ctx context.Context) error {
	cluster, err := e.management("")
	if err != nil {
		return err
	}
	if err := cluster.Stop(ctx); err != nil {
		return err
	}
	return controlplane.StopProcesses(ctx, e.managementDir(), grace)
}

func (e *Environment) removeWorkloads(ctx context.Context) error {
	clusters, err := e.workloads("")
	if err != nil {
		return err
	}
	errs := make([]error, len(clusters))
	var group sync.WaitGroup
	for i, cluster := range clusters {
		group.Go(func() { errs[i] = cluster.Down(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// remove removes the files. The record is removed last, so that Down can be repeated
// after an interruption.
func (e *Environment) remove(context.Context) error {
	entries, err := os.ReadDir(e.Dir)
	if err != nil {
		return fmt.Errorf("removing the environment: %w", err)
	}
	for _, entry := range entries {
		if path := e.path(entry.Name()); path != e.recordFile() {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("removing the environment: %w", err)
			}
		}
	}
	if err := os.RemoveAll(e.Dir); err != nil {
		return fmt.Errorf("removing the environment: %w", err)
	}
	os.Remove(e.lockFile())
	return nil
}
