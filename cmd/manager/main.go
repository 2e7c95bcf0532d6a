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
	"github.com/appthrust/capt/internal/version"
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
	printVersion := pflag.Bool("version", false, "Print the version and exit.")
	pflag.Parse()
	if *printVersion {
		fmt.Println("manager", version.Get())
		return nil
	}
	if err := options.Validate(); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	return manager.Run(ctrl.SetupSignalHandler(), config, options)
}
