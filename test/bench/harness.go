package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// templateName is the template of every workspace.
const templateName = "bench"

// harness is an API server with helpers.
type harness struct {
	env    *testenv.Environment
	client client.WithWatch
	// raw requests the metrics of the API server.
	raw  kubernetes.Interface
	tofu string
	// cliConfig is an empty configuration of the tool.
	cliConfig string
	work      string
	// managerEnv is added to the environment of the manager.
	managerEnv []string
}

func newHarness(env *testenv.Environment) (*harness, error) {
	h := &harness{env: env, cliConfig: filepath.Join(env.Dir, "tofurc"), work: filepath.Join(env.Dir, "work")}
	var err error
	if h.tofu, err = testenv.Part("tofu"); err != nil {
		return nil, err
	}
	if err := os.WriteFile(h.cliConfig, nil, 0o600); err != nil {
		return nil, fmt.Errorf("writing the tool's configuration: %w", err)
	}
	if h.client, err = client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if h.raw, err = kubernetes.NewForConfig(env.Config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return h, nil
}

// installProvider installs a provider for the tool.
func (h *harness) installProvider(p benchProvider) (err error) {
	h.cliConfig, err = testenv.MirrorProviders(h.env.Dir, p.Provider)
	h.managerEnv = append(h.managerEnv, "TF_CLI_CONFIG_FILE="+h.cliConfig)
	return err
}

func stopQuietly(env *testenv.Environment) {
	if err := env.Stop(); err != nil {
		logf("stopping the API server: %v", err)
	}
}

func workspaceName(i int) string { return fmt.Sprintf("w%04d", i) }

func (h *harness) namespace(ctx context.Context) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	if err := h.client.Create(ctx, ns); err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	return ns.Name, nil
}

// createTemplate creates the template of all workspaces, with credentials as in
// production.
func (h *harness) createTemplate(ctx context.Context, namespace, text string, env map[string]string, runner *infrav1.RunnerConfig) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: templateName}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: templateName}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: text}
	for key, value := range env {
		forProvider := &template.Spec.Template.Spec.ForProvider
		forProvider.Env = append(forProvider.Env, infrav1.EnvVar{Name: key, Value: new(value)})
	}
	for _, obj := range []client.Object{
		&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"id": "0123456789", "key": "0123456789"}},
		&infrav1.WorkspaceProviderConfig{ObjectMeta: meta, Spec: infrav1.WorkspaceProviderConfigSpec{Runner: runner, Credentials: []infrav1.ProviderCredential{
			{Env: "BENCH_ACCESS_KEY_ID", SecretRef: infrav1.KeyReference{Name: templateName, Key: "id"}},
			{Env: "BENCH_SECRET_ACCESS_KEY", SecretRef: infrav1.KeyReference{Name: templateName, Key: "key"}},
		}}},
		template,
	} {
		if err := h.client.Create(ctx, obj); err != nil {
			return fmt.Errorf("creating the template: %w", err)
		}
	}
	return nil
}

// forEach calls do with 0 to n-1, at most limit at a time. Its context ends with the first error.
func forEach(ctx context.Context, n, limit int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (h *harness) createWorkspaces(ctx context.Context, namespace string, n int) error {
	err := forEach(ctx, n, 4, func(ctx context.Context, i int) error {
		name := workspaceName(i)
		return h.client.Create(ctx, &infrav1.WorkspaceTemplateApply{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: infrav1.WorkspaceTemplateApplySpec{
				TemplateRef:                infrav1.TemplateReference{Name: templateName},
				Variables:                  map[string]infrav1.Value{"name": infrav1.StringValue(name)},
				WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: name + "-connection"},
			},
		})
	})
	if err != nil {
		return fmt.Errorf("creating workspaces: %w", err)
	}
	return nil
}

// apply creates n workspaces, and returns the time from then until all are ready.
func (h *harness) apply(ctx context.Context, namespace string, n int) (seconds float64, err error) {
	started := time.Now()
	ready := make(chan error, 1)
	go func() { ready <- h.waitReady(ctx, namespace, n) }()
	if err := h.createWorkspaces(ctx, namespace, n); err != nil {
		return 0, err
	}
	err = <-ready
	return time.Since(started).Seconds(), err
}

// waitReady watches until n workspaces are ready. A failed run is an error, because retries distort the result.
func (h *harness) waitReady(ctx context.Context, namespace string, n int) error {
	ready := map[string]bool{}
	for len(ready) < n {
		watch, err := h.client.Watch(ctx, &infrav1.WorkspaceTemplateApplyList{}, client.InNamespace(namespace))
		if err != nil {
			return fmt.Errorf("watching workspaces: %w", err)
		}
		for event := range watch.ResultChan() {
			apply, ok := event.Object.(*infrav1.WorkspaceTemplateApply)
			if ok && apply.Status.Failure != nil {
				watch.Stop()
				return fmt.Errorf("a run of %s failed: %s: %s", apply.Name, apply.Status.Failure.Reason, apply.Status.Failure.Message)
			}
			if !ok || ready[apply.Name] || !meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition) {
				continue
			}
			ready[apply.Name] = true
			if len(ready) == n {
				break
			}
		}
		watch.Stop()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for workspaces: %w", err)
		}
	}
	return nil
}

// requests returns the number of requests to the API server by verb and resource,
// including periodic Leases and events.
func (h *harness) requests(ctx context.Context) (map[string]int, error) {
	text, err := h.raw.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	counts := map[string]int{}
	samples, err := parseMetrics(text)
	for _, s := range samples {
		if s.Metric[model.MetricNameLabel] != "apiserver_request_total" || s.Metric["resource"] == "" {
			continue
		}
		what := fmt.Sprintf("%s %s/%s", s.Metric["verb"], s.Metric["resource"], s.Metric["subresource"])
		counts[strings.TrimSuffix(what, "/")] += int(s.Value)
	}
	return counts, err
}

// difference returns the increase of each counter.
func difference(before, after map[string]int) map[string]int {
	increase := map[string]int{}
	for what, n := range after {
		if n > before[what] {
			increase[what] = n - before[what]
		}
	}
	return increase
}
