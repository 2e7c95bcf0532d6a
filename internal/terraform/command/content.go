package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/archive"
)

// archiveFile contains the fetched content of a module until the runner has stored it.
const archiveFile = "module.tar.gz"

// placedModule is a module that was placed into the working directory.
type placedModule struct {
	// root is the path of the root module, relative to the module's directory.
	root string
	// pinned is the content if it was restored.
	pinned *terraform.ModuleContent
	// revision and writer are set if the module was resolved.
	revision string
	writer   *archive.Writer
}

// placeModule places the module into its empty directory: its pinned content, or what
// its address resolves to.
func (w *Workdir) placeModule(ctx context.Context, request *terraform.Request) (*placedModule, error) {
	if placed, err := w.restoreContent(ctx, request); err != nil || placed != nil {
		return placed, err
	}
	placed := &placedModule{root: "."}
	var err error
	switch request.Module.Source {
	case terraform.SourceRemote:
		placed.root, placed.revision, err = w.fetch(ctx, request, w.moduleDir())
	case terraform.SourceFlux:
		placed.root, placed.revision, err = w.placeArtifact(ctx, request.Module, w.moduleDir())
	default:
		err = placeInline(request.Module, w.moduleDir())
	}
	if err != nil {
		return nil, err
	}
	if placed.writer, err = archive.NewWriter(w.ArchiveFile()); err != nil {
		return nil, err
	}
	if request.Module.Source == terraform.SourceInline {
		return placed, nil
	}
	if err := placed.writer.AddRoot(placed.root); err != nil {
		return nil, fmt.Errorf("archiving the module: %w", err)
	}
	return placed, placed.writer.AddTree(w.moduleDir(), archive.PackageDir)
}

// restoreContent places the pinned content of a module into its empty directory. It
// returns nil if the content is not stored any more.
func (w *Workdir) restoreContent(ctx context.Context, request *terraform.Request) (*placedModule, error) {
	pin := request.Module.Pin
	if pin == nil || pin.Archive == "" || w.Archive == nil {
		return nil, nil
	}
	stored, err := w.Archive(ctx, pin.Archive)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	if found, err := archive.Digest(stored); err != nil || found != pin.Digest {
		// The address is fetched again, and the result must have the digest.
		return nil, nil //nolint:nilerr // The archive is only a copy.
	}
	root, err := archive.Unpack(stored, w.moduleDir(), filepath.Join(dataDir, archive.ModulesDir))
	if err == nil && request.Module.Source == terraform.SourceInline {
		err = placeInline(request.Module, w.moduleDir())
	}
	return &placedModule{root: root, pinned: pin}, err
}

// recordContent returns the content of a module after its init. It keeps the archive
// only if the addresses may resolve to other content later. It fails if the content is
// not the pinned one, unless the run must not depend on that.
func (w *Workdir) recordContent(request *terraform.Request, placed *placedModule) (*terraform.ModuleContent, error) {
	if placed.pinned != nil {
		return placed.pinned, nil
	}
	remote := request.Module.Source != terraform.SourceInline
	modules := filepath.Join(w.moduleDir(), placed.root, dataDir, archive.ModulesDir)
	nested, err := hasFetched(modules)
	if err != nil {
		return nil, err
	}
	if nested {
		if err := placed.writer.AddTree(modules, archive.ModulesDir); err != nil {
			return nil, err
		}
	}
	content := &terraform.ModuleContent{Revision: placed.revision, Immutable: !nested && isImmutable(request.Module)}
	if content.Digest, err = placed.writer.Close(); err != nil {
		return nil, err
	}
	if content.Immutable {
		if err := os.Remove(w.ArchiveFile()); err != nil {
			return nil, fmt.Errorf("removing the archive of the module: %w", err)
		}
	}
	if !remote && !nested {
		return nil, nil
	}
	if pin := request.Module.Pin; pin != nil && pin.Digest != content.Digest && request.NeedsPin() {
		return nil, refusal("get", terraform.Diagnostic{
			Summary: "Module changed",
			Detail:  fmt.Sprintf("The module has digest %s, but %s was resolved for these inputs and is not stored any more. Request a run to use the new content.", content.Digest, pin.Digest),
		})
	}
	return content, nil
}

// hasFetched reports whether an init has fetched modules.
func hasFetched(modules string) (bool, error) {
	entries, err := os.ReadDir(modules)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("listing the fetched modules: %w", err)
	}
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool { return entry.Name() != archive.Manifest }), nil
}

// ArchiveFile returns the path of the archive with the fetched content of the module.
// It exists until it is stored.
func (w *Workdir) ArchiveFile() string { return filepath.Join(w.Dir, archiveFile) }

// gitRevision returns the commit of a fetched module, or an empty string if it does
// not come from Git.
func gitRevision(dir string) string {
	head := readLine(filepath.Join(dir, ".git", "HEAD"))
	if ref, symbolic := strings.CutPrefix(head, "ref: "); symbolic && filepath.IsLocal(ref) {
		head = readLine(filepath.Join(dir, ".git", filepath.FromSlash(ref)))
	}
	if !commit.MatchString(head) {
		return ""
	}
	return head
}

func readLine(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSpace(line)
}
