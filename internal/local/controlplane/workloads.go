package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// workload is a program that runs in place of a Deployment's pods.
type workload struct {
	// program is the name of the executable.
	program string
	// matches reports whether the program belongs to a Deployment.
	matches func(*appsv1.Deployment) bool
	// needs are the paths of the kinds it watches: it would exit without them.
	needs []string
	// env are the variables that it gets from the Deployment's first container.
	// Variables without a literal value are left out.
	env []string
	// storage reports whether it stores files in a directory of its name.
	storage bool
	// ready is the path of its readiness check on the port "health".
	ready string
	// ports are the purposes of the ports it listens on. command returns its flags
	// and variables, given the ports by purpose.
	ports   []string
	command func(l layout, namespace string, port map[string]int) (args, env []string)
}

var workloads = []workload{
	{
		program: "source-controller",
		matches: isNamed("flux-system", "source-controller"),
		needs: []string{
			"/apis/source.toolkit.fluxcd.io/v1/helmrepositories?limit=1", "/apis/source.toolkit.fluxcd.io/v1/helmcharts?limit=1",
			"/apis/source.toolkit.fluxcd.io/v1/ocirepositories?limit=1", "/apis/source.toolkit.fluxcd.io/v1/buckets?limit=1",
			"/apis/source.toolkit.fluxcd.io/v1/gitrepositories?limit=1",
		},
		storage: true,
		ready:   "/readyz",
		ports:   []string{"storage", "metrics", "health"},
		command: func(l layout, namespace string, port map[string]int) (args, env []string) {
			return []string{
				"--storage-path=" + l.path("source-controller"),
				"--storage-addr=" + loopback(port["storage"]), "--storage-adv-addr=" + loopback(port["storage"]),
				"--metrics-addr=" + loopback(port["metrics"]), "--health-addr=" + loopback(port["health"]),
			}, []string{"RUNTIME_NAMESPACE=" + namespace}
		},
	},
	{
		program: "helm-controller",
		matches: isNamed("flux-system", "helm-controller"),
		needs: []string{
			"/apis/helm.toolkit.fluxcd.io/v2/helmreleases?limit=1", "/apis/source.toolkit.fluxcd.io/v1/helmcharts?limit=1",
			"/apis/source.toolkit.fluxcd.io/v1/ocirepositories?limit=1",
		},
		ready: "/readyz",
		ports: []string{"metrics", "health"},
		command: func(_ layout, namespace string, port map[string]int) (args, env []string) {
			return []string{
				"--metrics-addr=" + loopback(port["metrics"]), "--health-addr=" + loopback(port["health"]),
			}, []string{"RUNTIME_NAMESPACE=" + namespace}
		},
	},
	{
		program: "karpenter-kwok",
		matches: func(d *appsv1.Deployment) bool {
			return d.Labels["app.kubernetes.io/name"] == "karpenter"
		},
		needs: []string{
			"/apis/karpenter.sh/v1/nodepools?limit=1", "/apis/karpenter.sh/v1/nodeclaims?limit=1",
			"/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses?limit=1",
		},
		env: []string{
			"BATCH_IDLE_DURATION", "BATCH_MAX_DURATION", "CLUSTER_NAME", "FEATURE_GATES", "LOG_LEVEL", "MIN_VALUES_POLICY", "PREFERENCE_POLICY",
		},
		ready: "/healthz",
		ports: []string{"metrics", "health"},
		command: func(_ layout, namespace string, port map[string]int) (args, env []string) {
			return nil, []string{
				"SYSTEM_NAMESPACE=" + namespace, "KUBERNETES_MIN_VERSION=1.19.0-0", "DISABLE_LEADER_ELECTION=true",
				fmt.Sprintf("METRICS_PORT=%d", port["metrics"]), fmt.Sprintf("HEALTH_PROBE_PORT=%d", port["health"]),
			}
		},
	},
}

func isNamed(namespace, name string) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool { return d.Namespace == namespace && d.Name == name }
}

// workloadOf returns the workload of a Deployment, or nil.
func workloadOf(d *appsv1.Deployment) *workload {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.matches(d) })
	if i < 0 {
		return nil
	}
	return &workloads[i]
}

func isWorkload(program string) bool {
	return slices.ContainsFunc(workloads, func(w workload) bool { return w.program == program })
}

// wantsPods reports whether a Deployment asks for at least one pod.
func wantsPods(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp.IsZero() && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0)
}

