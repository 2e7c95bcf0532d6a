package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// provider is one of the providers that clusterctl installs.
type provider struct {
	// name is the directory in config/providers and the prefix of the components file.
	name string
	// group is the API group of the provider's kinds.
	group string
}

var providers = []provider{
	{"infrastructure", "infrastructure.cluster.x-k8s.io"},
	{"control-plane", "controlplane.cluster.x-k8s.io"},
	{"bootstrap", "bootstrap.cluster.x-k8s.io"},
	{"addon", "addons.cluster.x-k8s.io"},
}

// webhookConfiguration has the fields of webhook configurations that are needed to
// divide them; everything else is kept as it is.
type webhookConfiguration struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Webhooks   []webhook      `json:"webhooks,omitempty"`
}

type webhook map[string]any

// groups returns the API groups of the kinds that a webhook checks.
func (w webhook) groups() []string {
	var groups []string
	rules, _ := w["rules"].([]any)
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		names, _ := fields["apiGroups"].([]any)
		for _, name := range names {
			groups = append(groups, fmt.Sprint(name))
		}
	}
	return groups
}

// splitWebhooks writes a patch for each provider that leaves only the webhooks of its
// kinds.
func splitWebhooks(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "config", "webhook", "manifests.yaml"))
	if err != nil {
		return fmt.Errorf("reading the webhooks: %w", err)
	}
	var all []webhookConfiguration
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var configuration webhookConfiguration
		if err := yaml.UnmarshalStrict(bytes.TrimPrefix(document, []byte("---\n")), &configuration); err != nil {
			return fmt.Errorf("parsing the webhooks: %w", err)
		}
		all = append(all, configuration)
	}
	for _, p := range providers {
		patch, err := webhooksOf(p, all)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, "config", "providers", p.name, "webhooks.yaml"), patch, 0o644); err != nil {
			return fmt.Errorf("writing the webhooks of the %s provider: %w", p.name, err)
		}
	}
	return nil
}

// webhooksOf returns the patch of a provider.
func webhooksOf(p provider, all []webhookConfiguration) ([]byte, error) {
	text := bytes.NewBufferString("# Generated from config/webhook/manifests.yaml by `make generate`.\n")
	for i, configuration := range all {
		own := slices.DeleteFunc(slices.Clone(configuration.Webhooks), func(w webhook) bool { return !slices.Contains(w.groups(), p.group) })
		patch := map[string]any{"apiVersion": configuration.APIVersion, "kind": configuration.Kind, "metadata": configuration.Metadata}
		if len(own) == 0 {
			patch["$patch"] = "delete"
		} else {
			patch["webhooks"] = append([]webhook{{"$patch": "replace"}}, own...)
		}
		document, err := yaml.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("encoding the webhooks of the %s provider: %w", p.name, err)
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(document)
	}
	return text.Bytes(), nil
}
