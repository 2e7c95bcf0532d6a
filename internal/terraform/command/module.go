package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/archive"
)

const (
	// fetched is the name of the module block that fetches a remote module.
	fetched = "capt"
	// The files of an inline module in either syntax.
	inlineHCL  = "main.tf"
	inlineJSON = "main.tf.json"
)

var (
	// commit matches a Git commit.
	commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
	// pinned matches addresses that always resolve to the same module.
	pinned = regexp.MustCompile(`[?&](ref=[0-9a-f]{40}|checksum=|digest=sha256(:|%3[aA])[0-9a-f]{64})`)
	// exactVersion matches constraints that allow exactly one version.
	exactVersion = regexp.MustCompile(`^=?\s*\d+\.\d+\.\d+$`)
)

// isPinned reports whether the module can be cached and shared: it is inline, it is an
// artifact with a digest, or its address always resolves to the same version.
func isPinned(module terraform.Module) bool {
	return module.Source == terraform.SourceFlux || isImmutable(module)
}

// isImmutable reports whether the module can always be placed again without a copy of its
// files. Flux deletes old artifacts.
func isImmutable(module terraform.Module) bool {
	return module.Source == terraform.SourceInline || pinned.MatchString(module.Address) ||
		exactVersion.MatchString(module.Version)
}

// placeInline writes an inline module into the directory.
func placeInline(module terraform.Module, dir string) error {
	name := inlineHCL
	if module.Format == terraform.FormatJSON {
		name = inlineJSON
	}
	for path, content := range module.Files {
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(path)), []byte(content)); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, name), []byte(module.Content))
}

// Fetch fetches the remote module of a request into an empty working directory, without its
// providers, and returns the directory of the root module.
func Fetch(ctx context.Context, w *Workdir, request *terraform.Request) (string, error) {
	if err := os.MkdirAll(w.homeDir(), 0o700); err != nil {
		return "", fmt.Errorf("creating the working directory: %w", err)
	}
	root, _, err := w.fetch(ctx, request, w.moduleDir())
	return filepath.Join(w.moduleDir(), root), err
}

// fetch downloads a remote module with the tool, so that addresses have the same
// meaning as in a module block. It copies the whole package, because the root
// module may refer to other modules of it. It returns the root module's path relative
// to the directory, and the revision that the address resolved to.
func (w *Workdir) fetch(ctx context.Context, request *terraform.Request, dir string) (root, revision string, err error) {
	root, revision, err = w.fetchOnce(ctx, request, dir)
	if err == nil || request.Module.Pin == nil || request.NeedsPin() || AsFailure(err) == nil {
		return root, revision, err
	}
	// The revision may not exist any more. The run can use another one.
	latest := *request
	latest.Module.Pin = nil
	return w.fetchOnce(ctx, &latest, dir)
}

