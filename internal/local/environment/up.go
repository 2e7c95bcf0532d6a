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

	"github.com/appthrust/capt/internal/local/controlplane"
)

// Namespace is where an environment has its templates and classes.
const Namespace = "default"

// lookInterval is how often the control plane is asked whether it is there.
const lookInterval = 50 * time.Millisecond

// record is what an environment remembers.
type record struct {
	Name string `json:"name"`
	// KubernetesVersion is the management cluster's.
	KubernetesVersion string `json:"kubernetesVersion"`
}

// rise is one Up.
type rise struct {
	*plan
	cluster *controlplane.Cluster
	record  record
	// upped tells how bringing up the control plane ended.
	upped chan error

	clusterAPICRDs, crds []*unstructured.Unstructured
}

// Up brings the environment up and blocks until everything is ready or ctx ends.
// It may be called again at any time: what runs and fits is left alone, what a
// crash left behind is mended.
func (e *Environment) Up(ctx context.Context, report Report) (*Status, error) {
	if err := os.MkdirAll(filepath.Dir(e.Dir), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of environments: %w", err)
	}
	release, err := controlplane.Lock(ctx, e.lockFile())
	if err != nil {
		return nil, err
	}
	defer release()
	found, err := findFiles(e.Parts)
	if err != nil {
		return nil, err
	}
	r := &rise{plan: &plan{files: found, environment: e}}
	// However it ends, nothing goes on in the background.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, step := range []struct {
		name string
		run  func(context.Context) (note string, err error)
	}{
		{"Files", r.prepare},
		{"Control plane", r.controlPlane},
		{"Kinds of Cluster API and CAPT", r.install},
		{"Controllers", r.controllers},
		{"Webhooks", r.webhookServers},
		{"Templates and classes", r.templates},
		{"Local clusters", r.resume},
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

// prepare makes the directory and finds everything that is needed.
func (r *rise) prepare(ctx context.Context) (string, error) {
	e := r.environment
	if _, err := e.exists(); err != nil {
		return "", err
	}
	if err := r.check(); err != nil {
		return "", err
	}
	for _, dir := range []string{e.Dir, e.clustersDir(), e.workDir(), e.webhookDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("making the environment's directory: %w", err)
		}
	}
	if err := r.remember(ctx); err != nil {
		return "", err
	}
	source, err := r.clusterAPI()
	if err != nil {
		return "", err
	}
	if r.clusterAPICRDs, err = ReadManifests(filepath.Join(source, "crd", "bases")); err != nil {
		return "", err
	}
	if r.crds, err = ReadManifests(r.files.crds()); err != nil {
		return "", err
	}
	r.clusterAPIKinds, r.kinds = servedAt(r.clusterAPICRDs), servedAt(r.crds)
	supervisor, err := r.own("localcluster")
	if err != nil {
		return "", err
	}
	if r.cluster, err = e.management(supervisor); err != nil {
		return "", err
	}
	if r.ports, err = r.cluster.Ports(ctx, portNames...); err != nil {
		return "", err
	}
	return "", errors.Join(r.link(r.cluster.Kubeconfig(), e.Kubeconfig()), r.linkPair())
}

// remember marks the directory as an environment's, and keeps its version.
func (r *rise) remember(ctx context.Context) error {
	e := r.environment
	text, err := os.ReadFile(e.mark())
	if err == nil {
		if err := json.Unmarshal(text, &r.record); err != nil {
			return fmt.Errorf("reading %s: %w", e.mark(), err)
		}
		return nil
	}
	version, err := controlplane.Latest(ctx, r.parts)
	if err != nil {
		return fmt.Errorf("run `make parts` first: %w", err)
	}
	r.record = record{Name: e.Name, KubernetesVersion: version.String()}
	if text, err = json.MarshalIndent(r.record, "", "  "); err != nil {
		return fmt.Errorf("encoding the environment: %w", err)
	}
	if err := os.WriteFile(e.mark(), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the environment: %w", err)
	}
	return nil
}

func (r *rise) linkPair() error {
	certificate, key := r.cluster.WebhookCertificate()
	dir := r.environment.webhookDir()
	return errors.Join(r.link(certificate, filepath.Join(dir, "tls.crt")), r.link(key, filepath.Join(dir, "tls.key")))
}

func (r *rise) link(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	os.Remove(path)
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("linking %s: %w", filepath.Base(path), err)
	}
	return nil
}

