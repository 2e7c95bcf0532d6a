package generate

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// maxInline limits the size of an inline module, which is a part of an object of Kubernetes.
const maxInline = 512 << 10

// maxFiles is how many further files an inline module has.
const maxFiles = 64

// Inline returns the module of a directory as an inline module. Left are the files that are
// not a part of it although they may matter.
func Inline(dir string) (parameters infrav1.ModuleParameters, left []string, err error) {
	files, left, err := readFiles(dir)
	if err != nil {
		return parameters, nil, err
	}
	main, isJSON := mainFile(files)
	if main == "" {
		return parameters, nil, fmt.Errorf("directory %s has no .tf files: pass the directory of a module", dir)
	}
	parameters = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: files[main]}
	if isJSON {
		parameters.InlineFormat = infrav1.FileFormatJSON
	}
	delete(files, main)
	if len(files) > 0 {
		parameters.Files = files
	}
	size := len(parameters.Module)
	for name, content := range files {
		if err := terraform.ValidateModuleFile(name); err != nil {
			return parameters, nil, err
		}
		size += len(content)
	}
	if size > maxInline || len(files) > maxFiles {
		return parameters, nil, fmt.Errorf("the module in %s is too large for a template (%d files, %d bytes): pass its address in Git or a registry", dir, len(files)+1, size)
	}
	return parameters, left, nil
}

// mainFile returns the file that becomes the text of the module.
func mainFile(files map[string]string) (name string, isJSON bool) {
	for _, name := range []string{"main.tf", "main.tf.json"} {
		if _, found := files[name]; found {
			return name, strings.HasSuffix(name, ".json")
		}
	}
	for _, name := range sorted(files) {
		if !strings.Contains(name, "/") && strings.HasSuffix(name, ".tf") && !terraform.IsOverride(name) {
			return name, false
		}
	}
	return "", false
}

// ignored are the directories of a module that it does not use.
var ignored = []string{"docs", "examples", "example", "test", "tests"}

// readFiles returns the texts of a module by their paths. It leaves out hidden files, states,
// tests, documentation and values, and lists the values and what is no text.
func readFiles(dir string) (files map[string]string, left []string, err error) {
	files = map[string]string{}
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		if err != nil || relative == "." {
			return err
		}
		name, base := filepath.ToSlash(relative), entry.Name()
		switch {
		case entry.IsDir() && (strings.HasPrefix(base, ".") || slices.Contains(ignored, base)):
			return filepath.SkipDir
		case entry.IsDir(), isUnused(base):
			return nil
		case !entry.Type().IsRegular(), strings.HasSuffix(base, ".tfvars"), strings.HasSuffix(base, ".tfvars.json"):
			left = append(left, name)
			return nil
		case len(files) > maxFiles:
			return fmt.Errorf("the module in %s has more than %d files: pass its address in Git or a registry", dir, maxFiles)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !utf8.Valid(content) || len(content) > maxInline {
			left = append(left, name)
			return nil
		}
		files[name] = string(content)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the module: %w", err)
	}
	return files, left, nil
}

// isUnused reports whether Terraform does not need a file of a module.
func isUnused(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".tfstate", ".backup", ".tfplan":
		return true
	}
	return strings.HasPrefix(name, ".") || name == "LICENSE" || strings.HasSuffix(name, ".tftest.hcl") || strings.HasSuffix(name, ".tofutest.hcl")
}

var (
	notLabel    = regexp.MustCompile(`[^a-z0-9]+`)
	onlyVersion = regexp.MustCompile(`^v?[0-9.]+$`)
)

// NameOf returns a name for the objects of a module: that of its directory, of its repository
// or in its registry.
func NameOf(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address = strings.TrimSuffix(strings.TrimRight(address, "/"), ".git")
	if before, inside, found := cutPackage(address); found {
		address = before
		if inside != "" {
			address = inside
		}
	}
	parts := strings.Split(address, "/")
	name := strings.TrimSuffix(parts[len(parts)-1], ".git")
	if isRegistry(parts) {
		name = parts[len(parts)-2]
	}
	name = strings.Trim(notLabel.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if name == "" || onlyVersion.MatchString(name) {
		return "module"
	}
	return name[:min(len(name), 63)]
}

// cutPackage separates the directory inside a package, after a double slash that is not that of
// a scheme.
func cutPackage(address string) (before, inside string, found bool) {
	rest := address
	if _, after, isURL := strings.Cut(address, "://"); isURL {
		rest = after
	}
	outer, inside, found := strings.Cut(rest, "//")
	return strings.TrimSuffix(outer, ".git"), inside, found
}

// isRegistry reports whether the parts of an address are those of a registry: an optional host,
// a namespace, a name and a provider.
func isRegistry(parts []string) bool {
	switch len(parts) {
	case 3:
		return !strings.Contains(parts[0], ".") && !strings.Contains(parts[0], ":") && parts[0] != ""
	case 4:
		return strings.Contains(parts[0], ".") && !strings.Contains(parts[0], ":") && !slices.Contains([]string{"github.com", "bitbucket.org"}, parts[0])
	default:
		return false
	}
}
