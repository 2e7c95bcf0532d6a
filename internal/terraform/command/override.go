package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

var (
	overrideSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}}
	// backendSchema has the blocks of which each replaces the backend.
	backendSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"}, {Type: "state_store", LabelNames: []string{"type"}},
	}}
)

// maxOverride is the size of an override file that is checked.
const maxOverride = 16 << 20

// checkOverrides returns an error if a file of the module would replace the backend of the
// engine. The tool merges override files in the order of their names, and the last one wins.
func checkOverrides(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	own := terraform.ConfigStem(overrideFile)
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case entry.IsDir() || !isConfig(name) || name == overrideFile:
		case terraform.ConfigStem(name) == own:
			// OpenTofu loads a .tofu file instead of the .tf file of the same name.
			return overrideFailure(name, 0, "It has a name that is reserved for CAPT: remove it, or rename it.")
		case name > overrideFile && terraform.IsOverride(name):
			line, err := backendLine(filepath.Join(root, name))
			if err != nil {
				return err
			}
			if line > 0 {
				return overrideFailure(name, line, "It would replace the backend of the workspace, because override files are merged in the order of their names. Remove the block, or rename the file so that it sorts before "+overrideFile+", for example to backend_override.tf: CAPT chooses the backend, by the WorkspaceProviderConfig.")
			}
		}
	}
	return nil
}

// backendLine returns the line of the first block in a file that replaces the backend, or
// 0. The tool reports a file that is invalid.
func backendLine(path string) (int, error) {
	name := filepath.Base(path)
	// Code of the module may have created it: a pipe or a device would never end.
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("reading the module: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxOverride {
		return 0, overrideFailure(name, 0, "It is not a file, or too large, so that CAPT cannot check whether it replaces the backend of the workspace: remove it.")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading the module: %w", err)
	}
	body, tooDeep := inspect.Parse(name, content)
	if tooDeep {
		return 0, overrideFailure(name, 0, "It is nested so deeply that CAPT cannot check whether it replaces the backend of the workspace: simplify it.")
	}
	if body == nil {
		return 0, nil
	}
	found, _, _ := body.PartialContent(overrideSchema)
	for _, block := range found.Blocks {
		inner, _, _ := block.Body.PartialContent(backendSchema)
		for _, backend := range inner.Blocks {
			return max(backend.DefRange.Start.Line, 1), nil
		}
	}
	return 0, nil
}

func overrideFailure(name string, line int, detail string) *Failure {
	return refusal("init", terraform.Diagnostic{Summary: "Module overrides the backend", Detail: detail, File: name, Line: line})
}
