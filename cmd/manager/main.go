// Command manager runs CAPT's controllers and webhooks.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/manager"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run() error {
	options := manager.NewOptions()
	options.AddFlags(pflag.CommandLine)
	// --kubeconfig is controller-runtime's.
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if err := options.Validate(); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	return manager.Run(ctrl.SetupSignalHandler(), config, options)
}
