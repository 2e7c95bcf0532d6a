// Command addons writes the built-in add-ons as files to install: each CAPTAddon
// of addons/ together with the ConfigMaps of manifests that it names. The manifests
// are other projects' and are rendered from their Go modules at build time; the
// charts that add-ons name are packed as well, for clusters that cannot reach them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "addons:", err)
		os.Exit(1)
	}
}

// builder knows where everything is.
type builder struct {
	// source holds the CAPTAddons.
	source string
	// parts holds the programs fluxgen and charts.
	parts string
	// karpenter is the module that pins Karpenter's kwok provider.
	karpenter string
	// out and charts are filled.
	out, charts string
	progress    io.Writer
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	b := builder{progress: progress}
	flags := flag.NewFlagSet("addons", flag.ContinueOnError)
	flags.StringVar(&b.source, "source", "../addons", "directory of the CAPTAddons")
	flags.StringVar(&b.parts, "parts", "../bin/parts", "directory of the programs fluxgen and charts")
	flags.StringVar(&b.karpenter, "karpenter", "bin/karpenter-kwok", "module that pins Karpenter's kwok provider")
	flags.StringVar(&b.out, "out", "../bin/addons", "directory to write the add-ons to")
	flags.StringVar(&b.charts, "charts", "../bin/charts", "directory to write the charts to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	stamp, err := b.stamp()
	if err != nil {
		return err
	}
	if b.current(stamp) {
		fmt.Fprintf(progress, "addons: %s and %s are current\n", b.out, b.charts)
		return nil
	}
	if err := b.packCharts(ctx); err != nil {
		return err
	}
	if err := b.writeAddons(ctx); err != nil {
		return err
	}
	return b.keep(stamp)
}

// program returns one of the parts by an absolute path.
func (b *builder) program(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(b.parts, name))
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", name, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("finding %s: %w (make addons builds it)", name, err)
	}
	return path, nil
}

func (b *builder) packCharts(ctx context.Context) error {
	charts, err := b.program("charts")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, charts, "pack", "--out", b.charts)
	cmd.Stdout, cmd.Stderr = b.progress, b.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("packing the charts: %w", err)
	}
	return nil
}
