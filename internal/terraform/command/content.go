package command

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// archiveFile contains the fetched content of a module until the runner has stored
	// it.
	archiveFile = "module.tar.gz"
	// packageDir and modulesDir are the directories of an archive: the fetched package
	// of the root module, and the modules that the init fetched.
	packageDir = "package"
	modulesDir = "modules"
	// rootEntry is the entry of an archive with the path of the root module in its
	// package.
	rootEntry = "root"
	// manifestName is the tool's list of fetched modules.
	manifestName = "modules.json"
	// maxContent limits the size of an unpacked archive.
	maxContent = 256 << 20
)

// contentWriter writes the fetched content of a module to an archive and computes its
// digest.
type contentWriter struct {
	file *os.File
	zip  *gzip.Writer
	tar  *tar.Writer
	sums []string
}

func newContentWriter(name string) (*contentWriter, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the archive of the module: %w", err)
	}
	zip := gzip.NewWriter(file)
	return &contentWriter{file: file, zip: zip, tar: tar.NewWriter(zip)}, nil
}

// addRoot adds the path of the root module in its package.
func (c *contentWriter) addRoot(root string) error {
	return c.addFile(&tar.Header{Name: rootEntry, Mode: 0o600}, []byte(filepath.ToSlash(root)))
}

// addTree adds a directory. It returns how many files it added.
func (c *contentWriter) addTree(from, to string) (int, error) {
	count := 0
	err := filepath.WalkDir(from, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := path.Join(to, filepath.ToSlash(relative))
		switch {
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		case entry.Type()&os.ModeSymlink != 0:
			return c.addLink(name, target, &count)
		case !entry.Type().IsRegular():
			return nil
		}
		count++
		return c.addContent(name, target)
	})
	if err != nil {
		return 0, fmt.Errorf("archiving the module: %w", err)
	}
	return count, nil
}

// addLink adds a symbolic link. The tool links to a module in a local directory, whose
// content is added instead.
func (c *contentWriter) addLink(name, target string, count *int) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() && path.Dir(target) == modulesDir {
		resolved, err := filepath.EvalSymlinks(name)
		if err != nil {
			return err
		}
		added, err := c.addTree(resolved, target)
		*count += added
		return err
	}
	destination, err := os.Readlink(name)
	if err != nil {
		return err
	}
	*count++
	header := &tar.Header{Typeflag: tar.TypeSymlink, Name: target, Linkname: destination}
	c.sums = append(c.sums, sumOf(header, nil))
	return c.tar.WriteHeader(header)
}

func (c *contentWriter) addContent(name, target string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return c.addFile(&tar.Header{Name: target, Mode: int64(info.Mode().Perm())}, content)
}

func (c *contentWriter) addFile(header *tar.Header, content []byte) error {
	header.Size = int64(len(content))
	if err := c.tar.WriteHeader(header); err != nil {
		return err
	}
	c.sums = append(c.sums, sumOf(header, content))
	_, err := c.tar.Write(content)
	return err
}

// close completes the archive and returns the digest of the content.
func (c *contentWriter) close() (string, error) {
	if err := errors.Join(c.tar.Close(), c.zip.Close(), c.file.Close()); err != nil {
		return "", fmt.Errorf("archiving the module: %w", err)
	}
	return contentDigest(c.sums), nil
}

// sumOf returns a line that identifies an entry: its type, whether it is executable,
// its name and its content. Quotes keep names with line breaks apart.
func sumOf(header *tar.Header, content []byte) string {
	if header.Name == path.Join(modulesDir, manifestName) {
		content = sortManifest(content)
	}
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%t %t %q %q %s", header.Typeflag == tar.TypeSymlink, header.Mode&0o100 != 0, header.Name, header.Linkname, hex.EncodeToString(sum[:]))
}

