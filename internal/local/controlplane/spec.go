package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// The names of the parts of a control plane.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Workloads is the extra part that runs the programs of known Deployments on this
// machine. It is not a program itself.
const Workloads = "workloads"

// Extras are the values of Spec.With: parts without the prefix "kube-".
var Extras = []string{"controller-manager", "scheduler", "kwok", Workloads}

// partOf maps the names of extra parts to programs.
var partOf = map[string]string{"controller-manager": ControllerManager, "scheduler": Scheduler, "kwok": Kwok}

// Spec is the desired state of a control plane. Name and KubernetesVersion are
// required.
type Spec struct {
	// Name is the cluster's name in the kubeconfig.
	Name string `json:"name"`
	// KubernetesVersion is a minor version such as "1.36". A leading v and a patch
	// are ignored.
	KubernetesVersion string `json:"kubernetesVersion"`
	// With lists extra parts. Extras are the possible values.
	With []string `json:"with,omitempty"`
	// BinDir is the directory that is searched for programs first.
	BinDir string `json:"binDir,omitempty"`
	// TokenWebhook is the path of a kubeconfig for a webhook that reviews bearer
	// tokens for the API server.
	TokenWebhook string `json:"tokenWebhook,omitempty"`
	// Incarnation is written to the file "incarnation" once the control plane is
	// ready, so that other programs can identify the request that created it.
	Incarnation string `json:"incarnation,omitempty"`
	// Programs are started in this order once the API server is ready.
	Programs []Program `json:"programs,omitempty"`
}

// Program is a program that is restarted when it exits.
type Program struct {
	// Name is unique in the control plane. The log has the same name.
	Name string `json:"name"`
	// Path and Args are the command. Args must not contain secrets.
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env are NAME=VALUE entries in addition to PATH, TMPDIR, TZ and HOME, which is
	// the directory. They are stored in a file that only the user can read.
	Env []string `json:"env,omitempty"`
	// ReadyURL returns status 200 when the program is ready. It is http, or https
	// with a certificate that the cluster's CA has signed. A program without it is
	// ready when it has started.
	ReadyURL string `json:"readyURL,omitempty"`
	// After lists programs that must be ready before this one starts.
	After []string `json:"after,omitempty"`
	// Needs are paths of the API server that must exist before the program starts,
	// such as those of the kinds it watches.
	Needs []string `json:"needs,omitempty"`
	// Files are files that the program reads when it starts. It is restarted when
	// the content of one changes.
	Files []string `json:"files,omitempty"`
}

var (
	nameFormat    = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,98}[A-Za-z0-9])?$`)
	programFormat = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// normalize validates the spec and returns its canonical form.
func (s Spec) normalize() (Spec, error) {
	if !nameFormat.MatchString(s.Name) {
		return s, fmt.Errorf("%q is not a valid cluster name: use up to 100 letters, digits, dots, dashes and underscores", s.Name)
	}
	version, err := kubeversion.Parse(s.KubernetesVersion)
	if err != nil {
		return s, err
	}
	s.KubernetesVersion = version.String()

	s.With = slices.Compact(slices.Sorted(slices.Values(s.With)))
	for _, extra := range s.With {
		if !slices.Contains(Extras, extra) {
			return s, fmt.Errorf("unknown extra part %q: use %s", extra, strings.Join(Extras, ", "))
		}
	}
	if s.TokenWebhook != "" {
		if s.TokenWebhook, err = filepath.Abs(s.TokenWebhook); err != nil {
			return s, fmt.Errorf("finding the configuration of the token webhook: %w", err)
		}
		if _, err := os.Stat(s.TokenWebhook); err != nil {
			return s, fmt.Errorf("finding the configuration of the token webhook: %w", err)
		}
	}
	if s.BinDir != "" {
		if s.BinDir, err = filepath.Abs(s.BinDir); err != nil {
			return s, fmt.Errorf("finding the programs: %w", err)
		}
	}
	return s, checkPrograms(s.Programs)
}

func checkPrograms(programs []Program) error {
	taken := []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok, supervisorLog}
	for _, w := range workloads {
		taken = append(taken, w.program)
	}
	for _, p := range programs {
		switch {
		case !programFormat.MatchString(p.Name):
			return fmt.Errorf("%q is not a valid program name: use lower-case letters, digits and dashes", p.Name)
		case slices.Contains(taken, p.Name):
			return fmt.Errorf("program name %s is already in use: choose another", p.Name)
		case !filepath.IsAbs(p.Path):
			return fmt.Errorf("path %[2]q of program %[1]s is not absolute", p.Name, p.Path)
		}
		for _, name := range p.After {
			if !slices.Contains(taken, name) {
				return fmt.Errorf("program %s must start after %s, which is not listed before it", p.Name, name)
			}
		}
		taken = append(taken, p.Name)
	}
	return nil
}

func (s Spec) with(extra string) bool { return slices.Contains(s.With, extra) }

// parts returns the names of the requested parts that are programs.
func (s Spec) parts() []string {
	parts := []string{Etcd, APIServer}
	for _, extra := range s.With {
		if part, program := partOf[extra]; program {
			parts = append(parts, part)
		}
	}
	return parts
}

// request is a spec resolved on this machine. The supervisor runs it.
type request struct {
	Spec
	// Paths are the paths of the programs by name.
	Paths map[string]string `json:"paths"`
	// ID changes with the fields above and with the content of the files they
	// name. The supervisor reports the ID of the request it has applied.
	ID string `json:"id"`
}

// request resolves the spec on this machine.
func (s Spec) request() (*request, error) {
	spec, err := s.normalize()
	if err != nil {
		return nil, err
	}
	r := &request{Spec: spec, Paths: map[string]string{}}
	for _, part := range spec.parts() {
		if r.Paths[part], err = findProgram(part, spec.BinDir); err != nil {
			return nil, err
		}
	}
	if spec.with(Workloads) {
		for _, w := range workloads {
			// A missing program is searched for again when it has to run.
			if path, err := findProgram(w.program, spec.BinDir); err == nil {
				r.Paths[w.program] = path
			}
		}
	}
	files := []string{}
	if spec.TokenWebhook != "" {
		files = append(files, spec.TokenWebhook)
	}
	for _, program := range spec.Programs {
		files = append(files, program.Files...)
	}
	r.ID, err = fingerprint(r, files)
	return r, err
}

// fingerprint returns a hash that changes when the program must be restarted. PATH is that of the
// shell that was used, and no reason: it differs in the next shell.
func (p Program) fingerprint() (string, error) {
	p.Env = slices.DeleteFunc(slices.Clone(p.Env), func(entry string) bool { return strings.HasPrefix(entry, "PATH=") })
	return fingerprint(p, p.Files)
}

// fingerprint returns a hash of a value and of the content of files.
func fingerprint(value any, files []string) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding the spec: %w", err)
	}
	sum := sha256.New()
	sum.Write(content)
	for _, file := range files {
		content, err := digest(file)
		if err != nil {
			return "", fmt.Errorf("reading a file of the spec: %w", err)
		}
		fmt.Fprintf(sum, "\x00%s\x00%x", file, content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// digest returns the hash of a file's content, or nil if the file does not exist.
func digest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}
