package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/appthrust/capt/config/policy"
	"github.com/appthrust/capt/internal/local/controlplane"
)

// Namespace is the namespace of an environment's templates and classes.
const Namespace = "default"

// pollInterval is how often the API server is checked.
const pollInterval = 50 * time.Millisecond

// record is the content of the record file.
type record struct {
	Name string `json:"name"`
	// KubernetesVersion is the version of the management cluster.
	KubernetesVersion string `json:"kubernetesVersion"`
}

// startup is the state of a call of Up.
type startup struct {
	*plan
	cluster *controlplane.Cluster
	record  record
	// controlPlaneResult receives the error of starting the control plane with its
	// programs.
	controlPlaneResult chan error

	clusterAPICRDs, crds []*unstructured.Unstructured
}

// Up starts the environment and blocks until everything is ready or ctx ends. It is
// idempotent: running parts that match are not restarted, and what a crash has left
// behind is repaired.
func (e *Environment) Up(ctx context.Context, report Report) (*Status, error) {
	if err := os.MkdirAll(filepath.Dir(e.Dir), 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of environments: %w", err)
	}
	release, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	found, err := findFiles(e.Parts)
	if err != nil {
		return nil, err
	}
	s := &startup{plan: &plan{files: found, environment: e}}
	// Starting the control plane must not continue in the background.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, step := range []struct {
		name string
		run  func(context.Context) (note string, err error)
	}{
		{"Files", s.prepare},
		{"Control plane", s.startControlPlane},
		{"CRDs of Cluster API and CAPT", s.installCRDs},
		{"Controllers", s.waitForControllers},
		{"Webhooks and policies", s.configureWebhooks},
		{"Templates and classes", s.installTemplates},
		{"Local clusters", s.resumeClusters},
	} {
		began := time.Now()
		report(Step{Name: step.name})
		note, err := step.run(ctx)
		if err != nil {
			return nil, err
		}
		report(Step{Name: step.name, Done: true, Note: note, Took: time.Since(began)})
	}
	return e.Status(ctx)
}

// prepare creates the directory and finds the required files and programs.
func (s *startup) prepare(ctx context.Context) (string, error) {
	e := s.environment
	if _, err := e.exists(); err != nil {
		return "", err
	}
	if err := s.check(); err != nil {
		return "", err
	}
	for _, dir := range []string{e.Dir, e.clustersDir(), e.workDir(), e.webhookDir(), e.BinDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("creating the directory of the environment: %w", err)
		}
	}
	if err := s.readRecord(ctx); err != nil {
		return "", err
	}
	source, err := s.clusterAPI()
	if err != nil {
		return "", err
	}
	if s.clusterAPICRDs, err = ReadManifests(filepath.Join(source, "crd", "bases")); err != nil {
		return "", err
	}
	if s.crds, err = ReadManifests(s.files.crds()); err != nil {
		return "", err
	}
	s.clusterAPIKinds, s.kinds = servedPaths(s.clusterAPICRDs), servedPaths(s.crds)
	supervisor, err := s.captProgram("localcluster")
	if err != nil {
		return "", err
	}
	if s.cluster, err = e.management(supervisor); err != nil {
		return "", err
	}
	if s.ports, err = s.cluster.Ports(ctx, portNames...); err != nil {
		return "", err
	}
	return "", errors.Join(s.link(s.cluster.Kubeconfig(), e.Kubeconfig()), s.linkWebhookCertificate(), s.linkCommands())
}

// readRecord reads the record file, or creates it with the latest Kubernetes version.
func (s *startup) readRecord(ctx context.Context) error {
	e := s.environment
	text, err := os.ReadFile(e.recordFile())
	if err == nil {
		if err := json.Unmarshal(text, &s.record); err != nil {
			return fmt.Errorf("reading %s: %w", e.recordFile(), err)
		}
		return nil
	}
	version, err := controlplane.Latest(ctx, s.parts)
	if err != nil {
		return fmt.Errorf("run `make parts` first: %w", err)
	}
	s.record = record{Name: e.Name, KubernetesVersion: version.String()}
	if text, err = json.MarshalIndent(s.record, "", "  "); err != nil {
		return fmt.Errorf("encoding the environment: %w", err)
	}
	if err := os.WriteFile(e.recordFile(), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the environment: %w", err)
	}
	return nil
}

func (s *startup) linkWebhookCertificate() error {
	certificate, key := s.cluster.WebhookCertificate()
	dir := s.environment.webhookDir()
	return errors.Join(s.link(certificate, filepath.Join(dir, "tls.crt")), s.link(key, filepath.Join(dir, "tls.key")))
}

func (s *startup) linkCommands() error {
	var all error
	for name, path := range s.commands() {
		all = errors.Join(all, s.link(path, filepath.Join(s.environment.BinDir(), name)))
	}
	return all
}

func (s *startup) link(target, path string) error {
	if current, err := os.Readlink(path); err == nil && current == target {
		return nil
	}
	os.Remove(path)
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("linking %s: %w", filepath.Base(path), err)
	}
	return nil
}

