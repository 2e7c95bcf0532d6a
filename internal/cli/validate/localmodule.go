package validate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// LocalModule is a module of a directory, which replaces a remote one in a check.
type LocalModule struct {
	main  string
	files map[string]string
}

// localCall matches the source of a module call that is a directory.
var localCall = regexp.MustCompile(`(source\s*=\s*)"(\.\.?/[^"]*)"`)

// ReadModule reads a module and the modules that it calls by a relative path.
func ReadModule(dir string) (*LocalModule, error) {
	m := &LocalModule{files: map[string]string{}}
	r := &moduleReader{module: m, names: map[string]string{}}
	if err := r.read(dir, ""); err != nil {
		return nil, err
	}
	if m.main == "" && len(m.files) == 0 {
		return nil, fmt.Errorf("directory %s has no files *.tf", dir)
	}
	return m, nil
}

// moduleReader collects the files of a module. names has the directory of each called
// module in the result, by its path.
type moduleReader struct {
	module *LocalModule
	names  map[string]string
}

// read adds the files of a directory below a directory of the result.
func (r *moduleReader) read(dir, at string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		content := string(text)
		for _, call := range localCall.FindAllStringSubmatch(content, -1) {
			name, err := r.call(filepath.Join(dir, filepath.FromSlash(call[2])))
			if err != nil {
				return err
			}
			source := "./modules/" + name
			if at != "" {
				source = "../" + name
			}
			content = strings.ReplaceAll(content, call[0], call[1]+`"`+source+`"`)
		}
		switch name := filepath.Base(file); {
		case at != "":
			r.module.files[at+"/"+name] = content
		case name == "main.tf":
			r.module.main = content
		default:
			r.module.files[name] = content
		}
	}
	return nil
}

// call adds a called module, and returns the name of its directory in the result.
func (r *moduleReader) call(dir string) (string, error) {
	if name, known := r.names[dir]; known {
		return name, nil
	}
	name := filepath.Base(dir)
	for _, taken := range r.names {
		if taken == name {
			name = fmt.Sprintf("%s-%d", name, len(r.names))
		}
	}
	r.names[dir] = name
	return name, r.read(dir, "modules/"+name)
}

// addressOf returns the address of a module, or the kind and name of its Flux source.
func addressOf(p *infrav1.ModuleParameters) string {
	if p.SourceRef != nil {
		return p.SourceRef.String()
	}
	return p.Module
}

// replaceModules makes the remote modules for which directories are given inline, so that
// their variables and conditions are checked.
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
		p.Source, p.Module, p.Files, p.Version, p.Entrypoint = infrav1.ModuleSourceInline, module.main, module.files, "", ""
		p.ModuleSecretReference, p.SourceRef = nil, nil
		c.typed[objects[i]] = replaced
	}
}
