package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/cluster-api/util/flags"
)

// Options are the settings of the manager's command line.
type Options struct {
	// Providers are the providers whose controllers and webhooks the manager runs.
	Providers []string
	// Namespace restricts the manager to one namespace.
	Namespace string
	// WatchFilter restricts the manager to objects with this value of the label
	// cluster.x-k8s.io/watch-filter.
	WatchFilter string
	// Concurrency is the number of objects of each kind that are reconciled at once.
	Concurrency int
	// SyncPeriod is the periodic resync interval.
	SyncPeriod time.Duration

	// QPS and Burst limit the requests to the API server.
	QPS   float32
	Burst int

	// NoCrossNamespaceRefs refuses references to objects of other namespaces, also those
	// that a CAPTReferenceGrant allows.
	NoCrossNamespaceRefs bool

	// ClusterPolicies lets ClusterWorkspacePolicies decide about plans.
	ClusterPolicies bool

	// AWSOwnIdentity lets the manager use its own AWS identity if a provider config
	// has no credentials.
	AWSOwnIdentity bool

	// ReadCharts lets the manager read charts, to check the values that add-ons set.
	ReadCharts bool

	// HealthAddress is the address of /healthz and /readyz.
	HealthAddress string
	// WebhookHost, WebhookPort and WebhookCertDir configure the webhooks. Port 0 disables
	// them.
	WebhookHost    string
	WebhookPort    int
	WebhookCertDir string
	// DiagnosticsCertDir has the certificate of the metrics endpoint.
	DiagnosticsCertDir string

	// LeaderElect allows only one of several managers to be active.
	LeaderElect          bool
	LeaderElectNamespace string
	LeaseDuration        time.Duration
	RenewDeadline        time.Duration
	RetryPeriod          time.Duration

	// TracesEndpoint is the address of the OpenTelemetry collector of the traces of runs.
	// Empty sends none.
	TracesEndpoint string

	// ShutdownTimeout is how long the manager may take to stop.
	ShutdownTimeout time.Duration

	// Diagnostics are the settings of the metrics endpoint and of TLS.
	Diagnostics flags.ManagerOptions
	// Logs is the format and verbosity of the logs.
	Logs *logs.Options

	// Engine are the settings for running Terraform.
	Engine EngineOptions
	// Network restricts the addresses to which the manager connects for users.
	Network NetworkOptions
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{Logs: logs.NewOptions()}
}

// AddFlags registers the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	logsv1.AddFlags(o.Logs, fs)
	flags.AddManagerOptions(fs, &o.Diagnostics)
	o.Engine.AddFlags(fs)
	o.Network.AddFlags(fs)

	fs.StringSliceVar(&o.Providers, "providers", allProviders, "Providers whose controllers and webhooks run in this manager.")
	fs.StringVar(&o.Namespace, "namespace", "", "Namespace to watch. Empty watches all namespaces.")
	fs.StringVar(&o.WatchFilter, "watch-filter", "", "Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value.")
	fs.BoolVar(&o.NoCrossNamespaceRefs, "no-cross-namespace-refs", false, "Refuse references to objects of other namespaces, also those that a CAPTReferenceGrant allows. It is on with --namespace.")
	fs.BoolVar(&o.ClusterPolicies, "cluster-policies", true, "Let ClusterWorkspacePolicies decide about plans. Without it, the manager does not read them, and its webhook refuses them. Turn it off for a manager that has permissions in one namespace only.")
	fs.IntVar(&o.Concurrency, "concurrency", 10, "Number of objects of each kind that are reconciled at once.")
	fs.DurationVar(&o.SyncPeriod, "sync-period", 10*time.Hour, "Periodic resync interval.")
	fs.Float32Var(&o.QPS, "kube-api-qps", 100, "Maximum requests per second to the API server.")
	fs.IntVar(&o.Burst, "kube-api-burst", 200, "Maximum burst of requests to the API server.")
	fs.BoolVar(&o.AWSOwnIdentity, "aws-own-identity", false, "Let the manager use its own AWS identity, for tokens, the Spot role and existing VPCs, if a WorkspaceProviderConfig has no credentials. Every user who can write templates then acts with its permissions.")
	fs.BoolVar(&o.ReadCharts, "read-charts", true, "Read the charts of add-ons from their repositories, to check that the charts use the values that add-ons set.")
	fs.StringVar(&o.HealthAddress, "health-addr", ":9440", "Address of /healthz and /readyz.")
	fs.StringVar(&o.WebhookHost, "webhook-host", "", "Address on which the webhooks are served. Empty serves them on all addresses.")
	fs.IntVar(&o.WebhookPort, "webhook-port", 9443, "Port of the webhooks. 0 disables them.")
	fs.StringVar(&o.WebhookCertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs", "Directory that contains tls.crt and tls.key of the webhooks.")
	fs.StringVar(&o.DiagnosticsCertDir, "diagnostics-cert-dir", "", "Directory that contains tls.crt and tls.key of the metrics endpoint. Defaults to that of the webhooks, and without a certificate there to one that the manager creates.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Elect a leader, so that only one of several managers is active.")
	fs.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", "", "Namespace of the leader's lease. Defaults to the manager's namespace.")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long other managers wait before they take over a lease that is not renewed.")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the leader tries to renew its lease before it gives up.")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "Time between two attempts to acquire or renew the lease.")
	fs.StringVar(&o.TracesEndpoint, "traces-endpoint", "", "Address of an OpenTelemetry collector that receives a trace of each run over gRPC, such as https://collector.example.com:4317; http://… sends them without TLS. The environment variables OTEL_EXPORTER_OTLP_* set headers, certificates and timeouts. Empty sends none.")
	fs.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", 10*time.Minute, "How long the manager waits when it stops. In a container it waits for the runs of the process executor.")
}

// Validate returns an error for each invalid option.
func (o *Options) Validate() error {
	errs := []error{o.validateProviders(), o.Network.Validate(), o.validateTraces()}
	if err := logsv1.ValidateAndApply(o.Logs, nil); err != nil {
		errs = append(errs, fmt.Errorf("configuring the logs: %w", err))
	}
	if o.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("--concurrency is %d: set it to at least 1", o.Concurrency))
	}
	if o.WebhookPort < 0 || o.WebhookPort > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port is %d: set it to a port, or to 0 to serve no webhooks", o.WebhookPort))
	}
	if o.QPS > 0 && o.Burst < int(o.QPS) {
		errs = append(errs, fmt.Errorf("--kube-api-burst is %d: set it to at least --kube-api-qps, %.0f", o.Burst, o.QPS))
	}
	if o.LeaderElect && (o.RetryPeriod >= o.RenewDeadline || o.RenewDeadline >= o.LeaseDuration) {
		errs = append(errs, errors.New("leader election requires --leader-elect-retry-period < --leader-elect-renew-deadline < --leader-elect-lease-duration"))
	}
	if o.runs(providerInfrastructure) {
		errs = append(errs, o.Engine.Validate())
	}
	return errors.Join(errs...)
}

// diagnosticsCertDir returns the directory with the certificate of the metrics endpoint,
// or nothing if the manager creates one.
func (o *Options) diagnosticsCertDir() string {
	if o.Diagnostics.InsecureDiagnostics {
		return ""
	}
	if o.DiagnosticsCertDir != "" || o.WebhookPort == 0 {
		return o.DiagnosticsCertDir
	}
	if _, err := os.Stat(filepath.Join(o.WebhookCertDir, corev1.TLSCertKey)); err != nil {
		return ""
	}
	return o.WebhookCertDir
}
