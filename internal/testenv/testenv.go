// Package testenv starts a real API server, and other programs of Kubernetes and Cluster
// API that a test needs. `make parts` builds the programs.
package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// Environment is a running API server with CAPT's CRDs.
type Environment struct {
	// Config is an administrator's configuration for the API server.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig with the same content.
	Kubeconfig string
	// Client is an uncached client.
	Client client.Client
	// Scheme contains all kinds that CAPT uses.
	Scheme *runtime.Scheme
	// Dir contains logs and certificates. Stop removes it.
	Dir string

	api                *envtest.Environment
	node               *Node
	stops              []func() error
	auditLog           string
	attacks, rolesOnly bool

	managerOnce sync.Once
	manager     *Account
	managerErr  error
}

type options struct {
	controllerManager bool
	clusterAPI        bool
	webhooks          bool
	attacks           bool
	rolesOnly         bool
	node              bool
	crds              *string
	setup             []func(ctrl.Manager) error
	started           []func(*Environment) error
}

// Option configures an environment.
type Option func(*options)

// WithControllerManager runs kube-controller-manager, for example for garbage
// collection, namespaces and Jobs.
func WithControllerManager() Option { return func(o *options) { o.controllerManager = true } }

// WithAttacks lets tests do as runs what policies deny. Otherwise Stop fails after that.
func WithAttacks() Option { return func(o *options) { o.attacks = true } }

// WithoutPolicies leaves out the admission policies, for tests of what the roles permit.
func WithoutPolicies() Option { return func(o *options) { o.rolesOnly = true } }

// WithCRDs installs the CRDs of a directory instead of those of CAPT, or none if it is
// empty.
func WithCRDs(dir string) Option { return func(o *options) { o.crds = &dir } }

// WithClusterAPI runs the controllers and webhooks of Cluster API.
func WithClusterAPI() Option { return func(o *options) { o.clusterAPI = true } }

// WithManager runs a manager in the test process, with the ManagerAccount. setup adds
// controllers to it.
func WithManager(setup func(ctrl.Manager) error) Option {
	return func(o *options) { o.setup = append(o.setup, setup) }
}

// WithStarted calls start when everything else is running, for example to start one of
// CAPT's programs.
func WithStarted(start func(*Environment) error) Option {
	return func(o *options) { o.started = append(o.started, start) }
}

// WithWebhooks installs the webhook configurations of config/webhook and serves the
// webhooks that setup registers with the manager.
func WithWebhooks(setup func(ctrl.Manager) error) Option {
	return func(o *options) {
		o.webhooks = true
		o.setup = append(o.setup, setup)
	}
}

// New starts an environment that is stopped at the end of the test.
func New(t testing.TB, opts ...Option) *Environment {
	t.Helper()
	env, err := Start(opts...)
	if err != nil {
		t.Fatalf("starting the test environment: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stopping the test environment: %v", err)
		}
	})
	return env
}

// Run starts an environment for all tests of a package, runs them and stops it.
// It returns the exit code for os.Exit. Fuzz targets have no environment: each of their
// workers would start one.
func Run(m *testing.M, env **Environment, opts ...Option) int {
	if isSet("test.fuzz", "test.fuzzworker", "test.list") {
		return m.Run()
	}
	started, err := Start(opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the test environment:", err)
		return 1
	}
	*env = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the test environment:", err)
		return 1
	}
	return code
}

// isSet reports whether one of the flags of the test binary is set.
func isSet(names ...string) bool {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || slices.Contains(names, f.Name) })
	return set
}

// EtcdURL returns the address of etcd.
func (e *Environment) EtcdURL() string { return e.api.ControlPlane.Etcd.URL.String() }

