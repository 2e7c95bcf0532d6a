// Command runner carries out one Terraform run. The manager starts it, as a
// child process or in a Job.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/appthrust/capt/internal/terraform/runner"
)

func main() {
	if os.Getpid() == 1 {
		os.Exit(first())
	}
	// A run is stopped by one signal; a second must not hurry it, for what an
	// apply has begun is to be finished.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var config runner.Config
	var kubeconfig, inherit string
	flag.StringVar(&config.Namespace, "namespace", "", "Namespace of the run.")
	flag.StringVar(&config.RunID, "run", "", "ID of the run.")
	flag.StringVar(&kubeconfig, "kubeconfig", "", "How to reach the API server. Empty is from inside the cluster.")
	flag.StringVar(&config.Binary, "terraform-binary", "", "OpenTofu or Terraform. Empty looks at PATH.")
	flag.StringVar(&config.WorkDir, "work-dir", "", "Where the working directories are.")
	flag.StringVar(&config.CLIConfig, "cli-config", os.Getenv("TF_CLI_CONFIG_FILE"), "CLI configuration of the tool.")
	flag.StringVar(&inherit, "inherit-env", "", "Environment variables that reach the tool, comma-separated; a * ends a prefix.")
	flag.Parse()
	if config.Namespace == "" || config.RunID == "" || config.WorkDir == "" {
		return fmt.Errorf("--namespace, --run and --work-dir are needed; the manager starts this program with them")
	}
	if inherit != "" {
		config.Inherit = strings.Split(inherit, ",")
	}
	var err error
	if kubeconfig == "" {
		config.API, err = rest.InClusterConfig()
	} else {
		config.API, config.Kubeconfig, err = fromFile(kubeconfig)
	}
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	return runner.Run(ctx, config)
}

func fromFile(path string) (*rest.Config, []byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	return config, text, err
}
