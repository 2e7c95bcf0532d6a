package manager

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/runner"
	"github.com/appthrust/capt/internal/terraform/template"
	"github.com/appthrust/capt/internal/version"
)

// Values of --executor.
const (
	executorProcess = "process"
	executorJob     = "job"
)

// EngineOptions are the settings for running Terraform.
type EngineOptions struct {
	// Executor is the executor of workspaces whose WorkspaceProviderConfig names
	// none.
	Executor string
	// MaxRuns is the maximum number of concurrent runs.
	MaxRuns int
	// MaxRunsPerNamespace is the maximum number of concurrent runs of a namespace. 0
	// leaves a fifth of them to the other namespaces.
	MaxRunsPerNamespace int
	// StartTimeout is how long the pod of a run may take to start, and MaxRunTimeout the
	// longest timeout of a run.
	StartTimeout, MaxRunTimeout time.Duration
	// Binary is the program OpenTofu or Terraform.
	Binary string
	// Runner is the runner program of the process executor.
	Runner string
	// RunnerImage is the image of the job executor's pods.
	RunnerImage string
	// RunNetworkPolicy limits the network of the job executor's pods.
	RunNetworkPolicy bool
	// SealKey is the Secret with the key that authenticates the Secrets of runs, as
	// NAMESPACE/NAME.
	SealKey string
	// Limits are what workspaces may use.
	Limits template.Limits
	// AllowProcess allows the process executor inside a cluster.
	AllowProcess bool
	// InheritHome gives the runs of the process executor the manager's home directory.
	InheritHome bool
	// Sandbox is whether the runs of the process executor have a sandbox, and Hide are
	// files that it hides in addition to those that are known.
	Sandbox runner.Sandbox
	Hide    []string
	// WorkDir holds the working directories and the plugin cache of the process
	// executor.
	WorkDir string
}

// AddFlags registers the flags.
func (o *EngineOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Executor, "executor", defaultExecutor(), "How Terraform is run: process, as a child of the manager, or job, as a Kubernetes Job. The default is job inside a cluster. Use process only for one trusted team: modules run as the user of the manager.")
	fs.BoolVar(&o.AllowProcess, "allow-process-executor-in-cluster", false, "Allow --executor=process inside a cluster, where modules can then use the manager's service account.")
	fs.BoolVar(&o.InheritHome, "inherit-home", false, "Give the runs of the process executor the manager's home directory, with its credentials and SSH keys, instead of an empty one.")
	fs.IntVar(&o.MaxRuns, "max-runs", 10, "Maximum number of concurrent Terraform runs.")
	fs.IntVar(&o.MaxRunsPerNamespace, "max-runs-per-namespace", 0, "Maximum number of concurrent Terraform runs of one namespace. 0 leaves a fifth of --max-runs, at least one, to the other namespaces.")
	fs.DurationVar(&o.StartTimeout, "start-timeout", 15*time.Minute, "How long the pod of a run may take to start. Then the run fails and is retried with backoff, so that others get its slot. A pod whose image cannot be pulled fails after a third of it.")
	fs.DurationVar(&o.MaxRunTimeout, "max-run-timeout", 12*time.Hour, "Longest timeout of a run. A longer one of a workspace or template is shortened. 0 means no limit.")
	o.Sandbox = runner.SandboxAuto
	fs.Var(&o.Sandbox, "sandbox", "Whether a sandbox (Landlock) hides the manager's credentials and the files of other workspaces from the runs of the process executor: auto, required or off. With auto, runs have none if the kernel does not support it, and their logs say so.")
	fs.StringSliceVar(&o.Hide, "hide", nil, "Further files and directories that the sandbox hides.")
	fs.StringVar(&o.Binary, "terraform-binary", "", "OpenTofu or Terraform program. Defaults to the environment variable CAPT_TERRAFORM_BINARY, then to tofu and terraform on PATH.")
	fs.StringVar(&o.Runner, "runner-binary", "", "Runner program of the process executor. Defaults to the program runner in the manager's directory.")
	fs.StringVar(&o.RunnerImage, "runner-image", "", "Image of the job executor's pods.")
	fs.BoolVar(&o.RunNetworkPolicy, "run-network-policy", true, "Apply the NetworkPolicy capt-runs in each namespace before a run of the job executor: modules reach no metadata service of a cloud and no webhooks, and nothing reaches their pods.")
	fs.StringVar(&o.SealKey, "seal-key-secret", "", "Secret with the key that authenticates the Secrets of runs, as NAMESPACE/NAME. It is created if it does not exist. Defaults to capt-seal-key in the manager's namespace, or in kube-system outside a cluster.")
	fs.StringSliceVar(&o.Limits.Images, "allowed-runner-images", nil, "Images that WorkspaceProviderConfigs may use for runs, apart from --runner-image; * and ? match any characters. Empty allows all images.")
	fs.StringSliceVar(&o.Limits.ServiceAccounts, "allowed-service-accounts", nil, "Service accounts that WorkspaceProviderConfigs may use for runs; * and ? match any characters. Empty allows all service accounts.")
	fs.StringSliceVar(&o.Limits.ModuleHosts, "allowed-module-hosts", nil, "Hosts of the remote modules of WorkspaceTemplates, registry for the default registry, and flux for Flux sources, which may have any host; * and ? match any characters. Empty allows all hosts.")
	fs.StringVar(&o.Limits.DefaultServiceAccount, "default-service-account", "", "Service account of the pods of runs whose WorkspaceProviderConfig names none. It must exist in the namespaces of the workspaces. By default each run has one of its own.")
	fs.StringVar(&o.WorkDir, "work-dir", "", "Working directories and plugin cache of the process executor. No other user may be able to write to it. Defaults to capt in the state directory of the user, and in a container to capt in the temporary directory.")
}

