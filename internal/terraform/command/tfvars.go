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
	// tfvarsDir contains the original variable files of the module.
	tfvarsDir = "tfvars"
)

// saveVars copies the module's variable files to tfvarsDir.
func (w *Workdir) saveVars(root string) error {
	saved := filepath.Join(w.Dir, tfvarsDir)
	if err := os.RemoveAll(saved); err != nil {
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
		if err := writeFile(filepath.Join(saved, entry.Name()), content); err != nil {
			return err
		}
	}
	return nil
}

// placeVars writes the module's variable files without the variables that the
// request sets, because the files would override the environment.
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

// withoutVars removes the variables in env from a variable file. It returns an
// invalid file unchanged, so that the tool reports the error.
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
