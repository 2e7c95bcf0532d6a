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
)

// Names of the parts that a control plane can have.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Workloads is the extra part that carries out known Deployments by programs of
// this machine. It is no program itself.
const Workloads = "workloads"

// Extras are the parts that Spec.With may name, without the prefix "kube-".
var Extras = []string{"controller-manager", "scheduler", "kwok", Workloads}

// partOf translates the short name of an extra part.
var partOf = map[string]string{"controller-manager": ControllerManager, "scheduler": Scheduler, "kwok": Kwok}

// Spec is what a control plane is to be. The zero value of everything but Name
// and KubernetesVersion is good.
type Spec struct {
	// Name is the cluster's name in the kubeconfig.
	Name string `json:"name"`
	// KubernetesVersion is a minor version such as "1.36"; a leading v and a
	// patch are taken off.
	KubernetesVersion string `json:"kubernetesVersion"`
	// With names extra parts, out of Extras.
	With []string `json:"with,omitempty"`
	// BinDir is where programs are looked for first.
	BinDir string `json:"binDir,omitempty"`
	// TokenWebhook is a kubeconfig file that leads the API server to a webhook
	// which reviews bearer tokens.
	TokenWebhook string `json:"tokenWebhook,omitempty"`
	// Incarnation is written to the file "incarnation" once the control plane
	// is ready, for whoever wants to know which request made it.
	Incarnation string `json:"incarnation,omitempty"`
	// Programs are run as well, in this order, once the API server is ready.
	Programs []Program `json:"programs,omitempty"`
}

// Program is a process that is kept alive.
type Program struct {
	// Name is unique in the control plane; the log is named after it.
	Name string `json:"name"`
	// Path and Args are the command. Nothing secret belongs into Args.
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env are NAME=VALUE entries on top of PATH, TMPDIR and HOME, which is the
	// directory. They are kept in a file that only the user can read.
	Env []string `json:"env,omitempty"`
	// ReadyURL answers 200 when the program is ready: http, or https with a
	// certificate of the cluster's authority. Empty is ready at once.
	ReadyURL string `json:"readyURL,omitempty"`
	// After names programs that must be ready before this one starts.
	After []string `json:"after,omitempty"`
	// Needs are paths of the API server that must answer before it starts, such
	// as those of kinds that it watches.
	Needs []string `json:"needs,omitempty"`
	// Files are read by the program when it starts: it is started again when
	// the content of one changes.
	Files []string `json:"files,omitempty"`
}

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,98}[A-Za-z0-9])?$`)
	programForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// normalize checks the spec and returns it in the one form in which equal specs
// are equal.
func (s Spec) normalize() (Spec, error) {
	if !nameForm.MatchString(s.Name) {
		return s, fmt.Errorf("%q cannot be the name of a cluster: use up to 100 letters, digits, dots, dashes and underscores", s.Name)
	}
	version, err := ParseVersion(s.KubernetesVersion)
	if err != nil {
		return s, err
	}
	s.KubernetesVersion = version.String()

	s.With = slices.Compact(slices.Sorted(slices.Values(s.With)))
	for _, extra := range s.With {
		if !slices.Contains(Extras, extra) {
			return s, fmt.Errorf("no extra part %q: use %s", extra, strings.Join(Extras, ", "))
		}
	}
	if s.TokenWebhook != "" {
		if s.TokenWebhook, err = filepath.Abs(s.TokenWebhook); err != nil {
			return s, fmt.Errorf("finding the token webhook's configuration: %w", err)
		}
		if _, err := os.Stat(s.TokenWebhook); err != nil {
			return s, fmt.Errorf("finding the token webhook's configuration: %w", err)
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
		case !programForm.MatchString(p.Name):
			return fmt.Errorf("%q cannot be the name of a program: use lower-case letters, digits and dashes", p.Name)
		case slices.Contains(taken, p.Name):
			return fmt.Errorf("the name %s of a program is taken: give each a name of its own", p.Name)
		case !filepath.IsAbs(p.Path):
			return fmt.Errorf("the program %s needs an absolute path, not %q", p.Name, p.Path)
		}
		for _, name := range p.After {
			if !slices.Contains(taken, name) {
				return fmt.Errorf("the program %s is to start after %s: name one that stands before it", p.Name, name)
			}
		}
		taken = append(taken, p.Name)
	}
	return nil
}

func (s Spec) with(extra string) bool { return slices.Contains(s.With, extra) }

// parts are the programs of Kubernetes that are asked for.
func (s Spec) parts() []string {
	parts := []string{Etcd, APIServer}
	for _, extra := range s.With {
		if part, program := partOf[extra]; program {
			parts = append(parts, part)
		}
	}
	return parts
}

// request is a spec with all that was found out about this machine: what the
// supervisor carries out.
type request struct {
	Spec
	// Paths are where the programs of the parts are.
	Paths map[string]string `json:"paths"`
	// ID changes with anything above and with the content of the files that
	// are named there. The supervisor reports which request it carried out.
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
			// One that is missing is looked for again when it is to run.
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

// fingerprint identifies a value and the content of files.
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

// digest is that of a file's content; one that does not exist has none.
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
