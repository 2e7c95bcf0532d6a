// Command addons writes the built-in add-ons as files to install: each CAPTAddon of
// addons/ together with the ConfigMaps of manifests that it refers to. The manifests
// belong to other projects and are rendered from their Go modules at build time. The
// charts of add-ons are packed as well, for clusters that cannot download them.
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
	parts := flag.String("parts", "../bin/parts", "directory of the programs fluxgen and charts")
	flag.Parse()
	b := builder{
		source: "../addons", parts: *parts, karpenter: "bin/karpenter-kwok", out: "../bin/addons", charts: "../bin/charts", progress: os.Stderr,
	}
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "addons:", err)
		os.Exit(1)
	}
}

// builder contains the paths of inputs and outputs.
type builder struct {
	// source is the directory of the CAPTAddons.
	source string
	// parts is the directory of the programs fluxgen and charts.
	parts string
	// karpenter is the module that pins Karpenter's kwok provider.
	karpenter string
	// out and charts are the directories to write to.
	out, charts string
	progress    io.Writer
}

func (b *builder) run(ctx context.Context) error {
	if err := b.packCharts(ctx); err != nil {
		return err
	}
	return b.writeAddons(ctx)
}

// program returns the absolute path of one of the parts.
func (b *builder) program(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(b.parts, name))
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", name, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("finding %s: %w (run make addons to build it)", name, err)
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