// controlPlane has everything started and waits for the API server. The
// controllers wait for their kinds.
func (r *rise) controlPlane(ctx context.Context) (string, error) {
	programs, err := r.programs(r.cluster.Kubeconfig())
	if err != nil {
		return "", err
	}
	spec := controlplane.Spec{
		Name: "capt-" + r.record.Name, KubernetesVersion: r.record.KubernetesVersion,
		With: []string{"controller-manager"}, BinDir: r.parts, Programs: programs,
	}
	r.upped = make(chan error, 1)
	go func() {
		_, err := r.cluster.Up(ctx, spec)
		r.upped <- err
	}()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		status, err := r.cluster.Status(ctx)
		if err != nil {
			return "", err
		}
		if r.cluster.Usable(ctx) {
			return fmt.Sprintf("Kubernetes %s at %s", status.KubernetesVersion, status.Endpoint), nil
		}
		select {
		case err := <-r.upped:
			r.upped <- err
			if err != nil {
				return "", err
			}
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the API server, whose log is %s: %w", r.environment.Log(controlplane.APIServer), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// install makes the kinds.
func (r *rise) install(ctx context.Context) (string, error) {
	authority, err := r.authority()
	if err != nil {
		return "", err
	}
	if err := convertAt(r.clusterAPICRDs, r.webhooksOf(clusterAPIWebhooks, authority)); err != nil {
		return "", err
	}
	all := slices.Concat(r.clusterAPICRDs, r.crds)
	return fmt.Sprintf("%d kinds", len(all)), r.apply(ctx, all)
}

// controllers waits until everything is ready.
func (r *rise) controllers(context.Context) (string, error) {
	note := ""
	if r.charts() == "" {
		note = "without charts: run `make addons` for them"
	}
	return note, <-r.upped
}

// webhookServers leads the API server to the webhooks, which are served now.
func (r *rise) webhookServers(ctx context.Context) (string, error) {
	authority, err := r.authority()
	if err != nil {
		return "", err
	}
	source, err := r.clusterAPI()
	if err != nil {
		return "", err
	}
	var all []*unstructured.Unstructured
	for _, of := range []struct{ file, prefix, port string }{
		{filepath.Join(source, "webhook", "manifests.yaml"), "capi-", clusterAPIWebhooks},
		{r.webhooks(), "capt-", managerWebhooks},
	} {
		configurations, err := ReadManifests(of.file)
		if err != nil {
			return "", err
		}
		if err := webhookConfigurations(configurations, of.prefix, r.webhooksOf(of.port, authority)); err != nil {
			return "", err
		}
		all = append(all, configurations...)
	}
	return "", r.apply(ctx, all)
}

// templates installs what local clusters are made of; their directories are in
// the environment's.
func (r *rise) templates(ctx context.Context) (string, error) {
	templates, err := filepath.Glob(filepath.Join(r.root, "templates", "local-*.yaml"))
	if err != nil {
		return "", fmt.Errorf("finding templates: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, path := range append(templates, filepath.Join(r.root, "clusterclasses", "local.yaml")) {
		objects, err := ReadManifests(path)
		if err != nil {
			return "", err
		}
		all = append(all, objects...)
	}
	for _, object := range all {
		if object.GetKind() == "WorkspaceTemplate" && object.GetName() == "local-controlplane" {
			if err := setVariable(object, "parent_directory", r.environment.clustersDir()); err != nil {
				return "", err
			}
		}
	}
	return "", r.apply(ctx, all)
}

// resume brings local clusters up again that a crash or a restart of the machine
// has ended.
func (r *rise) resume(ctx context.Context) (string, error) {
	supervisor, err := r.own("localcluster")
	if err != nil {
		return "", err
	}
	clusters, err := r.environment.workloads(supervisor)
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
			return "", fmt.Errorf("bringing up %s again: %w", status.Name, err)
		}
		resumed++
	}
	switch {
	case resumed > 0:
		return fmt.Sprintf("%d of %d brought up again", resumed, len(clusters)), nil
	case len(clusters) == 0:
		return "none yet", nil
	default:
		return fmt.Sprintf("%d", len(clusters)), nil
	}
}

func (r *rise) authority() ([]byte, error) {
	authority, err := os.ReadFile(r.cluster.CACertificate())
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	return authority, nil
}

func (r *rise) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	c, err := r.environment.Client()
	if err != nil {
		return err
	}
	return Apply(ctx, c, Namespace, objects)
}
