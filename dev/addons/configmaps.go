package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/appthrust/capt/dev/gomod"
)

// maxBytes limits a ConfigMap to the size that kubectl apply can store in an
// annotation. The limit of the API server is one mebibyte.
const maxBytes = 240 << 10

// manifests returns functions that render the manifests of each ConfigMap that an
// add-on may refer to.
func (b *builder) manifests(ctx context.Context) (map[string]func() (string, error), error) {
	flux, err := os.MkdirTemp("", "flux-")
	if err != nil {
		return nil, fmt.Errorf("creating a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(flux) }()
	fluxgen, err := b.program("fluxgen")
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(b.progress, "addons: rendering Flux")
	if out, err := exec.CommandContext(ctx, fluxgen, "--out", flux).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("rendering Flux: %w: %s", err, out)
	}
	crds, err := os.ReadFile(filepath.Join(flux, "crds.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading Flux's CRDs: %w", err)
	}
	controllers, err := os.ReadFile(filepath.Join(flux, "controllers.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading Flux's controllers: %w", err)
	}
	return map[string]func() (string, error){
		"fluxcd-crds":         func() (string, error) { return string(crds), nil },
		"fluxcd-controllers":  func() (string, error) { return string(controllers), nil },
		"karpenter-kwok-crds": func() (string, error) { return b.kwokCRDs(ctx) },
	}, nil
}

// kwokCRDs returns the CRDs of Karpenter's kwok provider, from the module that the
// program is built from.
func (b *builder) kwokCRDs(ctx context.Context) (string, error) {
	source, err := gomod.Download(ctx, b.karpenter, "sigs.k8s.io/karpenter")
	if err != nil {
		return "", err
	}
	paths, err := filepath.Glob(filepath.Join(source, "kwok", "apis", "crds", "*.yaml"))
	if err != nil || len(paths) == 0 {
		return "", fmt.Errorf("reading the CRDs of Karpenter's kwok provider: %w", errors.Join(err, errors.New("no files found")))
	}
	var docs []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the CRDs of Karpenter's kwok provider: %w", err)
		}
		docs = append(docs, strings.TrimPrefix(string(text), "---\n"))
	}
	return strings.Join(docs, "---\n"), nil
}

// writeAddons writes every add-on with its ConfigMaps.
func (b *builder) writeAddons(ctx context.Context) error {
	available, err := b.manifests(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(b.out), os.MkdirAll(b.out, 0o755)); err != nil {
		return fmt.Errorf("creating the output directory: %w", err)
	}
	names, err := b.sources()
	if err != nil {
		return err
	}
	for _, name := range names {
		addon, err := os.ReadFile(filepath.Join(b.source, name))
		if err != nil {
			return fmt.Errorf("reading an add-on: %w", err)
		}
		text := strings.TrimRight(string(addon), "\n") + "\n"
		for _, ref := range configMapRefs(text) {
			render, ok := available[ref]
			if !ok {
				return fmt.Errorf("%s refers to ConfigMap %s, which this program does not create", name, ref)
			}
			manifests, err := render()
			if err != nil {
				return err
			}
			object, err := configMap(ref, manifests)
			if err != nil {
				return err
			}
			text += "---\n" + object
		}
		if err := os.WriteFile(filepath.Join(b.out, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing an add-on: %w", err)
		}
		fmt.Fprintf(b.progress, "addons: wrote %s (%d KiB)\n", filepath.Join(b.out, name), len(text)>>10)
	}
	return nil
}

// sources returns the file names of the add-ons.
func (b *builder) sources() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(b.source, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the add-ons: %w", err)
	}
	var names []string
	for _, path := range paths {
		if name := filepath.Base(path); name != "versions.yaml" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no add-ons in %s", b.source)
	}
	return names, nil
}

var configMapRef = regexp.MustCompile(`(?m)^ +configMapRef:\n +name: (\S+)$`)

// configMapRefs returns the names of the ConfigMaps that an add-on refers to, in order.
func configMapRefs(addon string) []string {
	var refs []string
	for _, found := range configMapRef.FindAllStringSubmatch(addon, -1) {
		if !slices.Contains(refs, found[1]) {
			refs = append(refs, found[1])
		}
	}
	return refs
}

// configMap returns a ConfigMap of manifests. Its label makes clusterctl move it
// together with the add-on.
func configMap(name, manifests string) (string, error) {
	manifests = strings.TrimRight(manifests, "\n") + "\n"
	switch {
	case len(manifests) > maxBytes:
		return "", fmt.Errorf("ConfigMap %s has %d bytes: split it, because kubectl apply accepts about %d", name, len(manifests), maxBytes)
	case strings.HasPrefix(manifests, " ") || strings.ContainsAny(manifests, "\t\r"):
		return "", fmt.Errorf("ConfigMap %s contains text that a YAML block cannot contain", name)
	}
	var text strings.Builder
	fmt.Fprintf(&text, `apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
  labels:
    clusterctl.cluster.x-k8s.io/move: ""
data:
  manifests.yaml: |
`, name)
	for line := range strings.Lines(manifests) {
		if line != "\n" {
			text.WriteString("    ")
		}
		text.WriteString(line)
	}
	return text.String(), nil
}
