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
	// fetched is the name under which a remote module is fetched.
	fetched = "capt"
	// A module's own file, for either syntax.
	inlineHCL  = "main.tf"
	inlineJSON = "main.tf.json"
)

var (
	// pinned matches addresses that always give the same module.
	pinned = regexp.MustCompile(`[?&](ref=[0-9a-f]{40}|checksum=)`)
	// exactVersion matches constraints that allow one version only.
	exactVersion = regexp.MustCompile(`^=?\s*\d+\.\d+\.\d+$`)
)

// isPinned reports whether the module can be shared and kept: its text is
// given, or its address names one version for ever.
func isPinned(module terraform.Module) bool {
	return module.Source == terraform.SourceInline || pinned.MatchString(module.Address) ||
		exactVersion.MatchString(module.Version)
}

// placeModule puts the module into the empty directory and returns its root,
// relative to the directory.
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

// fetch has the tool download a remote module, so that addresses mean what
// they mean in a module block. The whole package is taken, because the root
// module may refer to its neighbours.
func (w *Workdir) fetch(ctx context.Context, request *terraform.Request, dir string) (string, error) {
	scratch := filepath.Join(w.Dir, "fetch")
	if err := os.RemoveAll(scratch); err != nil {
		return "", fmt.Errorf("clearing the fetched module: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := writeFile(filepath.Join(scratch, inlineHCL), fetchConfig(request.Module)); err != nil {
		return "", err
	}
	// Files such as .netrc and .terraformrc may be what gives access.
	if err := placeFiles(scratch, request.Files, func(name string) bool { return !isConfig(name) }); err != nil {
		return "", err
	}
	session, err := w.session(request, scratch)
	if err != nil {
		return "", err
	}
	heard, err := session.stream(ctx, "get", []string{"get", "-no-color"}, func(Event) {})
	if err != nil {
		return "", err
	}
	if heard.code != 0 {
		failure := session.failure(ctx, "get", heard)
		for i := range failure.Diagnostics {
			failure.Diagnostics[i] = relativeTo(failure.Diagnostics[i], dataDir+"/modules/"+fetched+"/")
		}
		return "", failure
	}
	root, err := moduleDir(scratch)
	if err != nil {
		return "", err
	}
	return takeModule(scratch, dir, filepath.Join(root, filepath.FromSlash(request.Module.Entrypoint)))
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

// moduleDir returns where in its package the fetched module is.
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
	return "", errors.New("reading the list of fetched modules: the module is not in it")
}

func takeModule(scratch, dir, root string) (string, error) {
	// A module from a local directory is fetched as a link to it.
	from, err := filepath.EvalSymlinks(filepath.Join(scratch, dataDir, "modules", fetched))
	if err != nil {
		return "", fmt.Errorf("reading the fetched module: %w", err)
	}
	skip := func(relative string) bool {
		base := filepath.Base(relative)
		return base == ".git" || base == dataDir || base == erroredState
	}
	if err := copyTree(from, dir, skip, func(string) bool { return false }); err != nil {
		return "", err
	}
	if !hasConfig(filepath.Join(dir, root)) {
		return "", &Failure{Command: "get", ExitCode: 1, Class: terraform.ClassTerminal, Diagnostics: terraform.Diagnostics{{
			Severity: terraform.SeverityError,
			Summary:  "Module has no configuration files",
			Detail:   fmt.Sprintf("There is no .tf or .tofu file in %q of the fetched module. Check the address and the entrypoint.", root),
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

// isConfig reports whether the tool reads the file as configuration.
func isConfig(name string) bool {
	for _, suffix := range []string{".tf", ".tofu", ".tf.json", ".tofu.json"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// relativeTo shows a file as the module's author knows it.
func relativeTo(d terraform.Diagnostic, prefix string) terraform.Diagnostic {
	d.File = strings.TrimPrefix(d.File, prefix)
	return d
}

func placeFiles(root string, files map[string][]byte, wanted func(string) bool) error {
	for name, content := range files {
		if !wanted(name) {
			continue
		}
		if err := writeFile(filepath.Join(root, filepath.FromSlash(name)), content); err != nil {
			return err
		}
	}
	return nil
}