// Start starts an environment. The caller must stop it.
func Start(opts ...Option) (*Environment, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	dir, err := os.MkdirTemp("", "capt-testenv-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	env := &Environment{Scheme: scheme.New(), Dir: dir, attacks: o.attacks, rolesOnly: o.rolesOnly}
	if err := env.start(&o); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return env, nil
}

func (e *Environment) start(o *options) error {
	assets, err := Assets()
	if err != nil {
		return err
	}
	root, err := Root()
	if err != nil {
		return err
	}
	if err := e.configure(o, root, assets); err != nil {
		return err
	}
	// A failed start may have started etcd.
	e.stops = append(e.stops, e.api.Stop)
	if e.Config, err = e.api.Start(); err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	// Client-side rate limits would slow down the tests.
	e.Config.QPS = -1

	if e.Client, err = client.New(e.Config, client.Options{Scheme: e.Scheme}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	e.Kubeconfig = filepath.Join(e.Dir, "kubeconfig")
	if err := os.WriteFile(e.Kubeconfig, e.api.KubeConfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if o.controllerManager {
		if err := e.startControllerManager(assets); err != nil {
			return err
		}
	}
	if o.node {
		if err := e.node.start(assets); err != nil {
			return err
		}
	}
	if err := e.installClusterAPI(root, assets, o.clusterAPI); err != nil {
		return err
	}
	if err := e.startManager(o); err != nil {
		return err
	}
	for _, start := range o.started {
		if err := start(e); err != nil {
			return err
		}
	}
	return nil
}

// configure sets the programs and the flags of the API server.
func (e *Environment) configure(o *options, root, assets string) error {
	stop, err := KillAtEnd(e.Dir)
	if err != nil {
		return err
	}
	e.stops = append(e.stops, stop)
	e.api = &envtest.Environment{
		Scheme:                   e.Scheme,
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: waits.Timeout},
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	if e.api.ControlPlane.GetAPIServer().Path, err = e.withCollector(assets, "kube-apiserver"); err != nil {
		return err
	}
	e.api.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(e.Dir, "data")}
	if e.api.ControlPlane.Etcd.Path, err = e.withCollector(assets, "etcd"); err != nil {
		return err
	}
	if o.crds != nil {
		e.api.CRDDirectoryPaths = nil
		if *o.crds != "" {
			e.api.CRDDirectoryPaths = []string{*o.crds}
		}
	}
	if o.webhooks {
		e.api.WebhookInstallOptions.Paths = []string{filepath.Join(root, "config", "webhook", "manifests.yaml")}
	}
	if o.node {
		// A node needs the admission plugin ServiceAccount.
		e.api.ControlPlane.GetAPIServer().Configure().Disable("disable-admission-plugins")
		if err := e.prepareNode(root); err != nil {
			return err
		}
	}
	return e.audit()
}

func (e *Environment) startManager(o *options) error {
	if len(o.setup) == 0 {
		return nil
	}
	mo := ctrl.Options{
		Scheme:  e.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	mo.Controller.SkipNameValidation, mo.Controller.UsePriorityQueue = new(true), new(false)
	if o.webhooks {
		w := e.api.WebhookInstallOptions
		mo.WebhookServer = webhook.NewServer(webhook.Options{Host: w.LocalServingHost, Port: w.LocalServingPort, CertDir: w.LocalServingCertDir})
	}
	account, err := e.ManagerAccount()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(account.Config, mo)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	for _, setup := range o.setup {
		if err := setup(mgr); err != nil {
			return fmt.Errorf("setting up the manager: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	e.stops = append(e.stops, func() error { cancel(); return <-done })
	if o.webhooks {
		return waitUntil(ctx, "the webhook server", func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
	}
	return nil
}

// OnStop adds a function that Stop calls before it stops what was started earlier.
func (e *Environment) OnStop(stop func() error) { e.stops = append(e.stops, stop) }

// Stop stops everything in reverse order and removes the directory. It returns an error if
// a request of ManagerAccount was denied.
func (e *Environment) Stop() error {
	var errs []error
	for _, stop := range slices.Backward(e.stops) {
		errs = append(errs, stop())
	}
	e.stops = nil
	return errors.Join(append(errs, e.checkDenied(), os.RemoveAll(e.Dir))...)
}

// Namespace creates a namespace for a test.
func (e *Environment) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(context.Background(), ns); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return ns.Name
}

// waitUntil calls check until it returns nil, for up to a minute.
func waitUntil(ctx context.Context, what string, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, waits.Timeout, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, last)
	}
	return nil
}
