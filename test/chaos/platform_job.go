package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	runnerImage = "capt.test/runner:chaos"
	// podRecorder and podWorkDir are paths in the image.
	podRecorder = "/usr/local/bin/recorder"
	podWorkDir  = "/work"
)

// jobPlatform is an API server with a node, on which runs are Jobs. It ends with this
// process.
type jobPlatform struct {
	base    string
	env     *testenv.Environment
	manager *manager
	mounted bool
	// revived are the programs of the control plane that were killed, and are supervised since.
	revived revived
}

func newJobPlatform(base string) (*jobPlatform, error) {
	if missing := testenv.MissingForNode(); missing != "" {
		return nil, errors.New(missing)
	}
	return &jobPlatform{base: base}, nil
}

func (p *jobPlatform) start(ctx context.Context) error {
	runner, err := testenv.Built("runner")
	if err != nil {
		return err
	}
	tofu, err := testenv.Part("tofu")
	if err != nil {
		return err
	}
	if p.env, err = testenv.Start(testenv.WithNode()); err != nil { //nolint:contextcheck // The environment outlives the call.
		return fmt.Errorf("starting the node: %w", err)
	}
	if p.mounted, err = mountDisk(p.env.Node().PodsDir()); err != nil {
		return err
	}
	recorder := filepath.Join(p.base, "recorder")
	if err := p.env.Node().Build(recorder, "./test/chaos/recorder"); err != nil {
		return err
	}
	files := map[string]string{"/runner": runner, "/usr/local/bin/tofu": tofu, podRecorder: recorder}
	if err := p.env.Node().LoadImage(runnerImage, "/runner", files); err != nil {
		return err
	}
	_, err = p.env.ManagerAccount() //nolint:contextcheck // It is part of the environment.
	return err
}

func (p *jobPlatform) account() (*rest.Config, error) {
	account, err := p.env.ManagerAccount()
	if err != nil {
		return nil, err
	}
	return account.Config, nil
}

func (p *jobPlatform) startManager(ctx context.Context, kubeconfig string) error {
	var err error
	if p.manager, err = newManager(filepath.Join(p.base, "manager1"), kubeconfig, p.managerArgs()); err != nil { //nolint:contextcheck // The process outlives the call.
		return err
	}
	return p.up(ctx)
}

// up waits for the manager, which is restarted when it stops.
func (p *jobPlatform) up(ctx context.Context) error {
	return await(ctx, func(ctx context.Context) error {
		if err := p.manager.ready(ctx); err != nil {
			return fmt.Errorf("starting the manager: %w", err)
		}
		return nil
	})
}

func (p *jobPlatform) down(context.Context) error {
	err := p.stop()
	if err := os.RemoveAll(p.base); err != nil {
		return fmt.Errorf("removing the directory: %w", err)
	}
	return err
}

// stop stops everything, and keeps the journals and the logs of managers.
func (p *jobPlatform) stop() error {
	p.revived.stop()
	var err error
	if p.manager != nil {
		err = p.manager.stop()
	}
	if p.env != nil {
		err = errors.Join(err, p.env.Stop())
		// A shim may outlive containerd.
		for _, pid := range p.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return err
}

func (p *jobPlatform) keep() error {
	err := p.stop()
	logf("The environment is removed. The journals and the managers' logs are kept: rm -r %s", p.base)
	return err
}

func (p *jobPlatform) removal() string {
	if p.env == nil {
		return "rm -rf " + p.base
	}
	return fmt.Sprintf("kill -9 %s; umount --lazy --recursive %s; rm -rf %[2]s %s", strings.Trim(fmt.Sprint(p.pids()), "[]"), p.env.Dir, p.base)
}

// pids returns the processes of the environment: the children of this process, and those
// whose arguments contain its directory.
func (p *jobPlatform) pids() []int {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	var pids []int
	for _, proc := range all {
		stat, err := proc.Stat()
		if err != nil || proc.PID == os.Getpid() {
			continue
		}
		args, _ := proc.CmdLine()
		if stat.PPID == os.Getpid() || strings.Contains(strings.Join(args, " "), p.env.Dir) {
			pids = append(pids, proc.PID)
		}
	}
	return pids
}

func (p *jobPlatform) process(_ context.Context, part string) (target, error) {
	switch part {
	case environment.Manager:
		return p.manager.target()
	case controlplane.APIServer, controlplane.Etcd, partKubelet, partContainerd:
		return childNamed(part)
	default:
		return target{}, errNoTarget
	}
}

func (p *jobPlatform) dir() string        { return p.env.Dir }
func (p *jobPlatform) kubeconfig() string { return p.env.Kubeconfig }
func (p *jobPlatform) address() string    { return p.env.Node().Address }
func (p *jobPlatform) recorder() string   { return podRecorder }
func (p *jobPlatform) workDir() string    { return podWorkDir }

func (p *jobPlatform) disk() string {
	if p.mounted {
		return p.env.Node().PodsDir()
	}
	return ""
}

func (p *jobPlatform) managerArgs() []string {
	return []string{"--executor=job", "--runner-image=" + runnerImage}
}
