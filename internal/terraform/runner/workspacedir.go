package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// workspaceDir returns the working directory of a workspace.
func workspaceDir(workDir, namespace, name string) string {
	return filepath.Join(workDir, "workspaces", namespace, name)
}

const (
	// useTimeout is how long a run waits until the removal of its working directory has
	// ended, and removeTimeout how long a removal waits for a run that writes its result.
	useTimeout    = time.Minute
	removeTimeout = 5 * time.Second
)

// useDir keeps the working directory of a workspace from being removed until the lock is
// released. Several runs can use it: the lock of the state keeps them apart.
func useDir(ctx context.Context, workDir string, workspace terraform.WorkspaceRef) (*host.FileLock, error) {
	return lockDir(ctx, useTimeout, workDir, workspace, host.ShareFile)
}

func lockDir(ctx context.Context, timeout time.Duration, workDir string, workspace terraform.WorkspaceRef, lock func(context.Context, string) (*host.FileLock, error)) (*host.FileLock, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("the working directory is in use"))
	defer cancel()
	path := lockFile(workDir, workspace)
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("creating the directory of locks: %w", err)
		}
		held, err := lock(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("locking the working directory: %w", err)
		}
		if held.Current() {
			return held, nil
		}
		// The file was removed together with the directory.
		held.Release()
	}
}

// othersRunning returns a function that reports whether another runner works in the
// directory of a workspace: one whose lock a user has broken, or the copy of a killed one
// that is about to become the tool. Once it has returned false, other runners wait for this
// one until release is called, or until this process ends: the tool does not inherit the
// lock.
func othersRunning(workDir string, workspace terraform.WorkspaceRef) (others func() (bool, error), release func()) {
	var held *host.FileLock
	others = func() (bool, error) {
		if held != nil {
			return false, nil
		}
		var err error
		if held, err = host.TryLockFile(runnerLockFile(workDir, workspace)); errors.Is(err, host.ErrLocked) {
			return true, nil
		}
		return false, err
	}
	return others, func() {
		if held != nil {
			held.Release()
		}
	}
}

// lockFile returns the path of the lock of useDir.
func lockFile(workDir string, workspace terraform.WorkspaceRef) string {
	return filepath.Join(workDir, "locks", workspace.Namespace, workspace.Name)
}

// runnerLockFile returns the path of the lock of othersRunning. No workspace has a name with
// an underscore.
func runnerLockFile(workDir string, workspace terraform.WorkspaceRef) string {
	return lockFile(workDir, workspace) + "_runner"
}

// RetainWorkspace leaves the working directory of a deleted workspace, whose resources
// are retained, to the next workspace of the same name.
func RetainWorkspace(ctx context.Context, workDir string, workspace terraform.WorkspaceRef) error {
	lock, err := lockDir(ctx, removeTimeout, workDir, workspace, host.LockFile)
	if err != nil {
		return err
	}
	defer lock.Release()
	return dirOf(workDir, workspace).Release(workspace.UID)
}

// RemoveWorkspace removes the working directory of a deleted workspace, unless it
// contains a state with resources that is not saved. That is the only copy, and the
// next run in the directory saves it.
//
// It does not remove the directory of the next workspace of the name: the caller may have
// been suspended since it read the workspace.
func RemoveWorkspace(ctx context.Context, workDir string, workspace terraform.WorkspaceRef) error {
	dir := dirOf(workDir, workspace)
	lock, err := lockDir(ctx, removeTimeout, workDir, workspace, host.LockFile)
	if err != nil {
		return err
	}
	defer lock.Release()
	if dir.UsedByAnother(workspace.UID) {
		return nil
	}
	if kept, err := hasUnsaved(dir.Dir); err != nil || kept {
		return errors.Join(err, dir.Scrub())
	}
	if err := os.RemoveAll(dir.Dir); err != nil {
		return fmt.Errorf("removing the working directory: %w", err)
	}
	for _, path := range []string{runnerLockFile(workDir, workspace), lockFile(workDir, workspace)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the locks of the working directory: %w", err)
		}
	}
	return nil
}

func dirOf(workDir string, workspace terraform.WorkspaceRef) *command.Workdir {
	return &command.Workdir{Dir: workspaceDir(workDir, workspace.Namespace, workspace.Name)}
}

// hasUnsaved reports whether a working directory has an unsaved state with
// resources.
func hasUnsaved(dir string) (bool, error) {
	unsaved, err := command.UnsavedStates(dir)
	return slices.ContainsFunc(unsaved, func(state command.UnsavedState) bool { return hasResources(state.Content) }), err
}
