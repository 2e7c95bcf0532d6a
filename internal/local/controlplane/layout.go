package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/appthrust/capt/internal/host"
)

// layout is a control plane's directory. Its methods return the paths of the files.
type layout string

func (l layout) path(names ...string) string {
	return filepath.Join(append([]string{string(l)}, names...)...)
}

// operationLock is locked while the control plane is started or stopped. The file
// also marks the directory as one that may be removed.
func (l layout) operationLock() string { return l.path("localcluster.lock") }

// supervisorLock is held by the supervisor and by the parts it started, so it is
// free only when all of them have exited.
func (l layout) supervisorLock() string { return l.path("supervisor.lock") }

// spec contains the desired request, and status what the supervisor last observed.
func (l layout) spec() string   { return l.path("spec.json") }
func (l layout) status() string { return l.path("status.json") }
func (l layout) ports() string  { return l.path("ports.json") }

// supervisorLink links to the command line of the running supervisor.
func (l layout) supervisorLink() string { return l.path("supervisor") }

// These files are for other programs to read.
func (l layout) kubeconfig() string    { return l.path("kubeconfig") }
func (l layout) caCertificate() string { return l.path("ca.crt") }
func (l layout) endpoint() string      { return l.path("endpoint") }
func (l layout) incarnation() string   { return l.path("incarnation") }

func (l layout) pki(name string) string { return l.path("pki", name) }
func (l layout) log(name string) string { return l.path("logs", name+".log") }
func (l layout) etcdData() string       { return l.path("etcd") }
func (l layout) stages() string         { return l.path("kwok.yaml") }

// checkDirectory refuses a directory that does not belong to a control plane or that
// other users can write to: it will contain keys, and Down removes it with all its
// files.
func checkDirectory(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("reading the directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: choose one that is empty or does not exist yet", dir)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s contains keys and must not be writable by other users: choose another directory, or change it with chown and chmod 700", dir)
	}
	if _, err := os.Lstat(layout(dir).operationLock()); err == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s contains files that do not belong to a control plane: choose a directory that is empty or does not exist yet", dir)
	}
	return nil
}

func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return host.WriteFile(path, append(content, '\n'), 0o600)
}

// readJSON decodes a file. If the file does not exist, it does not change the value.
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