// defaultWorkDir returns the working directory if none is given: a directory of the user,
// because other users can write to the temporary directory. A container has no other users.
func defaultWorkDir() string {
	state := os.Getenv("XDG_STATE_HOME")
	if home, err := os.UserHomeDir(); state == "" && err == nil {
		state = filepath.Join(home, ".local", "state")
	}
	if state == "" || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return filepath.Join(os.TempDir(), "capt")
	}
	return filepath.Join(state, "capt")
}

// Validate finds the programs, and returns an error if an option is invalid.
func (o *EngineOptions) Validate() error {
	if o.MaxRuns < 1 {
		return fmt.Errorf("--max-runs is %d: set it to at least 1", o.MaxRuns)
	}
	if o.MaxRunsPerNamespace < 0 {
		return fmt.Errorf("--max-runs-per-namespace is %d: set it to at least 1, or to 0 for the default", o.MaxRunsPerNamespace)
	}
	if _, err := o.sealKey(); err != nil {
		return err
	}
	switch o.Executor {
	case executorProcess:
		if o.WorkDir == "" {
			o.WorkDir = defaultWorkDir()
		}
		if inCluster() && !o.AllowProcess {
			return errors.New("--executor=process inside a cluster gives modules the manager's service account: use --executor=job, or pass --allow-process-executor-in-cluster if you trust all authors of templates")
		}
		return errors.Join(o.findBinary(), o.findRunner())
	case executorJob:
		if o.RunnerImage == "" {
			return fmt.Errorf("--executor=job requires --runner-image: set it to the runner's image of this release, ghcr.io/appthrust/capt-runner:%s", version.Version())
		}
		return nil
	default:
		return fmt.Errorf("--executor is %q: set it to process or job", o.Executor)
	}
}

// limits returns the limits of concurrent runs.
func (o *EngineOptions) limits() queue.Limits {
	limits := queue.Limits{Total: o.MaxRuns, PerNamespace: o.MaxRunsPerNamespace}
	if limits.PerNamespace == 0 {
		limits.PerNamespace = max(1, o.MaxRuns-max(1, o.MaxRuns/5))
	}
	return limits
}

func (o *EngineOptions) findBinary() error {
	o.Binary = cmp.Or(o.Binary, os.Getenv(binary.Env))
	tool, err := binary.Find(o.Binary)
	switch {
	case err == nil:
		o.Binary = tool.Path
		return nil
	case o.Binary != "":
		return fmt.Errorf("--terraform-binary is %q, which is not an executable: set it to OpenTofu or Terraform", o.Binary)
	default:
		return errors.New("neither tofu nor terraform is on PATH: set --terraform-binary")
	}
}

func (o *EngineOptions) findRunner() error {
	if o.Runner == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding the runner program: %w", err)
		}
		o.Runner = filepath.Join(filepath.Dir(self), "runner")
	}
	if _, err := exec.LookPath(o.Runner); err != nil {
		return fmt.Errorf("--runner-binary is %q, which is not an executable: set it to the runner of the manager's release", o.Runner)
	}
	return nil
}

func defaultExecutor() string {
	if inCluster() {
		return executorJob
	}
	return executorProcess
}

func inCluster() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// inherit returns the variables of the manager that runs of the process executor
// inherit in addition to the usual ones.
func (o *EngineOptions) inherit() string {
	if o.InheritHome {
		return "HOME"
	}
	return ""
}
