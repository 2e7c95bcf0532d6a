package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/host"
)

// platform runs an API server and CAPT with one of the executors.
type platform interface { //nolint:interfacebloat // Both executors have the same faults.
	// start starts the API server and all programs except the manager, for the first time,
	// and installs the shipped roles and policies.
	start(ctx context.Context) error
	// account returns the credentials of the manager's shipped account.
	account() (*rest.Config, error)
	// startManager starts the manager with a kubeconfig, for the first time.
	startManager(ctx context.Context, kubeconfig string) error
	// up restarts what has stopped. It retries, because faults may be injected
	// meanwhile.
	up(ctx context.Context) error
	// down stops and removes everything, even if ctx has ended.
	down(ctx context.Context) error
	// keep keeps what a user needs to find the cause of a violation, and describes how
	// to remove it.
	keep() error
	// removal returns a command that removes everything.
	removal() string
	// dir returns the directory with logs.
	dir() string
	// kubeconfig returns the path of an administrator's kubeconfig.
	kubeconfig() string
	// process returns the running process of a part.
	process(ctx context.Context, part string) (target, error)
	// kill kills a program of the control plane, which is started again.
	kill(victim target) error
	// address returns an address of this machine that runs can connect to.
	address() string
	// recorder returns the path of the recorder for runs.
	recorder() string
	// workDir returns the value of the runners' flag --work-dir.
	workDir() string
	// disk returns the mount point of the file system that has the working
	// directories, or an empty string if there is no separate one.
	disk() string
	// managerArgs returns the flags of a further manager.
	managerArgs() []string
}

// Names of parts besides those of package environment.
const (
	partSupervisor = "supervisor"
	partKubelet    = "kubelet"
	partContainerd = "containerd"
)

// leaderElection are the flags with which two managers can run. The lease is short,
// because schedules are.
var leaderElection = []string{
	"--leader-elect", "--leader-elect-namespace=capt-system",
	"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms",
}

// diskSize is the size of the file system of the working directories.
const diskSize = "128m"

// mountDisk mounts a small file system. Only root can.
func mountDisk(dir string) (mounted bool, err error) {
	if os.Getuid() != 0 {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, fmt.Errorf("creating the directory of the disk: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0750,size="+diskSize); err != nil {
		return false, fmt.Errorf("mounting a disk on %s: %w", dir, err)
	}
	return true, nil
}

// target is a process that faults disrupt. The PID alone does not identify it.
type target struct {
	pid     int
	started int64
}

func newTarget(pid int) (target, error) {
	started, err := host.ProcessStartTime(pid)
	if err != nil {
		return target{}, errors.Join(errNoTarget, err)
	}
	return target{pid: pid, started: started}, nil
}

// signal signals the process unless its PID has been reused.
func (t target) signal(signal syscall.Signal) error {
	started, err := host.ProcessStartTime(t.pid)
	if err != nil || started != t.started {
		return errNoTarget
	}
	if err := syscall.Kill(t.pid, signal); err != nil {
		return errors.Join(errNoTarget, err)
	}
	return nil
}

// childNamed returns the child of this process that runs a program.
func childNamed(program string) (target, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return target{}, fmt.Errorf("listing processes: %w", err)
	}
	for _, proc := range all {
		stat, err := proc.Stat()
		if err == nil && stat.PPID == os.Getpid() && stat.Comm == program {
			return newTarget(proc.PID)
		}
	}
	return target{}, errNoTarget
}
