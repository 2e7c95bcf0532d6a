// Package environment runs a management cluster as processes on this machine: a
// Kubernetes control plane, Cluster API and CAPT, which runs OpenTofu as child
// processes. The local clusters it creates are processes on this machine too. Each
// environment has a name and its own directory with all its files, so several can run
// at the same time.
package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/local/controlplane"
)

// DefaultName is the default name of an environment.
const DefaultName = "default"

// Environment is an environment, whether or not it is running.
type Environment struct {
	// Name is the environment's name.
	Name string
	// Dir contains all its files.
	Dir string
	// Parts is the directory of third-party programs. The default is bin/parts of
	// the repository.
	Parts string
	// Page starts a server for the web page, too.
	Page bool
	// ManagerArgs are added to the flags of CAPT's manager, and take precedence over
	// them.
	ManagerArgs []string
}

// Step is a step of Up or Down. It is reported when it starts and when it is done.
type Step struct {
	Name string
	// Done reports whether it is done.
	Done bool
	// Note is additional information for the user.
	Note string
	// Took is the duration of the step.
	Took time.Duration
}

// Report receives the steps. It must not block.
type Report func(Step)

// BaseDir returns the default parent directory of environments.
func BaseDir() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "capt"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a directory for environments: set HOME or pass --dir: %w", err)
	}
	return filepath.Join(home, ".local", "state", "capt"), nil
}

var nameFormat = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// New returns the environment with a name in a parent directory, which is BaseDir by
// default. It changes no files.
func New(name, base string) (*Environment, error) {
	if !nameFormat.MatchString(name) {
		return nil, fmt.Errorf("%q is not a valid environment name: use up to 63 lower-case letters, digits and dashes", name)
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

// Kubeconfig returns the path of an administrator's kubeconfig for the management
// cluster. The file exists once the environment has been up.
func (e *Environment) Kubeconfig() string { return e.path("kubeconfig") }

// PageLink returns a link that opens the web page once, or an empty string if the page is
// not served.
func (e *Environment) PageLink() string {
	link, err := os.ReadFile(e.linkFile())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(link))
}

// BinDir returns the directory with kubectl, captctl and tofu for users. It exists once the
// environment has been up.
func (e *Environment) BinDir() string { return e.path("bin") }

// Log returns the path of the log of a part of the management cluster.
func (e *Environment) Log(part string) string {
	return filepath.Join(e.managementDir(), "logs", part+".log")
}

// Program returns the path of a third-party program, such as one of Flux.
func (e *Environment) Program(name string) (string, error) {
	found, err := findFiles(e.Parts)
	if err != nil {
		return "", err
	}
	return found.part(name)
}

// Root returns the directory of CAPT's manifests, examples and programs.
func (e *Environment) Root() (string, error) {
	found, err := findFiles(e.Parts)
	if err != nil {
		return "", err
	}
	return found.root, nil
}

// Client returns a client for the management cluster.
func (e *Environment) Client() (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", e.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// No other user shares the API server.
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return c, nil
}

func (e *Environment) path(names ...string) string {
	return filepath.Join(append([]string{e.Dir}, names...)...)
}

// linkFile contains a link to the web page.
func (e *Environment) linkFile() string { return e.path("page") }

func (e *Environment) managementDir() string { return e.path("management") }

// clustersDir is the parent directory of local clusters.
func (e *Environment) clustersDir() string { return e.path("clusters") }

// workDir is the parent directory of Terraform's working directories.
func (e *Environment) workDir() string { return e.path("work") }

// webhookDir contains the certificate of webhooks with the file names that Cluster
// API expects.
func (e *Environment) webhookDir() string { return e.path("webhooks") }

// recordFile marks the directory as one that may be removed.
func (e *Environment) recordFile() string { return e.path("environment.json") }

// lock acquires the lock of the environment. It blocks until the lock is free or ctx
// ends.
func (e *Environment) lock(ctx context.Context) (release func(), err error) {
	for {
		held, err := host.LockFile(ctx, e.lockFile())
		if err != nil {
			return nil, err
		}
		if held.Current() {
			return held.Release, nil
		}
		// The previous holder removed the file.
		held.Release()
	}
}

// lockFile is outside of the directory, which Down removes while it holds the lock.
func (e *Environment) lockFile() string {
	return filepath.Join(filepath.Dir(e.Dir), "."+e.Name+".lock")
}

// exists reports whether the environment exists. Another directory of that name is an
// error.
func (e *Environment) exists() (bool, error) {
	if _, err := os.Stat(e.recordFile()); err == nil {
		return true, nil
	}
	entries, err := os.ReadDir(e.Dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the environment: %w", err)
	}
	return false, fmt.Errorf("%s contains files that do not belong to an environment: choose another name, or another directory with --dir", e.Dir)
}

// management returns the control plane of the management cluster.
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

// workloads returns the control planes of the local clusters that the environment has
// created.
func (e *Environment) workloads(supervisor string) ([]*controlplane.Cluster, error) {
	dirs, err := filepath.Glob(filepath.Join(e.clustersDir(), "*"))
	if err != nil {
		return nil, fmt.Errorf("finding local clusters: %w", err)
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