func contentDigest(sums []string) string {
	slices.Sort(sums)
	sum := sha256.Sum256([]byte(strings.Join(sums, "\n")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// sortManifest returns the list of fetched modules in a fixed order. Terraform writes
// it in any.
func sortManifest(content []byte) []byte {
	var manifest struct {
		Modules []map[string]any
	}
	if json.Unmarshal(content, &manifest) != nil {
		return content
	}
	key := func(module map[string]any) string { return fmt.Sprint(module["Key"]) }
	slices.SortFunc(manifest.Modules, func(a, b map[string]any) int { return cmp.Compare(key(a), key(b)) })
	sorted, err := json.Marshal(manifest)
	if err != nil {
		return content
	}
	return sorted
}

// eachEntry calls handle with each entry of an archive.
func eachEntry(archive []byte, handle func(*tar.Header, []byte) error) error {
	err := readArchive(archive, func(header *tar.Header, reader io.Reader) error {
		content, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		return handle(header, content)
	})
	if err != nil {
		return fmt.Errorf("unpacking the module: %w", err)
	}
	return nil
}

// archiveDigest returns the digest of the content of an archive.
func archiveDigest(archive []byte) (string, error) {
	var sums []string
	err := eachEntry(archive, func(header *tar.Header, content []byte) error {
		sums = append(sums, sumOf(header, content))
		return nil
	})
	return contentDigest(sums), err
}

// unpack writes the content of an archive into the empty directory and returns the
// path of the root module in it. Entries cannot leave the directory.
func unpack(archive []byte, dir string) (string, error) {
	root := "."
	err := eachEntry(archive, func(header *tar.Header, content []byte) error {
		if header.Name == rootEntry {
			root = filepath.FromSlash(string(content))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if !filepath.IsLocal(root) {
		return "", fmt.Errorf("unpacking the module: root %q is outside the module", root)
	}
	directory, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("unpacking the module: %w", err)
	}
	defer func() { _ = directory.Close() }()
	return root, eachEntry(archive, func(header *tar.Header, content []byte) error {
		first, rest, _ := strings.Cut(header.Name, "/")
		switch first {
		case packageDir:
		case modulesDir:
			rest = path.Join(filepath.ToSlash(root), dataDir, modulesDir, rest)
		default:
			return nil
		}
		name := filepath.FromSlash(rest)
		if err := directory.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if header.Typeflag == tar.TypeSymlink {
			return directory.Symlink(header.Linkname, name)
		}
		return directory.WriteFile(name, content, os.FileMode(header.Mode).Perm()|0o600)
	})
}

// placedModule is a module that was placed into the working directory.
type placedModule struct {
	// root is the path of the root module, relative to the module's directory.
	root string
	// pinned is the content if it was restored.
	pinned *terraform.ModuleContent
	// revision and writer are set if the module was resolved.
	revision string
	writer   *contentWriter
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
	if placed.writer, err = newContentWriter(w.ArchiveFile()); err != nil {
		return nil, err
	}
	if request.Module.Source == terraform.SourceInline {
		return placed, nil
	}
	if err := placed.writer.addRoot(placed.root); err != nil {
		return nil, fmt.Errorf("archiving the module: %w", err)
	}
	_, err = placed.writer.addTree(w.moduleDir(), packageDir)
	return placed, err
}

// restoreContent places the pinned content of a module into its empty directory. It
// returns nil if the content is not stored any more.
func (w *Workdir) restoreContent(ctx context.Context, request *terraform.Request) (*placedModule, error) {
	pin := request.Module.Pin
	if pin == nil || pin.Archive == "" || w.Archive == nil {
		return nil, nil
	}
	archive, err := w.Archive(ctx, pin.Archive)
	if err != nil || len(archive) == 0 {
		return nil, err
	}
	if found, err := archiveDigest(archive); err != nil || found != pin.Digest {
		// The address is fetched again, and the result must have the digest.
		return nil, nil //nolint:nilerr // The archive is only a copy.
	}
	root, err := unpack(archive, w.moduleDir())
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
	modules := filepath.Join(w.moduleDir(), placed.root, dataDir, modulesDir)
	nested, err := hasFetched(modules)
	if err != nil {
		return nil, err
	}
	if nested {
		if _, err := placed.writer.addTree(modules, modulesDir); err != nil {
			return nil, err
		}
	}
	content := &terraform.ModuleContent{Revision: placed.revision, Immutable: !nested && isImmutable(request.Module)}
	if content.Digest, err = placed.writer.close(); err != nil {
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
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool { return entry.Name() != manifestName }), nil
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
