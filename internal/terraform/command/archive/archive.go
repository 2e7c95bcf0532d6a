// Package archive packs the fetched content of modules, and unpacks it and the artifacts of
// Flux.
package archive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
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
)

const (
	// PackageDir is the directory of an archive with the fetched package of the root module.
	PackageDir = "package"
	// ModulesDir is the directory of an archive with the modules that the init fetched.
	ModulesDir = "modules"
	// rootEntry is the entry of an archive with the path of the root module in its
	// package.
	rootEntry = "root"
	// Manifest is the tool's list of fetched modules.
	Manifest = "modules.json"
	// maxContent limits the size of an unpacked archive.
	maxContent = 256 << 20
)

// Writer writes the fetched content of a module to an archive and computes its
// digest.
type Writer struct {
	file *os.File
	zip  *gzip.Writer
	tar  *tar.Writer
	sums []string
}

// NewWriter returns a writer to a new file.
func NewWriter(name string) (*Writer, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the archive of the module: %w", err)
	}
	zip := gzip.NewWriter(file)
	return &Writer{file: file, zip: zip, tar: tar.NewWriter(zip)}, nil
}

// AddRoot adds the path of the root module in its package.
func (c *Writer) AddRoot(root string) error {
	return c.addFile(&tar.Header{Name: rootEntry, Mode: 0o600}, []byte(filepath.ToSlash(root)))
}

// AddTree adds a directory.
func (c *Writer) AddTree(from, to string) error {
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
			return c.addLink(name, target)
		case !entry.Type().IsRegular():
			return nil
		}
		return c.addContent(name, target)
	})
	if err != nil {
		return fmt.Errorf("archiving the module: %w", err)
	}
	return nil
}

// addLink adds a symbolic link. The tool links to a module in a local directory, whose
// content is added instead.
func (c *Writer) addLink(name, target string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() && path.Dir(target) == ModulesDir {
		resolved, err := filepath.EvalSymlinks(name)
		if err != nil {
			return err
		}
		return c.AddTree(resolved, target)
	}
	destination, err := os.Readlink(name)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeSymlink, Name: target, Linkname: destination}
	c.sums = append(c.sums, sumOf(header, nil))
	return c.tar.WriteHeader(header)
}

func (c *Writer) addContent(name, target string) error {
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

func (c *Writer) addFile(header *tar.Header, content []byte) error {
	header.Size = int64(len(content))
	if err := c.tar.WriteHeader(header); err != nil {
		return err
	}
	c.sums = append(c.sums, sumOf(header, content))
	_, err := c.tar.Write(content)
	return err
}

// Close completes the archive and returns the digest of the content.
func (c *Writer) Close() (string, error) {
	if err := errors.Join(c.tar.Close(), c.zip.Close(), c.file.Close()); err != nil {
		return "", fmt.Errorf("archiving the module: %w", err)
	}
	return contentDigest(c.sums), nil
}

// sumOf returns a line that identifies an entry: its type, whether it is executable,
// its name and its content. Quotes keep names with line breaks apart.
func sumOf(header *tar.Header, content []byte) string {
	if header.Name == path.Join(ModulesDir, Manifest) {
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

// eachContent calls handle with each entry of an archive.
func eachContent(archive []byte, handle func(*tar.Header, []byte) error) error {
	err := each(archive, func(header *tar.Header, reader io.Reader) error {
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

// Digest returns the digest of the content of an archive.
func Digest(archive []byte) (string, error) {
	var sums []string
	err := eachContent(archive, func(header *tar.Header, content []byte) error {
		sums = append(sums, sumOf(header, content))
		return nil
	})
	return contentDigest(sums), err
}

// Unpack writes the content of an archive into the empty directory and returns the
// path of the root module in it, below which modules has those that the init fetched. Entries
// cannot leave the directory.
func Unpack(archive []byte, dir, modules string) (string, error) {
	root := "."
	err := eachContent(archive, func(header *tar.Header, content []byte) error {
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
	return root, eachContent(archive, func(header *tar.Header, content []byte) error {
		first, rest, _ := strings.Cut(header.Name, "/")
		switch first {
		case PackageDir:
		case ModulesDir:
			rest = path.Join(filepath.ToSlash(root), modules, rest)
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
