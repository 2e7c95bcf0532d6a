// Package crd holds CAPT's CRDs for programs that check manifests without a
// cluster.
package crd

import (
	"embed"
	"fmt"
	"path"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// bases are the CRDs as they are generated, in the directory bases.
//
//go:embed bases/*.yaml
var bases embed.FS

// Definitions returns CAPT's CRDs, sorted by the names of their files. The caller
// must not change them.
var Definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := bases.ReadDir("bases")
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		text, err := bases.ReadFile(path.Join("bases", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the CRDs: %w", err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, definition); err != nil {
			return nil, fmt.Errorf("parsing the CRD %s: %w", entry.Name(), err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
})
