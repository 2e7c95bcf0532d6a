package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// othersRunning returns a function that reports whether an older runner of the
// workspace exists on this machine: one whose lock a user has broken, or a copy of a
// killed one that is about to become the tool.
func (r *Runner) othersRunning() func() bool {
	self, err := procfs.Self()
	if err != nil {
		return nil
	}
	own, err := self.Stat()
	if err != nil {
		return nil
	}
	return func() bool {
		processes, err := procfs.AllProcs()
		if err != nil {
			return false
		}
		return slices.ContainsFunc(processes, func(process procfs.Proc) bool {
			args, err := process.CmdLine()
			if err != nil || process.PID == os.Getpid() || !r.isRunner(args) {
				return false
			}
			stat, err := process.Stat()
			return err == nil && stat.State != "Z" && stat.Starttime < own.Starttime
		})
	}
}

// isRunner reports whether a process with these arguments is a runner of the
// workspace that uses the same working directories.
func (r *Runner) isRunner(args []string) bool {
	return slices.Contains(args, "--namespace="+r.Namespace) && slices.Contains(args, "--work-dir="+r.WorkDir) &&
		slices.ContainsFunc(args, func(arg string) bool {
			run, found := strings.CutPrefix(arg, "--run=")
			return found && run != r.RunID && workspaceOf(run) == workspaceOf(r.RunID)
		})
}

// workspaceOf returns the part of a run ID that all runs of a workspace share.
func workspaceOf(runID string) string {
	workspace, _, _ := record.ParseRunID(runID)
	return workspace
}

// InterruptOrphan interrupts a process that a crashed runner left. A tool that was
// interrupted before is left alone, because a second interrupt makes it abort without
// saving its state.
func InterruptOrphan(workDir string, pid int) {
	workspaces, _ := filepath.Glob(workspaceDir(workDir, "*", "*")) // The pattern is valid.
	if !slices.ContainsFunc(workspaces, func(dir string) bool { return command.Interrupt(dir, pid) }) {
		_ = syscall.Kill(pid, syscall.SIGINT)
	}
}
