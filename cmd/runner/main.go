// Command runner executes one Terraform run. The manager starts it as a child
// process or in a Job.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/runner"
	"github.com/appthrust/capt/internal/version"
)

// saveFlag is the flag with which the init process starts the runner after a crash.
const saveFlag = "save"

func main() {
	if os.Getpid() == 1 {
		os.Exit(runInit())
	}
	// One signal stops a run gracefully. Further signals must have no effect, so
	// that an apply can complete its operations.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var config runner.Config
	config.Providers, config.RequestDigest = os.Getenv(terraform.ProvidersEnv), os.Getenv(terraform.DigestEnv)
	if os.Getenv(terraform.LogEnv) == "true" {
		config.Log = os.Stdout
	}
	var apiDir, inherit, hidden string
	config.Sandbox = runner.SandboxAuto
	var kubeconfigFD int
	flag.StringVar(&config.Namespace, "namespace", "", "Namespace of the run.")
	flag.StringVar(&config.RunID, "run", "", "ID of the run.")
	flag.IntVar(&kubeconfigFD, "kubeconfig-fd", 0, "File descriptor from which a kubeconfig is read.")
	flag.StringVar(&apiDir, "api-dir", "", "Directory with the files token and ca.crt, for the API server of the cluster that the runner is in.")
	flag.StringVar(&config.Binary, "terraform-binary", "", "Path of OpenTofu or Terraform. If empty, it is found in PATH.")
	flag.StringVar(&config.WorkDir, "work-dir", "", "Directory of the working directories.")
	flag.StringVar(&inherit, "inherit-env", "", "Comma-separated environment variables that OpenTofu or Terraform inherits. A trailing * matches a prefix.")
	flag.StringVar(&hidden, "hide", "", "Comma-separated files and directories that OpenTofu or Terraform must not use.")
	flag.Var(&config.Sandbox, "sandbox", "Whether a sandbox hides files: auto, required or off. With auto, a run without a sandbox is not an error.")
	save := flag.Bool(saveFlag, false, "Save the state that a crashed runner left, instead of executing the run.")
	printVersion := flag.Bool("version", false, "Print the version and exit.")
	flag.Parse()
	if *printVersion {
		fmt.Println("runner", version.Get())
		return nil
	}
	if config.Namespace == "" || config.RunID == "" || config.WorkDir == "" || kubeconfigFD == 0 && apiDir == "" {
		return fmt.Errorf("--namespace, --run, --work-dir and one of --kubeconfig-fd and --api-dir are required")
	}
	if inherit != "" {
		config.Inherit = strings.Split(inherit, ",")
	}
	if hidden != "" {
		config.Hidden = strings.Split(hidden, ",")
	}
	var err error
	if kubeconfigFD > 0 {
		config.API, err = inheritedConfig(kubeconfigFD)
	} else {
		config.API, err = mountedConfig(apiDir)
	}
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	if *save {
		return runner.Save(ctx, config)
	}
	return runner.Run(ctx, config)
}
