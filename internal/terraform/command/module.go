package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// fetched is the name of the module block that fetches a remote module.
	fetched = "capt"
	// The files of an inline module in either syntax.
	inlineHCL  = "main.tf"
	inlineJSON = "main.tf.json"
)

var (
	// pinned matches addresses that always resolve to the same module.
	pinned = regexp.MustCompile(`[?&](ref=[0-9a-f]{40}|checksum=)`)
	// exactVersion matches constraints that allow exactly one version.
	exactVersion = regexp.MustCompile(`^=?\s*\d+\.\d+\.\d+$`)
)

// isPinned reports whether the module can be cached and shared: it is inline, or
// its address always resolves to the same version.
func isPinned(module terraform.Module) bool {
	return module.Source == terraform.SourceInline || pinned.MatchString(module.Address) ||
		exactVersion.MatchString(module.Version)
}

// placeModule writes the module into the empty directory. It returns the root
// module's path relative to that directory.
func (w *Workdir) placeModule(ctx context.Context, request *terraform.Request, dir string) (string, error) {
	module := request.Module
	if module.Source == terraform.SourceRemote {
		return w.fetch(ctx, request, dir)
	}
	name := inlineHCL
	if module.Format == terraform.FormatJSON {
		name = inlineJSON
	}
	return ".", writeFile(filepath.Join(dir, name), []byte(module.Content))
}

// fetch downloads a remote module with the tool, so that addresses have the same
// meaning as in a module block. It copies the whole package, because the root
// module may refer to other modules of it.
func (w *Workdir) fetch(ctx context.Context, request *terraform.Request, dir string) (string, error) {
	scratch := filepath.Join(w.Dir, "fetch")
	if err := os.RemoveAll(scratch); err != nil {
		return "", fmt.Errorf("clearing the directory for fetching: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := writeFile(filepath.Join(scratch, inlineHCL), fetchConfig(request.Module)); err != nil {
		return "", err
	}
	// Files such as .netrc and .terraformrc may contain the credentials.
	if err := placeFiles(scratch, request.Files, func(name string) bool { return !isConfig(name) }); err != nil {
		return "", err
	}
	session, err := w.session(request, scratch)
	if err != nil {
		return "", err
	}
	output, err := session.stream(ctx, "get", []string{"get", "-no-color"}, func(Event) {})
	if err != nil {
		return "", err
	}
	if output.code != 0 {
		failure := session.failure(ctx, "get", output)
		for i := range failure.Diagnostics {
			failure.Diagnostics[i] = relativeTo(failure.Diagnostics[i], dataDir+"/modules/"+fetched+"/")
		}
		return "", failure
	}
	root, err := moduleDir(scratch)
	if err != nil {
		return "", err
	}
	return copyModule(scratch, dir, filepath.Join(root, filepath.FromSlash(request.Module.Entrypoint)))
}

func fetchConfig(module terraform.Module) []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("module", []string{fetched}).Body()
	body.SetAttributeValue("source", cty.StringVal(module.Address))
	if module.Version != "" {
		body.SetAttributeValue("version", cty.StringVal(module.Version))
	}
	return file.Bytes()
}

// moduleDir returns the path of the fetched module within its package.
func moduleDir(scratch string) (string, error) {
	data, err := os.ReadFile(filepath.Join(scratch, dataDir, "modules", "modules.json"))
	if err != nil {
		return "", fmt.Errorf("reading the list of fetched modules: %w", err)
	}
	var manifest struct {
		Modules []struct{ Key, Dir string }
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return "", fmt.Errorf("reading the list of fetched modules: %w", err)
	}
	for _, module := range manifest.Modules {
		if module.Key == fetched {
			return filepath.Rel(filepath.Join(dataDir, "modules", fetched), filepath.FromSlash(module.Dir))
		}
	}
	return "", errors.New("reading the list of fetched modules: module not found")
}

// copyModule copies the fetched package to dir and returns root, the path of the
// root module in it.
func copyModule(scratch, dir, root string) (string, error) {
	// A module from a local directory is fetched as a symbolic link to it.
	from, err := filepath.EvalSymlinks(filepath.Join(scratch, dataDir, "modules", fetched))
	if err != nil {
		return "", fmt.Errorf("reading the fetched module: %w", err)
	}
	skip := func(relative string) bool {
		base := filepath.Base(relative)
		return base == ".git" || base == dataDir || base == erroredState || strings.HasPrefix(base, terraform.ReservedFilePrefix)
	}
	if err := copyTree(from, dir, skip, func(string) bool { return false }); err != nil {
		return "", err
	}
	if !hasConfig(filepath.Join(dir, root)) {
		return "", &Failure{Command: "get", ExitCode: 1, Class: terraform.ClassTerminal, Diagnostics: terraform.Diagnostics{{
			Severity: terraform.SeverityError,
			Summary:  "Module has no configuration files",
			Detail:   fmt.Sprintf("Directory %q of the fetched module contains no .tf or .tofu file. Check the address and the entrypoint.", root),
		}}}
	}
	return root, nil
}

func hasConfig(dir string) bool {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if !entry.IsDir() && isConfig(entry.Name()) {
			return true
		}
	}
	return false
}

// isConfig reports whether the tool loads a file of the module or of a module below
// it as configuration.
func isConfig(name string) bool { return terraform.IsConfig(filepath.Base(name)) }

// relativeTo removes the prefix from the diagnostic's file name, so that the name
// is that in the module.
func relativeTo(d terraform.Diagnostic, prefix string) terraform.Diagnostic {
	d.File = strings.TrimPrefix(d.File, prefix)
	return d
}

// placeFiles writes the files for which include returns true into root.
func placeFiles(root string, files map[string][]byte, include func(name string) bool) error {
	for name, content := range files {
		if !include(name) {
			continue
		}
		if err := writeFile(filepath.Join(root, filepath.FromSlash(name)), content); err != nil {
			return err
		}
	}
	return nil
}
