package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// fileModule is the part of the module that has a resource of a provider, which exists outside of
// the state: a file. Creating it again changes nothing.
const fileModule = `
variable "file" { type = string }
resource "local_file" "file" {
  filename = var.file
  content  = "kept"
}
`

// filesDir returns the directory of the files of all workspaces.
func filesDir(base string) string { return filepath.Join(base, "files") }

// file returns the path of the file of the workspace.
func (a *actor) file() string {
	return filepath.Join(filesDir(a.base), a.namespace, a.scenario.Name)
}

// deleteFile deletes the file of a workspace at rest. A drift check must find that, and the next
// run must create the file again.
func (a *actor) deleteFile(ctx context.Context) error {
	if err := poll(ctx, backendTimeout, a.isReady); err != nil {
		return errNoTarget
	}
	if err := os.Remove(a.file()); err != nil {
		return errNoTarget
	}
	err := a.await(ctx, func(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
		// A run that was requested before may have created it.
		if hasDrift(observed) || a.hasFile() {
			return nil
		}
		return errors.Join(a.stillWaiting(ctx, observed, "drift"), a.requestOnce(ctx, infrav1.OperationCheckDrift))
	})
	if err != nil {
		return fmt.Errorf("waiting until drift is found: %w", err)
	}
	err = a.await(ctx, func(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
		if a.hasFile() && !hasDrift(observed) {
			return nil
		}
		return errors.Join(a.stillWaiting(ctx, observed, "the file"), a.requestOnce(ctx, infrav1.OperationRun))
	})
	if err != nil {
		return fmt.Errorf("waiting until drift is repaired: %w", err)
	}
	return nil
}

// requestOnce requests an operation unless one of its type is requested already.
func (a *actor) requestOnce(ctx context.Context, kind infrav1.OperationType) error {
	requested, err := a.isRequested(ctx, func(spec *infrav1.WorkspaceOperationSpec) bool { return spec.Type == kind })
	if err != nil || requested {
		return err
	}
	return a.request(ctx, infrav1.WorkspaceOperationSpec{Type: kind})
}

func (a *actor) hasFile() bool {
	_, err := os.Stat(a.file())
	return err == nil
}

func hasDrift(observed *infrav1.WorkspaceTemplateApply) bool {
	return observed.Status.Drift != nil && len(observed.Status.Drift.Resources) > 0
}

// checkFile finds a file that does not exist although its workspace is applied.
func (a *actor) checkFile(context.Context, map[string]resource) ([]string, error) {
	if a.exists && a.form.hasProvider() && !a.hasFile() {
		return []string{"the file " + a.file() + " does not exist"}, nil
	}
	return nil, nil
}

// checkDrift finds drift: only tools change the resources, and deleteFile has waited for its repair.
func (a *actor) checkDrift(ctx context.Context, _ map[string]resource) ([]string, error) {
	if !a.exists {
		return nil, nil
	}
	observed := &infrav1.WorkspaceTemplateApply{}
	if err := a.client.Get(ctx, a.key(), observed); err != nil {
		return nil, err
	}
	if hasDrift(observed) {
		return []string{fmt.Sprintf("a drift check found %v, which nothing has changed", observed.Status.Drift.Resources)}, nil
	}
	return nil, nil
}
