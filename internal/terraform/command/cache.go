package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
)

const (
	// markerFile contains the marker of a prepared directory. It is written last
	// and atomically, so a directory without it is incomplete.
	markerFile = "prepared.json"
	// maxTemplates limits the number of templates in the shared cache. The least
	// recently used are removed.
	maxTemplates = 64
)

// marker describes what a directory was prepared for.
type marker struct {
	// Key is the hash of everything that an init depends on.
	Key string `json:"key"`
	// Root is the path of the root module, relative to the directory.
	Root string `json:"root"`
	// Product is the tool that ran the init.
	Product string `json:"product"`
	// OwnLock is set if the dependency lock file is a part of the module.
	OwnLock bool `json:"ownLock,omitempty"`
	// Content is the fetched content of the module, or nil if nothing was fetched.
	Content *terraform.ModuleContent `json:"content,omitempty"`
	// Files are the names of the request's files. They are removed if the next
	// request does not contain them.
	Files []string `json:"files,omitempty"`
}

func readMarker(dir string) (marker, error) {
	var m marker
	data, err := os.ReadFile(filepath.Join(dir, markerFile))
	if errors.Is(err, os.ErrNotExist) {
		return marker{Root: "module"}, nil
	}
	if err != nil {
		return m, fmt.Errorf("reading the marker of the working directory: %w", err)
	}
	if json.Unmarshal(data, &m) != nil || !filepath.IsLocal(m.Root) || slices.ContainsFunc(m.Files, func(name string) bool { return !filepath.IsLocal(name) }) {
		return marker{Root: "module"}, nil
	}
	return m, nil
}

func (m marker) write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing the marker of the working directory: %w", err)
	}
	return writeFile(filepath.Join(dir, markerFile), data)
}

// fits reports whether the directory needs no init.
func (m marker) fits(key, root string, request *terraform.Request) bool {
	if m.Key == "" || m.Key != key || !hasConfig(root) || !m.hasContent(request.Module.Pin) {
		return false
	}
	return lockFits(root, request.LockFile)
}

// mayChange reports whether the fetched addresses may resolve to other content.
func (m marker) mayChange() bool { return m.Content != nil && !m.Content.Immutable }

// hasContent reports whether the module has the pinned content, if any.
func (m marker) hasContent(pin *terraform.ModuleContent) bool {
	return pin == nil || m.Content != nil && m.Content.Digest == pin.Digest
}

// lockFits reports whether the module has the given dependency lock file, if any.
func lockFits(root string, lock []byte) bool {
	if len(lock) == 0 {
		return true
	}
	content, err := os.ReadFile(filepath.Join(root, dependencyLock))
	return err == nil && bytes.Equal(content, lock)
}

// key returns the hash of everything that an init depends on. For a backend that
// requires no init it includes only the type, so that workspaces can share the
// result.
func (w *Workdir) key(request *terraform.Request) (string, error) {
	fingerprint, err := w.Tool.Fingerprint()
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for name, content := range request.Files {
		files[name] = ""
		if isConfig(name) || filepath.Base(name) == ".terraformrc" || name == dependencyLock {
			files[name] = digest(content)
		}
	}
	backend := []string{request.Backend.Type}
	if _, isLocal := w.localPath(request.Backend); !isLocal {
		backend = append(backend, request.Backend.HCL)
	}
	operator := ""
	if content, err := os.ReadFile(w.CLIConfig); err == nil {
		operator = digest(content)
	}
	all, err := json.Marshal(map[string]any{
		"format": 4, "tool": fingerprint, "module": request.Module.Identity(), "files": files, "backend": backend,
		"args": request.InitArgs, "cli": []string{operator, request.Env[CLIConfigEnv]}, "plugins": w.pluginCache(request),
	})
	if err != nil {
		return "", fmt.Errorf("computing the key of the working directory: %w", err)
	}
	return digest(all), nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}

func (w *Workdir) templateDir(key string) string  { return filepath.Join(w.Cache, "templates", key) }
func (w *Workdir) templateLock(key string) string { return w.templateDir(key) + ".lock" }

// fromTemplate copies the result of another workspace's init and returns its
// marker, or nil if there is none.
func (w *Workdir) fromTemplate(key string, request *terraform.Request) (*marker, error) {
	template := w.templateDir(key)
	found, err := readMarker(template)
	if err != nil || found.Key != key || !found.hasContent(request.Module.Pin) || !lockFits(filepath.Join(template, found.Root), request.LockFile) {
		return nil, err
	}
	if err := copyTree(filepath.Join(template, "module"), w.moduleDir(), func(string) bool { return false }); err != nil {
		return nil, err
	}
	if archive := filepath.Join(template, archiveFile); exists(archive) {
		if err := copyFile(archive, w.ArchiveFile()); err != nil {
			return nil, fmt.Errorf("copying the archive of the module: %w", err)
		}
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(template, markerFile), now, now); err != nil {
		return nil, fmt.Errorf("updating the time of a template: %w", err)
	}
	return &found, nil
}

// toTemplate copies the result of an init to the shared cache, without the files
// that are specific to this workspace.
func (w *Workdir) toTemplate(prepared marker, request *terraform.Request) error {
	template := w.templateDir(prepared.Key)
	partial := template + ".partial"
	if err := errors.Join(os.RemoveAll(template), os.RemoveAll(partial)); err != nil {
		return fmt.Errorf("replacing a template: %w", err)
	}
	inModule, err := filepath.Rel("module", prepared.Root)
	if err != nil {
		return fmt.Errorf("writing a template: %w", err)
	}
	own := []string{overrideFile, stateFileName, backendRecord, variablesFile}
	for name := range request.Files {
		own = append(own, filepath.FromSlash(name))
	}
	skip := func(relative string) bool {
		inRoot, err := filepath.Rel(inModule, relative)
		return err == nil && slices.Contains(own, inRoot)
	}
	if err := copyTree(w.moduleDir(), filepath.Join(partial, "module"), skip); err != nil {
		return err
	}
	if exists(w.ArchiveFile()) {
		if err := copyFile(w.ArchiveFile(), filepath.Join(partial, archiveFile)); err != nil {
			return fmt.Errorf("copying the archive of the module: %w", err)
		}
	}
	if err := prepared.write(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, template); err != nil {
		return fmt.Errorf("writing a template: %w", err)
	}
	return w.prune()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// prune removes the least recently used templates, except those that are in use.
func (w *Workdir) prune() error {
	markers, err := filepath.Glob(filepath.Join(w.Cache, "templates", "*", markerFile))
	if err != nil {
		return fmt.Errorf("listing templates: %w", err)
	}
	slices.SortFunc(markers, func(a, b string) int { return modTime(b).Compare(modTime(a)) })
	for _, path := range markers[min(len(markers), maxTemplates):] {
		template := filepath.Dir(path)
		lock, err := host.TryLockFile(template + ".lock")
		if errors.Is(err, host.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		err = os.RemoveAll(template)
		lock.Release()
		if err != nil {
			return fmt.Errorf("removing an old template: %w", err)
		}
	}
	return nil
}

func modTime(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
