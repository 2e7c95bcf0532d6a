package environment

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// files are the directories of an environment's manifests and programs. For a build
// from source they are in the repository. A release has the same tree next to its
// programs, and Cluster API's manifests in the directory cluster-api.
type files struct {
	// root contains config, templates and clusterclasses.
	root string
	// bin contains CAPT's programs, and parts third-party programs.
	bin, parts string
}

// rootMarker is a file that identifies the root.
const rootMarker = "templates/local-controlplane.yaml"

// findFiles searches the directory of this program and its parents, then the working
// directory and its parents.
func findFiles(parts string) (*files, error) {
	var starts []string
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		starts = append(starts, filepath.Dir(self))
	}
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	for _, start := range starts {
		if root := findRoot(start); root != "" {
			f := &files{root: root, bin: filepath.Join(root, "bin"), parts: parts}
			if f.parts == "" {
				f.parts = filepath.Join(f.bin, "parts")
			}
			abs, err := filepath.Abs(f.parts)
			if err != nil {
				return nil, fmt.Errorf("finding the programs: %w", err)
			}
			f.parts = abs
			return f, nil
		}
	}
	return nil, errors.New("CAPT's manifests were not found: run captctl in the repository or in the directory of a release")
}

// findRoot returns dir or the nearest parent that has the marker, or an empty string.
func findRoot(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(rootMarker))); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// captProgram returns the path of one of CAPT's programs.
func (f *files) captProgram(name string) (string, error) {
	path := filepath.Join(f.bin, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("program %s not found in %s: run `make build` first", name, f.bin)
	}
	return path, nil
}

// part returns the path of a third-party program.
func (f *files) part(name string) (string, error) {
	path := filepath.Join(f.parts, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("program %s not found in %s: run `make parts` first, or pass its directory with --parts", name, f.parts)
	}
	return path, nil
}

// kubectl is for users: the environment itself does not run it.
const kubectl = "kubectl"

// tofu runs modules. Users run it with captctl shell and captctl plan --dir.
const tofu = "tofu"

// commands returns the programs for users by name. Those of CAPT are missing in a
// tree without captctl.
func (f *files) commands() map[string]string {
	commands := map[string]string{kubectl: filepath.Join(f.parts, kubectl), tofu: filepath.Join(f.parts, tofu)}
	for _, name := range []string{"captctl", "kubectl-capt", "kubectl_complete-capt"} {
		if path, err := f.captProgram(name); err == nil {
			commands[name] = path
		}
	}
	return commands
}

// check returns an error if a program is missing.
func (f *files) check() error {
	for _, name := range []string{"localcluster", "manager", "runner"} {
		if _, err := f.captProgram(name); err != nil {
			return err
		}
	}
	for _, name := range []string{controlplane.Etcd, controlplane.APIServer, controlplane.ControllerManager, ClusterAPI, tofu, kubectl} {
		if _, err := f.part(name); err != nil {
			return err
		}
	}
	if f.charts() != "" {
		if _, err := f.part(Charts); err != nil {
			return err
		}
	}
	return nil
}

// crds returns the directory of CAPT's CRDs.
func (f *files) crds() string { return filepath.Join(f.root, "config", "crd", "bases") }

// webhooks returns the path of CAPT's webhook configurations.
func (f *files) webhooks() string {
	return filepath.Join(f.root, "config", "webhook", "manifests.yaml")
}

// clusterAPI returns the directory of Cluster API's CRDs and webhook configurations.
func (f *files) clusterAPI() (string, error) {
	packaged := filepath.Join(f.root, "cluster-api")
	if _, err := os.Stat(filepath.Join(packaged, "crd", "bases")); err == nil {
		return packaged, nil
	}
	const module = "sigs.k8s.io/cluster-api"
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = f.root
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("Cluster API's manifests were not found: run `go mod download %s` in %s", module, f.root)
	}
	return filepath.Join(dir, "core", "config"), nil
}

// charts returns the directory of packaged charts, or an empty string if there are
// none.
func (f *files) charts() string {
	dir := filepath.Join(f.bin, "charts")
	if packaged, _ := filepath.Glob(filepath.Join(dir, "*.tgz")); len(packaged) == 0 {
		return ""
	}
	return dir
}
