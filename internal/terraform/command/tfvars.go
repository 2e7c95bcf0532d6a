package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	varPrefix = "TF_VAR_"
	// tfvarsDir keeps the module's own variable files as they were.
	tfvarsDir = "tfvars"
)

// setAsideVars moves the module's own variable files out of it.
func (w *Workdir) setAsideVars(root string) error {
	kept := filepath.Join(w.Dir, tfvarsDir)
	if err := os.RemoveAll(kept); err != nil {
		return fmt.Errorf("clearing variable files: %w", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !terraform.IsAutoVars(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, entry.Name()))
		if err != nil {
			return fmt.Errorf("reading the module: %w", err)
		}
		if err := writeFile(filepath.Join(kept, entry.Name()), content); err != nil {
			return err
		}
	}
	return nil
}

// placeVars puts the module's own variable files back, without the variables
// that the request sets: those are to win.
func (w *Workdir) placeVars(root string, env map[string]string) error {
	entries, err := os.ReadDir(filepath.Join(w.Dir, tfvarsDir))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading variable files: %w", err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(w.Dir, tfvarsDir, entry.Name()))
		if err != nil {
			return fmt.Errorf("reading variable files: %w", err)
		}
		if err := writeFile(filepath.Join(root, entry.Name()), withoutVars(entry.Name(), content, env)); err != nil {
			return err
		}
	}
	return nil
}

// withoutVars leaves a file that cannot be parsed as it is: the tool will say
// what is wrong with it.
func withoutVars(name string, content []byte, env map[string]string) []byte {
	if strings.HasSuffix(name, ".json") {
		var values map[string]json.RawMessage
		if json.Unmarshal(content, &values) != nil {
			return content
		}
		for variable := range values {
			if _, set := env[varPrefix+variable]; set {
				delete(values, variable)
			}
		}
		rest, err := json.Marshal(values)
		if err != nil {
			return content
		}
		return rest
	}
	file, diags := hclwrite.ParseConfig(content, name, hcl.InitialPos)
	if diags.HasErrors() {
		return content
	}
	for variable := range file.Body().Attributes() {
		if _, set := env[varPrefix+variable]; set {
			file.Body().RemoveAttribute(variable)
		}
	}
	return file.Bytes()
}