func (w *Workdir) fetchOnce(ctx context.Context, request *terraform.Request, dir string) (root, revision string, err error) {
	scratch := filepath.Join(w.Dir, "fetch")
	if err := os.RemoveAll(scratch); err != nil {
		return "", "", fmt.Errorf("clearing the directory for fetching: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// Files such as .netrc and .terraformrc may contain the credentials.
	if err := placeFiles(scratch, request.Files, func(name string) bool { return !isConfig(name) }); err != nil {
		return "", "", err
	}
	session, err := w.session(request, scratch)
	if err != nil {
		return "", "", err
	}
	module := session.resolve(ctx, request.Module)
	if err := writeFile(filepath.Join(scratch, inlineHCL), fetchConfig(module)); err != nil {
		return "", "", err
	}
	if err := session.get(ctx, nil); err != nil {
		if failure := AsFailure(err); failure != nil {
			for i, d := range failure.Diagnostics {
				// The name of the file is that in the module.
				failure.Diagnostics[i].File = strings.TrimPrefix(d.File, dataDir+"/"+archive.ModulesDir+"/"+fetched+"/")
			}
		}
		return "", "", err
	}
	if root, revision, err = fetchedModule(scratch); err != nil {
		return "", "", err
	}
	if revision == "" && module.Pin != nil && ociDigest.MatchString(module.Pin.Revision) {
		revision = module.Pin.Revision
	}
	root, err = copyModule(scratch, dir, filepath.Join(root, filepath.FromSlash(request.Module.Entrypoint)))
	return root, revision, err
}

// resolve returns the module with the digest to which the tag of an OCI registry points, so
// that exactly that is fetched. If it is not known, the tool resolves the tag.
func (s *executor) resolve(ctx context.Context, module terraform.Module) terraform.Module {
	if !strings.HasPrefix(module.Address, ociScheme) || module.Pin != nil && module.Pin.Revision != "" {
		return module
	}
	transport := toolTransport(s.env, s.Root)
	defer transport.CloseIdleConnections()
	digest, err := ociRevision(ctx, module, transport)
	switch {
	case err != nil:
		s.log.print(time.Time{}, fmt.Sprintf("Warning: the revision of the module is unknown: %v", err))
	case ociDigest.MatchString(digest):
		module.Pin = &terraform.ModuleContent{Revision: digest}
	}
	return module
}

func fetchConfig(module terraform.Module) []byte {
	address, version := module.Address, module.Version
	if module.Pin != nil {
		address, version = pinAddress(module)
	}
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("module", []string{fetched}).Body()
	body.SetAttributeValue("source", cty.StringVal(address))
	if version != "" {
		body.SetAttributeValue("version", cty.StringVal(version))
	}
	return file.Bytes()
}

// pinAddress returns the address and version with the revision that they resolved to.
func pinAddress(module terraform.Module) (address, version string) {
	revision := module.Pin.Revision
	base, query, _ := strings.Cut(module.Address, "?")
	values, err := url.ParseQuery(query)
	switch {
	case revision == "" || err != nil:
		return module.Address, module.Version
	case ociDigest.MatchString(revision):
		values.Del("tag")
		values.Set("digest", revision)
		// The tool does not accept an encoded colon.
		return base + "?" + strings.ReplaceAll(values.Encode(), "%3A", ":"), module.Version
	case !commit.MatchString(revision):
		return module.Address, revision
	}
	values.Set("ref", revision)
	// A shallow clone has only the latest commit.
	values.Del("depth")
	return base + "?" + values.Encode(), module.Version
}

// fetchedModule returns the path of the fetched module within its package, and the
// revision that its address resolved to, if it is known.
func fetchedModule(scratch string) (root, revision string, err error) {
	data, err := os.ReadFile(filepath.Join(scratch, dataDir, archive.ModulesDir, archive.Manifest))
	if err != nil {
		return "", "", fmt.Errorf("reading the list of fetched modules: %w", err)
	}
	var manifest struct {
		Modules []struct{ Key, Dir, Version string }
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return "", "", fmt.Errorf("reading the list of fetched modules: %w", err)
	}
	for _, module := range manifest.Modules {
		if module.Key != fetched {
			continue
		}
		revision := module.Version
		if revision == "" {
			revision = gitRevision(filepath.Join(scratch, dataDir, archive.ModulesDir, fetched))
		}
		root, err := filepath.Rel(filepath.Join(dataDir, archive.ModulesDir, fetched), filepath.FromSlash(module.Dir))
		return root, revision, err
	}
	return "", "", errors.New("reading the list of fetched modules: module not found")
}

// copyModule copies the fetched package to dir and returns root, the path of the
// root module in it.
func copyModule(scratch, dir, root string) (string, error) {
	// A module from a local directory is fetched as a symbolic link to it.
	from, err := filepath.EvalSymlinks(filepath.Join(scratch, dataDir, archive.ModulesDir, fetched))
	if err != nil {
		return "", fmt.Errorf("reading the fetched module: %w", err)
	}
	skip := func(relative string) bool {
		base := filepath.Base(relative)
		return base == ".git" || base == dataDir || base == erroredState || strings.HasPrefix(base, terraform.ReservedFilePrefix)
	}
	if err := copyTree(from, dir, skip); err != nil {
		return "", err
	}
	if !hasConfig(filepath.Join(dir, root)) {
		return "", refusal("get", terraform.Diagnostic{
			Summary: "Module has no configuration files",
			Detail:  fmt.Sprintf("Directory %q of the fetched module contains no .tf or .tofu file. Check the address and the entrypoint.", root),
		})
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
