// Package policy holds CAPT's admission policies for captctl doctor.
package policy

import (
	"bytes"
	"embed"
	"fmt"
	"sync"

	"sigs.k8s.io/yaml"
)

// files are the policies with their bindings.
//
//go:embed *.yaml
var files embed.FS

// prefix is that of the objects in every way to install CAPT.
const prefix = "capt-"

// Names returns the names that CAPT's ValidatingAdmissionPolicies have in a cluster, in the
// order of their files. The caller must not change them.
var Names = sync.OnceValues(func() ([]string, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("reading the policies: %w", err)
	}
	var names []string
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the policies: %w", err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var object struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal(document, &object); err != nil {
				return nil, fmt.Errorf("parsing %s: %w", entry.Name(), err)
			}
			if object.Kind == "ValidatingAdmissionPolicy" {
				names = append(names, prefix+object.Metadata.Name)
			}
		}
	}
	return names, nil
})
