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

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// markerFile says what a directory was prepared for. It is written last,
	// in one step, so a directory without it is not trusted.
	markerFile = "prepared.json"
	// keptTemplates bounds the shared cache; the least recently used go.
	keptTemplates = 64
)

type marker struct {
	// Key is over everything an init depends on.
	Key string `json:"key"`
	// Root is the root module, relative to the directory.
	Root string `json:"root"`
	// Product is the tool that ran the init.
	Product Product `json:"product"`
	// Files are those of the request, to be removed when a later one has them not.
	Files []string `json:"files,omitempty"`
}

func readMarker(dir string) (marker, error) {
	var m marker
	data, err := os.ReadFile(filepath.Join(dir, markerFile))
	if errors.Is(err, os.ErrNotExist) {
		return marker{Root: "module"}, nil
	}
	if err != nil {
		return m, fmt.Errorf("reading what the directory was prepared for: %w", err)
	}
	if json.Unmarshal(data, &m) != nil || !filepath.IsLocal(m.Root) {
		return marker{Root: "module"}, nil
	}
	return m, nil
}

func (m marker) write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing what the directory was prepared for: %w", err)
	}
	return writeFile(filepath.Join(dir, markerFile), data)
}

// fits reports whether an init would change nothing.
func (m marker) fits(key, root string, lock []byte) bool {
	if m.Key == "" || m.Key != key || !hasConfig(root) {
		return false
	}
	return lockFits(root, lock)
}

// lockFits reports whether the chosen providers are those wanted.
func lockFits(root string, lock []byte) bool {
	if len(lock) == 0 {
		return true
	}
	content, err := os.ReadFile(filepath.Join(root, dependencyLock))
	return err == nil && bytes.Equal(content, lock)
}

// key is over everything an init depends on. Of a backend that needs no init
// it has only the type, so that workspaces share.
func (w *Workdir) key(request *terraform.Request) (string, error) {
	fingerprint, err := w.Tool.fingerprint()
	if err != nil {
		return "", err
	}
	module := request.Module
	module.Refetch = false
	files := map[string]string{}
	for name, content := range request.Files {
		files[name] = ""
		if isConfig(name) || filepath.Base(name) == ".terraformrc" || name == dependencyLock {
			files[name] = digest(content)
		}
	}
	backend := []string{request.Backend.Type}
	if w.knownBackend(request.Backend) == nil {
		backend = append(backend, request.Backend.HCL)
	}
	operator := ""
	for _, path := range []string{w.CLIConfig, os.Getenv(cliConfigEnv)} {
		if content, err := os.ReadFile(path); err == nil {
			operator = digest(content)
			break
		}
	}
	all, err := json.Marshal(map[string]any{
		"format": 1, "tool": fingerprint, "module": module, "files": files, "backend": backend,
		"args": request.InitArgs, "cli": []string{operator, request.Env[cliConfigEnv]}, "plugins": w.pluginCache(request),
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

// fromTemplate copies what an init of another workspace left, or returns nil.
func (w *Workdir) fromTemplate(key string, lock []byte) (*marker, error) {
	template := w.templateDir(key)
	found, err := readMarker(template)
	if err != nil || found.Key != key || !lockFits(filepath.Join(template, found.Root), lock) {
		return nil, err
	}
	if err := copyTree(filepath.Join(template, "module"), w.moduleDir(), func(string) bool { return false }, isProvider); err != nil {
		return nil, err
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(template, markerFile), now, now); err != nil {
		return nil, fmt.Errorf("marking a template as used: %w", err)
	}
	return &found, w.setAsideVars(filepath.Join(w.Dir, found.Root))
}

// toTemplate shares what an init left, without anything of this workspace.
func (w *Workdir) toTemplate(done marker, request *terraform.Request) error {
	template := w.templateDir(done.Key)
	partial := template + ".partial"
	if err := errors.Join(os.RemoveAll(template), os.RemoveAll(partial)); err != nil {
		return fmt.Errorf("replacing a template: %w", err)
	}
	inModule, err := filepath.Rel("module", done.Root)
	if err != nil {
		return fmt.Errorf("sharing the module: %w", err)
	}
	own := []string{overrideFile, kubeconfigFile, backendRecord}
	for name := range request.Files {
		own = append(own, filepath.FromSlash(name))
	}
	skip := func(relative string) bool {
		inRoot, err := filepath.Rel(inModule, relative)
		return err == nil && (slices.Contains(own, inRoot) || terraform.IsAutoVars(inRoot))
	}
	if err := copyTree(w.moduleDir(), filepath.Join(partial, "module"), skip, isProvider); err != nil {
		return err
	}
	if vars := filepath.Join(w.Dir, tfvarsDir); exists(vars) {
		never := func(string) bool { return false }
		if err := copyTree(vars, filepath.Join(partial, done.Root), never, never); err != nil {
			return err
		}
	}
	if err := done.write(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, template); err != nil {
		return fmt.Errorf("sharing the module: %w", err)
	}
	return w.prune()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// prune removes the least recently used templates, except those that somebody
// is using at this moment.
func (w *Workdir) prune() error {
	markers, err := filepath.Glob(filepath.Join(w.Cache, "templates", "*", markerFile))
	if err != nil {
		return fmt.Errorf("looking for old templates: %w", err)
	}
	slices.SortFunc(markers, func(a, b string) int { return modTime(b).Compare(modTime(a)) })
	for _, path := range markers[min(len(markers), keptTemplates):] {
		template := filepath.Dir(path)
		unlock, ok, err := tryLock(template + ".lock")
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		err = os.RemoveAll(template)
		unlock()
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
