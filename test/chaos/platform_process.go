package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

// processPlatform is an environment of captctl, in which runs are processes.
type processPlatform struct {
	env           *environment.Environment
	base, captctl string
	mounted       bool
}

func newProcessPlatform(base string) (*processPlatform, error) {
	captctl, err := testenv.Built("captctl")
	if err != nil {
		return nil, err
	}
	env, err := environment.New("chaos", base)
	if err != nil {
		return nil, err
	}
	return &processPlatform{env: env, base: base, captctl: captctl}, nil
}

func (p *processPlatform) start(ctx context.Context) error {
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.recorder(), "./test/chaos/recorder")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the recorder: %w: %s", err, out)
	}
	config, err := testenv.MirrorProviders(p.base, testenv.LocalProvider)
	if err != nil {
		return err
	}
	// The sandbox of a tool lets it create no directory beside that of the environment.
	if err := os.Mkdir(filesDir(p.base), 0o700); err != nil {
		return fmt.Errorf("creating the directory of the files: %w", err)
	}
	// The managers and their runs inherit it.
	if err := os.Setenv("TF_CLI_CONFIG_FILE", config); err != nil {
		return fmt.Errorf("setting the configuration of the tool: %w", err)
	}
	// The first manager is an administrator, until the roles exist.
	if err := p.up(ctx); err != nil {
		return err
	}
	rules, err := testenv.Rules()
	if err != nil {
		return err
	}
	// The namespace must exist before what is in it.
	err = await(ctx, func(ctx context.Context) error {
		c, err := p.env.Client()
		if err != nil {
			return err
		}
		return environment.Apply(ctx, c, environment.Namespace, rules)
	})
	if err != nil {
		return fmt.Errorf("installing the roles and policies: %w", err)
	}
	p.mounted, err = mountDisk(p.workDir())
	return err
}

func (p *processPlatform) account() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: testenv.ManagerUser, Groups: testenv.ManagerGroups}
	return config, nil
}

func (p *processPlatform) startManager(ctx context.Context, kubeconfig string) error {
	p.env.ManagerArgs = append([]string{"--kubeconfig=" + kubeconfig}, leaderElection...)
	return p.up(ctx)
}

func (p *processPlatform) up(ctx context.Context) error {
	return await(ctx, func(context.Context) error {
		// An attempt may take longer than others.
		starting, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		if _, err := p.env.Up(starting, func(environment.Step) {}); err != nil {
			return fmt.Errorf("starting the environment: %w", err)
		}
		return nil
	})
}

func (p *processPlatform) down(ctx context.Context) error {
	if p.mounted {
		if err := syscall.Unmount(p.workDir(), syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", p.workDir(), err)
		}
		p.mounted = false
	}
	out, err := exec.CommandContext(context.WithoutCancel(ctx), p.captctl, "down", p.env.Name, "--dir", p.base, "--yes").CombinedOutput()
	if err != nil {
		return fmt.Errorf("removing the environment: %w: %s", err, out)
	}
	if err := os.RemoveAll(p.base); err != nil {
		return fmt.Errorf("removing the directory: %w", err)
	}
	return nil
}

func (p *processPlatform) keep() error {
	logf("The environment is kept: %s. Remove it with: %s", p.env.Dir, p.removal())
	return nil
}

func (p *processPlatform) removal() string {
	text := fmt.Sprintf("%s down %s --dir %s && rm -r %s", p.captctl, p.env.Name, p.base, p.base)
	if p.mounted {
		return fmt.Sprintf("umount --lazy %s; %s", p.workDir(), text)
	}
	return text
}

func (p *processPlatform) process(ctx context.Context, part string) (target, error) {
	cluster, err := controlplane.New(filepath.Join(p.env.Dir, "management"))
	if err != nil {
		return target{}, err
	}
	status, err := cluster.Status(ctx)
	if err != nil {
		return target{}, err
	}
	if part == partSupervisor {
		if status.Supervisor == nil {
			return target{}, errNoTarget
		}
		return newTarget(status.Supervisor.PID)
	}
	i := slices.IndexFunc(status.Parts, func(s controlplane.PartStatus) bool { return s.Name == part })
	if i < 0 || !status.Parts[i].Running {
		return target{}, errNoTarget
	}
	return newTarget(status.Parts[i].PID)
}

// kill kills a process, which its supervisor starts again.
func (p *processPlatform) kill(victim target) error { return victim.signal(syscall.SIGKILL) }

func (p *processPlatform) dir() string        { return p.env.Dir }
func (p *processPlatform) kubeconfig() string { return p.env.Kubeconfig() }
func (p *processPlatform) address() string    { return "127.0.0.1" }
func (p *processPlatform) recorder() string   { return filepath.Join(p.base, "recorder") }
func (p *processPlatform) workDir() string    { return filepath.Join(p.env.Dir, "work") }

func (p *processPlatform) disk() string {
	if p.mounted {
		return p.workDir()
	}
	return ""
}

func (p *processPlatform) managerArgs() []string {
	return []string{"--executor=process", "--work-dir=" + p.workDir(), "--shutdown-timeout=4s"}
}
