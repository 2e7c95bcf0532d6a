package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

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

// backendConfig is the complete configuration of a backend that requires no init.
// The engine writes both the configuration and the record that an init would
// write. The tool finds them equal and continues.
type backendConfig struct {
	kind   string
	values map[string]cty.Value
}

// knownBackend returns the configuration of a backend that requires no init, or
// nil.
func (w *Workdir) knownBackend(backend terraform.Backend) *backendConfig {
	path := stateFileName
	switch backend.Type {
	case terraform.BackendKubernetes:
	case "":
		path = filepath.Join(w.Dir, localState)
	default:
		return nil
	}
	return &backendConfig{kind: terraform.BackendLocal, values: map[string]cty.Value{"path": cty.StringVal(path)}}
}

// hcl returns the content of the override file.
func (b *backendConfig) hcl() []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{b.kind}).Body()
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		body.SetAttributeValue(name, b.values[name])
	}
	return file.Bytes()
}

// record returns what an init would write to .terraform/terraform.tfstate. The
// tool corrects the hash.
func (b *backendConfig) record() ([]byte, error) {
	config := make(map[string]json.RawMessage, len(b.values))
	for name, value := range b.values {
		encoded, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			return nil, fmt.Errorf("encoding backend attribute %s: %w", name, err)
		}
		config[name] = encoded
	}
	return json.Marshal(map[string]any{
		"version": 3,
		"backend": map[string]any{"type": b.kind, "config": config, "hash": 0},
	})
}

// writeBackend writes the backend's configuration and, if the backend requires no
// init, its record.
func (w *Workdir) writeBackend(root string, backend terraform.Backend) error {
	if err := checkOverrides(root); err != nil {
		return err
	}
	known := w.knownBackend(backend)
	if known == nil {
		text := fmt.Sprintf("terraform {\n  backend %q {\n%s\n  }\n}\n", backend.Type, backend.HCL)
		return writeFile(filepath.Join(root, overrideFile), []byte(text))
	}
	if err := writeFile(filepath.Join(root, overrideFile), known.hcl()); err != nil {
		return err
	}
	record, err := known.record()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, dataDir), 0o700); err != nil {
		return fmt.Errorf("creating %s: %w", dataDir, err)
	}
	return writeFile(filepath.Join(root, backendRecord), record)
}
