// Package embedded runs a whole management cluster as processes of this machine:
// a Kubernetes control plane, Cluster API and CAPT, which runs OpenTofu as child
// processes. Local clusters that it makes are processes of this machine too. An
// environment has a name and a directory of its own, so several live side by
// side; everything that belongs to it is in that directory.
package environment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/local/controlplane"
)

// DefaultName is the name of an environment that was given none.
const DefaultName = "default"

// Environment is one environment, whether it runs or not.
type Environment struct {
	// Name is the environment's name.
	Name string
	// Dir holds everything that belongs to it.
	Dir string
	// Parts is where programs are looked for first; empty is bin/parts of the
	// repository.
	Parts string
}

// Step is one step of Up or Down, as it begins and as it ends.
type Step struct {
	Name string
	// Done is whether it has ended.
	Done bool
	// Note says what a person should know of it.
	Note string
	// Took is how long it took.
	Took time.Duration
}

// Report is told of the steps. It must not block.
type Report func(Step)

// BaseDir is where environments are by default.
func BaseDir() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "capt"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a directory for environments: set HOME, or name one with --dir: %w", err)
	}
	return filepath.Join(home, ".local", "state", "capt"), nil
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// New returns the environment of a name below a directory, and touches nothing.
// An empty base is BaseDir.
func New(name, base string) (*Environment, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("%q cannot be the name of an environment: use up to 63 lower-case letters, digits and dashes", name)
	}
	var err error
	if base == "" {
		base, err = BaseDir()
	} else {
		base, err = filepath.Abs(base)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the directory of environments: %w", err)
	}
	return &Environment{Name: name, Dir: filepath.Join(base, name)}, nil
}

// Kubeconfig is the file with which an administrator reaches the management
// cluster. It exists once the environment was up.
func (e *Environment) Kubeconfig() string { return e.path("kubeconfig") }

// Log is the file with the output of a part.
func (e *Environment) Log(part string) string {
	return filepath.Join(e.managementDir(), "logs", part+".log")
}

// Program finds a program of others, such as one of Flux.
func (e *Environment) Program(name string) (string, error) {
	found, err := findFiles(e.Parts)
	if err != nil {
		return "", err
	}
	return found.part(name)
}

// Root is the directory with CAPT's manifests, examples and programs.
func (e *Environment) Root() (string, error) {
	found, err := findFiles(e.Parts)
	if err != nil {
		return "", err
	}
	return found.root, nil
}

// Client reaches the management cluster.
func (e *Environment) Client() (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", e.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// Nothing else shares the API server's time.
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("reaching the management cluster: %w", err)
	}
	return c, nil
}

func (e *Environment) path(names ...string) string {
	return filepath.Join(append([]string{e.Dir}, names...)...)
}

func (e *Environment) managementDir() string { return e.path("management") }

// clustersDir holds the directories of local clusters.
func (e *Environment) clustersDir() string { return e.path("clusters") }

// workDir holds the working directories of Terraform.
func (e *Environment) workDir() string { return e.path("work") }

// webhookDir holds the certificate of webhooks under the names that Cluster API
// looks for.
func (e *Environment) webhookDir() string { return e.path("webhooks") }

// mark is the file that tells that the directory may be removed.
func (e *Environment) mark() string { return e.path("environment.json") }

// lockFile is beside the directory, so that it outlives it.
func (e *Environment) lockFile() string {
	return filepath.Join(filepath.Dir(e.Dir), "."+e.Name+".lock")
}

// exists tells whether there is an environment. A directory that is none is an
// error.
func (e *Environment) exists() (bool, error) {
	if _, err := os.Stat(e.mark()); err == nil {
		return true, nil
	}
	entries, err := os.ReadDir(e.Dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at the environment: %w", err)
	}
	return false, fmt.Errorf("%s holds files that are not an environment's: choose another name, or another directory with --dir", e.Dir)
}

// management is the control plane of the management cluster.
func (e *Environment) management(supervisor string) (*controlplane.Cluster, error) {
	cluster, err := controlplane.New(e.managementDir())
	if err != nil {
		return nil, err
	}
	if supervisor != "" {
		cluster.Supervisor = []string{supervisor, "run"}
	}
	return cluster, nil
}

// workloads are the control planes of local clusters that the environment has
// made.
func (e *Environment) workloads(supervisor string) ([]*controlplane.Cluster, error) {
	dirs, err := filepath.Glob(filepath.Join(e.clustersDir(), "*"))
	if err != nil {
		return nil, fmt.Errorf("looking for local clusters: %w", err)
	}
	clusters := make([]*controlplane.Cluster, 0, len(dirs))
	for _, dir := range dirs {
		cluster, err := controlplane.New(dir)
		if err != nil {
			return nil, err
		}
		if supervisor != "" {
			cluster.Supervisor = []string{supervisor, "run"}
		}
		clusters = append(clusters, cluster)
	}
	return clusters, nil
}
