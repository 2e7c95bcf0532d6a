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

// files is where an environment takes its manifests and programs from. Built
// from source that is the repository; a release has the same tree beside its
// programs, and Cluster API's manifests in the folder cluster-api.
type files struct {
	// root has config, templates and clusterclasses.
	root string
	// bin has CAPT's own programs, parts those of others.
	bin, parts string
}

// known is a file that the root must have.
const known = "templates/local-controlplane.yaml"

// findFiles looks above and beside this program, then above the working
// directory.
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
		if root := above(start); root != "" {
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
	return nil, errors.New("CAPT's manifests are not found: run captctl from the repository, or from the folder of a release")
}

// above finds a directory with the known file in dir or above it.
func above(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(known))); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// own finds one of CAPT's programs.
func (f *files) own(name string) (string, error) {
	path := filepath.Join(f.bin, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("no program %s in %s: run `make build` first", name, f.bin)
	}
	return path, nil
}

// part finds a program of others.
func (f *files) part(name string) (string, error) {
	path := filepath.Join(f.parts, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("no program %s in %s: run `make parts` first, or name its directory with --parts", name, f.parts)
	}
	return path, nil
}

// check says which program is missing.
func (f *files) check() error {
	for _, name := range []string{"localcluster", "manager", "runner"} {
		if _, err := f.own(name); err != nil {
			return err
		}
	}
	for _, name := range []string{controlplane.Etcd, controlplane.APIServer, controlplane.ControllerManager, ClusterAPI, "tofu"} {
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

// crds are the files with the kinds of CAPT.
func (f *files) crds() string { return filepath.Join(f.root, "config", "crd", "bases") }

// webhooks is the file with the webhook configurations of CAPT.
func (f *files) webhooks() string {
	return filepath.Join(f.root, "config", "webhook", "manifests.yaml")
}

// clusterAPI is the folder with Cluster API's crd and webhook.
func (f *files) clusterAPI() (string, error) {
	packed := filepath.Join(f.root, "cluster-api")
	if _, err := os.Stat(filepath.Join(packed, "crd", "bases")); err == nil {
		return packed, nil
	}
	const module = "sigs.k8s.io/cluster-api"
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = f.root
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("the manifests of Cluster API are not found: run `go mod download %s` in %s", module, f.root)
	}
	return filepath.Join(dir, "core", "config"), nil
}

// charts is the folder of packed charts, or empty if there is none.
func (f *files) charts() string {
	dir := filepath.Join(f.bin, "charts")
	if packed, _ := filepath.Glob(filepath.Join(dir, "*.tgz")); len(packed) == 0 {
		return ""
	}
	return dir
}