// workloadPrograms returns the programs of Deployments, each of them once.
func (l layout) workloadPrograms(deployments []*appsv1.Deployment, p *ports) ([]Program, error) {
	var programs []Program
	for _, d := range deployments {
		w := workloadOf(d)
		if w == nil || !wantsPods(d) || slices.ContainsFunc(programs, func(other Program) bool { return other.Name == w.program }) {
			continue
		}
		port := map[string]int{}
		for _, purpose := range w.ports {
			name := w.program + "-" + purpose
			if err := p.ensure(l, name); err != nil {
				return nil, err
			}
			port[purpose] = p.numbers[name]
		}
		if w.storage {
			if err := os.Mkdir(l.path(w.program), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, fmt.Errorf("creating the directory of %s: %w", w.program, err)
			}
		}
		args, env := w.command(l, d.Namespace, port)
		programs = append(programs, Program{
			Name: w.program, Path: w.program, Args: args, After: []string{APIServer}, Needs: w.needs,
			Env:      slices.Concat(w.containerEnv(d), env, []string{"KUBECONFIG=" + l.kubeconfig()}),
			ReadyURL: "http://" + loopback(port["health"]) + w.ready,
		})
	}
	return programs, nil
}

// containerEnv returns the variables that the program gets from the Deployment.
func (w *workload) containerEnv(d *appsv1.Deployment) []string {
	var env []string
	for _, container := range d.Spec.Template.Spec.Containers[:min(1, len(d.Spec.Template.Spec.Containers))] {
		for _, variable := range container.Env {
			if variable.ValueFrom == nil && slices.Contains(w.env, variable.Name) {
				env = append(env, variable.Name+"="+variable.Value)
			}
		}
	}
	return env
}

// startWatch makes the supervisor observe the cluster's Deployments until endWatch.
func (s *supervisor) startWatch(ctx context.Context) error {
	if s.stopWatch != nil {
		return nil
	}
	client, err := s.deploymentClient()
	if err != nil {
		return err
	}
	logger := logr.FromSlogHandler(s.log.Handler())
	reflector := cache.NewReflectorWithOptions(
		cache.NewListWatchFromClient(client, "deployments", metav1.NamespaceAll, fields.Everything()),
		&appsv1.Deployment{},
		cache.NewUndeltaStore(s.setDeployments, cache.MetaNamespaceKeyFunc),
		cache.ReflectorOptions{
			Name: "deployments", Logger: &logger,
			// The API server is on this machine and restarts within seconds.
			Backoff: &wait.Backoff{Duration: checkInterval, Factor: 2, Steps: 4, Cap: time.Second},
		})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s.stopWatch = func() { cancel(); <-done }
	go func() {
		defer close(done)
		if poll(ctx, pollInterval, func() bool { return s.ready([]string{APIServer}) }) {
			reflector.RunWithContext(ctx)
		}
	}()
	return nil
}

// deploymentClient returns a client for the kinds of apps/v1.
func (s *supervisor) deploymentClient() (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	config := &rest.Config{
		Host: s.url(""), APIPath: "/apis",
		ContentConfig: rest.ContentConfig{
			GroupVersion: &appsv1.SchemeGroupVersion, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
		},
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: s.caCertificate(), CertFile: s.pki(adminPair + ".crt"), KeyFile: s.pki(adminPair + ".key"),
		},
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client, nil
}

// endWatch stops the watch and forgets the Deployments, which stops the workloads.
func (s *supervisor) endWatch() {
	if s.stopWatch == nil {
		return
	}
	s.stopWatch()
	s.stopWatch = nil
	s.setDeployments(nil)
}

// setDeployments records the Deployments that have a workload, sorted by namespace
// and name.
func (s *supervisor) setDeployments(objects []any) {
	var deployments []*appsv1.Deployment
	for _, object := range objects {
		if d, ok := object.(*appsv1.Deployment); ok && workloadOf(d) != nil {
			deployments = append(deployments, d)
		}
	}
	slices.SortFunc(deployments, func(a, b *appsv1.Deployment) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.mu.Lock()
	same := slices.EqualFunc(s.deployments, deployments, func(a, b *appsv1.Deployment) bool {
		return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
	})
	s.deployments = deployments
	s.deploymentsChanged = s.deploymentsChanged || !same
	s.mu.Unlock()
	if !same {
		s.notify()
	}
}

// applyWorkloads runs the programs of the Deployments if those have changed.
func (s *supervisor) applyWorkloads(ctx context.Context) error {
	s.mu.Lock()
	deployments, changed := s.deployments, s.deploymentsChanged
	s.deploymentsChanged = false
	s.mu.Unlock()
	if !changed {
		return nil
	}
	programs, err := s.workloadPrograms(deployments, s.ports)
	if err != nil {
		return err
	}
	return s.replace(ctx, &s.workloads, programs)
}

// find returns the path of a workload's program.
func (s *supervisor) find(program string) (string, error) {
	s.mu.Lock()
	path, binDir := s.paths[program], s.binDir
	s.mu.Unlock()
	if isExecutable(path) {
		return path, nil
	}
	return findProgram(program, binDir)
}

// url returns the URL of a path of the API server.
func (s *supervisor) url(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server + path
}
