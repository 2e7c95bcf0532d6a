package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// overrideFile overrides the backend that the module declares. The tool loads
	// override files in the order of their names, and the last one wins.
	overrideFile = terraform.ReservedFilePrefix + "override.tf"
	// stateFileName is the state of the Kubernetes backend during a run: the engine
	// reads it from its Secret before the run and saves every change of it. The
	// path is relative because a plan records it and may be applied in another
	// directory.
	stateFileName = terraform.ReservedFilePrefix + "state.tfstate"
	// localState is the state of a workspace without a backend. It is outside the
	// module, because the module may be replaced.
	localState = "terraform.tfstate"
)

// localPath returns the path of the state file if the backend of a request requires no init: the
// engine writes both the configuration and the record that an init would write. The tool finds
// them equal and continues.
func (w *Workdir) localPath(backend terraform.Backend) (path string, isLocal bool) {
	switch backend.Type {
	case terraform.BackendKubernetes:
		return stateFileName, true
	case "":
		return filepath.Join(w.Dir, localState), true
	default:
		return "", false
	}
}

// localConfig returns the content of the override file for a state file.
func localConfig(path string) []byte {
	file := hclwrite.NewEmptyFile()
	file.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{terraform.BackendLocal}).Body().
		SetAttributeValue("path", cty.StringVal(path))
	return file.Bytes()
}

// localRecord returns what an init would write to .terraform/terraform.tfstate. The tool corrects
// the hash.
func localRecord(path string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"version": 3,
		"backend": map[string]any{"type": terraform.BackendLocal, "config": map[string]string{"path": path}, "hash": 0},
	})
}

// writeBackend writes the backend's configuration and, if the backend requires no
// init, its record.
func (w *Workdir) writeBackend(root string, backend terraform.Backend) error {
	if err := checkOverrides(root); err != nil {
		return err
	}
	path, isLocal := w.localPath(backend)
	if !isLocal {
		text := fmt.Sprintf("terraform {\n  backend %q {\n%s\n  }\n}\n", backend.Type, backend.HCL)
		return writeFile(filepath.Join(root, overrideFile), []byte(text))
	}
	if err := writeFile(filepath.Join(root, overrideFile), localConfig(path)); err != nil {
		return err
	}
	record, err := localRecord(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, dataDir), 0o700); err != nil {
		return fmt.Errorf("creating %s: %w", dataDir, err)
	}
	return writeFile(filepath.Join(root, backendRecord), record)
}
