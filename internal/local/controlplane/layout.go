package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// layout names the files of a control plane's directory.
type layout string

func (l layout) path(names ...string) string {
	return filepath.Join(append([]string{string(l)}, names...)...)
}

// operationLock is held while the control plane is brought up or ended. It also
// marks the directory as one that may be removed.
func (l layout) operationLock() string { return l.path("localcluster.lock") }

// supervisorLock is held by the supervisor and by all it started, so it is free
// only when all are gone.
func (l layout) supervisorLock() string { return l.path("supervisor.lock") }

// spec is what is wanted, status what the supervisor last saw.
func (l layout) spec() string   { return l.path("spec.json") }
func (l layout) status() string { return l.path("status.json") }
func (l layout) ports() string  { return l.path("ports.json") }

// supervisorLink leads to the command line of the living supervisor.
func (l layout) supervisorLink() string { return l.path("supervisor") }

// These are for others to read.
func (l layout) kubeconfig() string  { return l.path("kubeconfig") }
func (l layout) authority() string   { return l.path("ca.crt") }
func (l layout) endpoint() string    { return l.path("endpoint") }
func (l layout) incarnation() string { return l.path("incarnation") }

func (l layout) pki(name string) string { return l.path("pki", name) }
func (l layout) log(name string) string { return l.path("logs", name+".log") }
func (l layout) etcdData() string       { return l.path("etcd") }
func (l layout) stages() string         { return l.path("kwok.yaml") }

// checkDirectory refuses a directory that is not a control plane's or that
// others could write to: it will hold keys, and will be removed as a whole.
func checkDirectory(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("looking at the directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: name one that is empty or does not exist yet", dir)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be changed by other users, and it holds keys: name another directory, or take it over with chown and chmod 700", dir)
	}
	if _, err := os.Lstat(layout(dir).operationLock()); err == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking at the directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s holds files that are not a control plane's: name a directory that is empty or does not exist yet", dir)
	}
	return nil
}

// writeFile replaces a file as a whole, so that a reader, or a start after a
// crash, never sees half of it. Its directory must exist: one that was removed
// is not to come back.
func writeFile(path string, content []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return writeFile(path, append(content, '\n'), 0o600)
}

// readJSON leaves the value as it is when there is no file.
func readJSON(path string, value any) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(path), err)
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
