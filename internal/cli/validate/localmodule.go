package validate

import (
	"fmt"
	"os"
	"path/filepath"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// LocalModule is a module of a directory, which replaces a remote one in a check: the
// content of its files by name.
type LocalModule map[string]string

// ReadModule reads a module.
func ReadModule(dir string) (LocalModule, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("directory %s has no files *.tf", dir)
	}
	module := LocalModule{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		module[filepath.Base(file)] = string(text)
	}
	return module, nil
}

// addressOf returns the address of a module, or the kind and name of its Flux source.
func addressOf(p *infrav1.ModuleParameters) string {
	if p.SourceRef != nil {
		return p.SourceRef.String()
	}
	return p.Module
}

// replaceModules makes the remote modules for which directories are given inline, so that
// their variables are checked.
func (c *checker) replaceModules() {
	objects, templates := all[*infrav1.WorkspaceTemplate](c)
	for i, t := range templates {
		p := &t.Spec.Template.Spec.ForProvider
		module := c.Modules[addressOf(p)]
		if p.Source == infrav1.ModuleSourceInline || module == nil {
			continue
		}
		replaced := t.DeepCopy()
		p = &replaced.Spec.Template.Spec.ForProvider
		p.Source, p.Module, p.Files, p.Version, p.Entrypoint = infrav1.ModuleSourceInline, "", module, "", ""
		p.ModuleCredentials, p.SourceRef = nil, nil
		c.typed[objects[i]] = replaced
	}
}
