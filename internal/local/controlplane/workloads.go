package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const deploymentsPath = "/apis/apps/v1/deployments"

// workload is a program that carries out a Deployment.
type workload struct {
	// program is the name of its file.
	program string
	// is tells whether a Deployment asks for it.
	is func(*appsv1.Deployment) bool
	// needs are paths of the kinds that it watches: it would end without them.
	needs []string
	// takes are the variables of the Deployment's container that it is given,
	// if their value is written there.
	takes []string
	// storage is whether it keeps files in a directory of its name.
	storage bool
	// ready is the path at which the port "health" says that it is ready.
	ready string
	// ports are what it listens on; command makes the rest of the command out
	// of them.
	ports   []string
	command func(l layout, namespace string, port map[string]int) (args, env []string)
}

var workloads = []workload{
	{
		program: "source-controller",
		is:      isNamed("flux-system", "source-controller"),
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
		is:      isNamed("flux-system", "helm-controller"),
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
		is: func(d *appsv1.Deployment) bool {
			return d.Labels["app.kubernetes.io/name"] == "karpenter"
		},
		needs: []string{
			"/apis/karpenter.sh/v1/nodepools?limit=1", "/apis/karpenter.sh/v1/nodeclaims?limit=1",
			"/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses?limit=1",
		},
		takes: []string{
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

// workloadOf returns what carries out a Deployment, or nil.
func workloadOf(d *appsv1.Deployment) *workload {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.is(d) })
	if i < 0 {
		return nil
	}
	return &workloads[i]
}

func isWorkload(program string) bool {
	return slices.ContainsFunc(workloads, func(w workload) bool { return w.program == program })
}

// asksForPods tells whether a Deployment wants any.
func asksForPods(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp.IsZero() && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0)
}

// workloadPrograms are the programs of Deployments, each once.
func (l layout) workloadPrograms(deployments []*appsv1.Deployment, p *ports) ([]Program, error) {
	var programs []Program
	for _, d := range deployments {
		w := workloadOf(d)
		if w == nil || !asksForPods(d) || slices.ContainsFunc(programs, func(other Program) bool { return other.Name == w.program }) {
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
				return nil, fmt.Errorf("making the directory of %s: %w", w.program, err)
			}
		}
		args, env := w.command(l, d.Namespace, port)
		programs = append(programs, Program{
			Name: w.program, Path: w.program, Args: args, After: []string{APIServer}, Needs: w.needs,
			Env:      slices.Concat(w.given(d), env, []string{"KUBECONFIG=" + l.kubeconfig()}),
			ReadyURL: "http://" + loopback(port["health"]) + w.ready,
		})
	}
	return programs, nil
}

// given are the variables that the Deployment gives to the program.
func (w *workload) given(d *appsv1.Deployment) []string {
	var env []string
	for _, container := range d.Spec.Template.Spec.Containers[:min(1, len(d.Spec.Template.Spec.Containers))] {
		for _, variable := range container.Env {
			if variable.ValueFrom == nil && slices.Contains(w.takes, variable.Name) {
				env = append(env, variable.Name+"="+variable.Value)
			}
		}
	}
	return env
}

// beginWatch follows the Deployments of the cluster until endWatch.
func (s *supervisor) beginWatch(ctx context.Context) error {
	if s.unwatch != nil {
		return nil
	}
	// A watch lasts.
	client, err := s.layout.client(0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s.unwatch = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if !s.ready([]string{APIServer}) {
				pause(ctx, pollInterval)
				continue
			}
			if err := s.watch(ctx, client); err != nil && ctx.Err() == nil {
				s.log.Info("Watching Deployments again", "because", err)
			}
			pause(ctx, lookInterval)
		}
	}()
	return nil
}

// endWatch forgets the Deployments, so that nothing carries them out.
func (s *supervisor) endWatch() {
	if s.unwatch == nil {
		return
	}
	s.unwatch()
	s.unwatch = nil
	s.note(func(deployments map[string]*appsv1.Deployment) { clear(deployments) })
}

// note changes what is known of the Deployments.
func (s *supervisor) note(change func(map[string]*appsv1.Deployment)) {
	s.mu.Lock()
	if s.deployments == nil {
		s.deployments = map[string]*appsv1.Deployment{}
	}
	change(s.deployments)
	s.fresh = true
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// followWorkloads carries out the Deployments if they have changed.
func (s *supervisor) followWorkloads(ctx context.Context) error {
	s.mu.Lock()
	known, fresh := maps.Clone(s.deployments), s.fresh
	s.fresh = false
	s.mu.Unlock()
	if !fresh {
		return nil
	}
	deployments := slices.SortedFunc(maps.Values(known), func(a, b *appsv1.Deployment) int {
		return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	programs, err := s.workloadPrograms(deployments, s.ports)
	if err != nil {
		return err
	}
	return s.exchange(ctx, &s.workloads, programs)
}

// watch lists the Deployments and follows them until something goes wrong.
func (s *supervisor) watch(ctx context.Context, client *http.Client) error {
	var list appsv1.DeploymentList
	err := s.stream(ctx, client, deploymentsPath, func(d *json.Decoder) error { return d.Decode(&list) })
	if err != nil {
		return err
	}
	s.note(func(deployments map[string]*appsv1.Deployment) {
		clear(deployments)
		for i := range list.Items {
			keepDeployment(deployments, &list.Items[i], false)
		}
	})
	path := deploymentsPath + "?watch=true&timeoutSeconds=600&resourceVersion=" + list.ResourceVersion
	return s.stream(ctx, client, path, func(decoder *json.Decoder) error {
		for {
			var event metav1.WatchEvent
			if err := decoder.Decode(&event); err != nil {
				return err
			}
			if event.Type == "ERROR" {
				return errors.New("the API server forgot where the watch began")
			}
			var deployment appsv1.Deployment
			if err := json.Unmarshal(event.Object.Raw, &deployment); err != nil {
				return err
			}
			if workloadOf(&deployment) == nil {
				continue
			}
			s.note(func(deployments map[string]*appsv1.Deployment) {
				keepDeployment(deployments, &deployment, event.Type == "DELETED")
			})
		}
	})
}

// keepDeployment remembers a Deployment that something carries out.
func keepDeployment(deployments map[string]*appsv1.Deployment, d *appsv1.Deployment, gone bool) {
	key := d.Namespace + "/" + d.Name
	if gone || workloadOf(d) == nil {
		delete(deployments, key)
		return
	}
	deployments[key] = d
}

// stream asks the API server and hands on the answer.
func (s *supervisor) stream(ctx context.Context, client *http.Client, path string, read func(*json.Decoder) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(path), http.NoBody)
	if err != nil {
		return fmt.Errorf("asking for Deployments: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking for Deployments: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking for Deployments: %s", resp.Status)
	}
	if err := read(json.NewDecoder(resp.Body)); err != nil {
		return fmt.Errorf("reading Deployments: %w", err)
	}
	return nil
}

// find returns where the program of a workload is.
func (s *supervisor) find(program string) (string, error) {
	s.mu.Lock()
	path, binDir := s.paths[program], s.binDir
	s.mu.Unlock()
	if isExecutable(path) {
		return path, nil
	}
	return findProgram(program, binDir)
}

// url leads to a path of the API server.
func (s *supervisor) url(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server + path
}
