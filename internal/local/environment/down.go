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

// grace is how long a run of Terraform may take to end: what it has made is
// ended as well.
const grace = 3 * time.Second

// Down ends everything that the environment runs, local clusters included, and
// removes its directory. Nothing is deleted properly: what a template made
// elsewhere than on this machine stays. An environment that does not exist is
// no error.
func (e *Environment) Down(ctx context.Context, report Report) error {
	if exists, err := e.exists(); err != nil || !exists {
		return err
	}
	release, err := controlplane.Lock(ctx, e.lockFile())
	if err != nil {
		return err
	}
	defer release()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"Management cluster", e.endManagement},
		{"Runs of Terraform", func(ctx context.Context) error { return controlplane.StopProcesses(ctx, e.workDir(), grace) }},
		{"Local clusters", e.endWorkloads},
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

// endManagement ends the control plane with its programs, and runners, which
// outlive the manager.
func (e *Environment) endManagement(ctx context.Context) error {
	cluster, err := e.management("")
	if err != nil {
		return err
	}
	if err := cluster.Stop(ctx); err != nil {
		return err
	}
	return controlplane.StopProcesses(ctx, e.managementDir(), grace)
}

func (e *Environment) endWorkloads(ctx context.Context) error {
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

// remove takes the mark away last, so that an interrupted Down can be called
// again.
func (e *Environment) remove(context.Context) error {
	entries, err := os.ReadDir(e.Dir)
	if err != nil {
		return fmt.Errorf("removing the environment: %w", err)
	}
	for _, entry := range entries {
		if path := e.path(entry.Name()); path != e.mark() {
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
