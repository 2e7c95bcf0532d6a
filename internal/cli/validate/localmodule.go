package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// LocalModule is a module of a directory, which replaces a remote one in a check: the
// content of its files by name.
type LocalModule map[string]string

// ReadModule reads a module.
func ReadModule(dir string) (LocalModule, error) {
	files, err := inspect.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), terraform.IsConfig) {
		return nil, fmt.Errorf("directory %s has no files *.tf", dir)
	}
	module := LocalModule{}
	for name, content := range files {
		module[name] = string(content)
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

// replaceModules makes the modules that are given, and those that can be fetched, inline, so that
// their variables are checked.
func (c *checker) replaceModules(ctx context.Context) {
	objects, templates := all[*infrav1.WorkspaceTemplate](c)
	for i, t := range templates {
		p := &t.Spec.Template.Spec.ForProvider
		if p.Source == infrav1.ModuleSourceInline {
			continue
		}
		module := c.Modules[addressOf(p)]
		if module == nil && p.Source == infrav1.ModuleSourceRemote && c.Fetch != nil {
			fetched, err := c.Fetch(ctx, p)
			if err != nil {
				c.add(objects[i].fail(RuleModule, modulePath, "fetching the module: %s", message.OneLine(err.Error())))
			}
			module = fetched
		}
		if module == nil {
			continue
		}
		replaced := t.DeepCopy()
		p = &replaced.Spec.Template.Spec.ForProvider
		p.Source, p.Version, p.Entrypoint = infrav1.ModuleSourceInline, "", ""
		p.Module, p.Files = module[mainFile], module.others()
		p.ModuleCredentials, p.SourceRef = nil, nil
		c.typed[objects[i]] = replaced
	}
}

// mainFile is the file of a module that is the text of an inline one.
const mainFile = "main.tf"

// others returns the files beside mainFile that an inline module can have.
func (m LocalModule) others() map[string]string {
	files := maps.Clone(m)
	maps.DeleteFunc(files, func(name, _ string) bool { return terraform.ValidateModuleFile(name) != nil })
	return files
}

// Inspect returns the declarations of the module.
func (m LocalModule) Inspect() *inspect.Module {
	files := map[string][]byte{}
	for name, content := range m {
		files[name] = []byte(content)
	}
	return inspect.Files(files)
}
