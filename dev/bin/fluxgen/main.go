// Command fluxgen renders the manifests that install Flux, like `flux install
// --export`, but from Go modules only: it builds the release manifests from the
// sources of the controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
)

const fluxModule = "github.com/fluxcd/flux2/v2"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fluxgen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("fluxgen", flag.ContinueOnError)
	out := flags.String("out", "", "directory to write crds.yaml and controllers.yaml to")
	components := flags.String("components", "source-controller,helm-controller", "controllers to install")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("set --out DIR")
	}
	version, err := fluxVersion()
	if err != nil {
		return err
	}
	manifests, err := render(ctx, version, strings.Split(*components, ","))
	if err != nil {
		return fmt.Errorf("rendering Flux %s: %w", version, err)
	}
	crds, controllers := split(manifests)
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("creating the output directory: %w", err)
	}
	for name, text := range map[string]string{"crds.yaml": crds, "controllers.yaml": controllers} {
		if err := os.WriteFile(filepath.Join(*out, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the manifests: %w", err)
		}
	}
	return nil
}

// fluxVersion returns the version of Flux that go.mod pins.
func fluxVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("this program was built without its module's versions: build it with go build")
	}
	for _, dep := range info.Deps {
		if dep.Path == fluxModule {
			return dep.Version, nil
		}
	}
	return "", fmt.Errorf("this program was built without %s", fluxModule)
}

// split separates the CRDs from the other objects: both then fit into a ConfigMap.
func split(manifests string) (crds, others string) {
	var defined, rest []string
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		doc = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(doc), "---"))
		switch {
		case doc == "":
		case strings.Contains("\n"+doc+"\n", "\nkind: CustomResourceDefinition\n"):
			defined = append(defined, doc)
		default:
			rest = append(rest, doc)
		}
	}
	return strings.Join(defined, "\n---\n") + "\n", strings.Join(rest, "\n---\n") + "\n"
}