// startControlPlane starts all programs and waits for the API server. The controllers
// wait for their kinds.
func (s *startup) startControlPlane(ctx context.Context) (string, error) {
	programs, err := s.programs(s.cluster.Kubeconfig())
	if err != nil {
		return "", err
	}
	spec := controlplane.Spec{
		Name: "capt-" + s.record.Name, KubernetesVersion: s.record.KubernetesVersion,
		With: []string{"controller-manager"}, BinDir: s.parts, Programs: programs,
	}
	s.controlPlaneResult = make(chan error, 1)
	go func() {
		_, err := s.cluster.Up(ctx, spec)
		s.controlPlaneResult <- err
	}()
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-s.controlPlaneResult:
			s.controlPlaneResult <- err
			if err != nil {
				return false, err
			}
		default:
		}
		return s.cluster.Usable(ctx), nil
	})
	if ctx.Err() != nil {
		return "", fmt.Errorf("waiting for the API server, whose log is %s: %w", s.environment.Log(controlplane.APIServer), context.Cause(ctx))
	}
	if err != nil {
		return "", err
	}
	status, err := s.cluster.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Kubernetes %s at %s", status.KubernetesVersion, status.Endpoint), nil
}

// installCRDs installs the CRDs.
func (s *startup) installCRDs(ctx context.Context) (string, error) {
	ca, err := s.readCACertificate()
	if err != nil {
		return "", err
	}
	if err := setConversion(s.clusterAPICRDs, s.webhookServer(clusterAPIWebhooks, ca)); err != nil {
		return "", err
	}
	all := slices.Concat(s.clusterAPICRDs, s.crds)
	return fmt.Sprintf("%d CRDs", len(all)), s.apply(ctx, all)
}

// waitForControllers waits until all programs are ready.
func (s *startup) waitForControllers(context.Context) (string, error) {
	note := ""
	if s.charts() == "" {
		note = "no charts: run `make addons` to serve them"
	}
	return note, <-s.controlPlaneResult
}

// configureWebhooks registers the webhooks, whose servers are ready, and CAPT's admission policies.
func (s *startup) configureWebhooks(ctx context.Context) (string, error) {
	ca, err := s.readCACertificate()
	if err != nil {
		return "", err
	}
	source, err := s.clusterAPI()
	if err != nil {
		return "", err
	}
	policies, err := policy.Objects()
	if err != nil {
		return "", err
	}
	all := slices.Clone(policies)
	for _, of := range []struct{ file, prefix, port string }{
		{filepath.Join(source, "webhook", "manifests.yaml"), "capi-", clusterAPIWebhooks},
		{s.webhooks(), "capt-", managerWebhooks},
	} {
		configurations, err := ReadManifests(of.file)
		if err != nil {
			return "", err
		}
		if err := redirectWebhooks(configurations, of.prefix, s.webhookServer(of.port, ca)); err != nil {
			return "", err
		}
		all = append(all, configurations...)
	}
	return "", s.apply(ctx, all)
}

// installTemplates installs the templates and classes of local clusters, whose
// directories are in that of the environment.
func (s *startup) installTemplates(ctx context.Context) (string, error) {
	templates, err := filepath.Glob(filepath.Join(s.root, "templates", "local-*.yaml"))
	if err != nil {
		return "", fmt.Errorf("finding templates: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, path := range append(templates, filepath.Join(s.root, "clusterclasses", "local.yaml")) {
		objects, err := ReadManifests(path)
		if err != nil {
			return "", err
		}
		all = append(all, objects...)
	}
	for _, object := range all {
		if object.GetKind() == "WorkspaceTemplate" && object.GetName() == "local-controlplane" {
			if err := setVariable(object, "parent_directory", s.environment.clustersDir()); err != nil {
				return "", err
			}
		}
	}
	return "", s.apply(ctx, all)
}

// resumeClusters restarts the local clusters that a crash or a restart of the machine
// has stopped.
func (s *startup) resumeClusters(ctx context.Context) (string, error) {
	supervisor, err := s.captProgram("localcluster")
	if err != nil {
		return "", err
	}
	clusters, err := s.environment.workloads(supervisor)
	if err != nil {
		return "", err
	}
	resumed := 0
	for _, cluster := range clusters {
		status, err := cluster.Status(ctx)
		if err != nil {
			return "", err
		}
		if !status.Exists || status.Running {
			continue
		}
		if _, err := cluster.Resume(ctx); err != nil {
			return "", fmt.Errorf("restarting local cluster %s: %w", status.Name, err)
		}
		resumed++
	}
	switch {
	case resumed > 0:
		return fmt.Sprintf("%d of %d restarted", resumed, len(clusters)), nil
	case len(clusters) == 0:
		return "none yet", nil
	default:
		return fmt.Sprintf("%d", len(clusters)), nil
	}
}

func (s *startup) readCACertificate() ([]byte, error) {
	ca, err := os.ReadFile(s.cluster.CACertificate())
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate: %w", err)
	}
	return ca, nil
}

func (s *startup) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	c, err := s.environment.Client()
	if err != nil {
		return err
	}
	return Apply(ctx, c, Namespace, objects)
}
