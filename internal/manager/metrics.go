package manager

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/terraform/template"
)

// readTimeout limits the time that a scrape reads objects from the cache.
const readTimeout = 5 * time.Second

// maxRetries is the number of failures in a row from which a workspace that is still
// retried counts as failing.
const maxRetries = 6

// objectMetrics collects metrics of objects that may not be reconciled at all: deletions
// that wait, runs that failed or hang, drift, and certificates that expire. It reads them from
// the cache when Prometheus asks, so that an object that is gone has none.
type objectMetrics struct {
	reader   client.Reader
	scheme   *runtime.Scheme
	kinds    []client.ObjectList
	certDirs map[string]string
	synced   func() bool

	lock         sync.Mutex
	vectors      []*prometheus.GaugeVec
	deletions    *prometheus.GaugeVec
	failing      *prometheus.GaugeVec
	runs         *prometheus.GaugeVec
	drifted      *prometheus.GaugeVec
	driftUnknown *prometheus.GaugeVec
	unsaved      *prometheus.GaugeVec
	kubeconfigs  *prometheus.GaugeVec
	support      *prometheus.GaugeVec
	certificates *prometheus.GaugeVec
}

// newObjectMetrics returns the metrics of the kinds that the manager reconciles.
func newObjectMetrics(reader client.Reader, scheme *runtime.Scheme, o *Options, synced *cachesSynced) *objectMetrics {
	m := &objectMetrics{reader: reader, scheme: scheme, kinds: o.reconciled(), synced: synced.Load, certDirs: map[string]string{}}
	m.deletions = m.gauge("capt_deletion_timestamp_seconds", "When the deletion of an object began, for each object that is being deleted.", "kind", "namespace", "name")
	m.failing = m.gauge("capt_workspace_failing", "1 for each workspace whose latest run failed and is not retried, or whose runs have failed six times in a row, by the reason.", "namespace", "name", "reason")
	m.runs = m.gauge("capt_run_start_timestamp_seconds", "When the current run of a workspace was created, for each run that has not ended.", "namespace", "name")
	m.drifted = m.gauge("capt_drifted_resources", "Number of resources that differ from the state.", "namespace", "name")
	m.driftUnknown = m.gauge("capt_drift_check_failing", "1 for each workspace whose drift checks fail, also those that were repeated soon.", "namespace", "name")
	m.unsaved = m.gauge("capt_unsaved_states", "1 for each workspace with a state that a run could not save, by the reason.", "namespace", "name", "reason")
	m.kubeconfigs = m.gauge("capt_kubeconfig_expiry_timestamp_seconds", "When the kubeconfig of a control plane expires, by the source of the kubeconfig. CAPT renews those of the source EKS.", "namespace", "name", "source")
	m.support = m.gauge("capt_eks_standard_support_end_timestamp_seconds", "When EKS ends the standard support of the version of a control plane, and its price rises.", "namespace", "name", "version")
	m.certificates = m.gauge("capt_certificate_expiry_timestamp_seconds", "When a certificate of the manager expires, by its use.", "use")
	if o.WebhookPort != 0 {
		m.certDirs["webhooks"] = o.WebhookCertDir
	}
	if dir := o.diagnosticsCertDir(); dir != "" {
		m.certDirs["metrics"] = dir
	}
	return m
}

// gauge adds a metric.
func (m *objectMetrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	vector := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.vectors = append(m.vectors, vector)
	return vector
}

// registerObjectMetrics replaces the metrics of an earlier manager in the same process.
func registerObjectMetrics(m *objectMetrics) error {
	metrics.Registry.Unregister(m)
	if err := metrics.Registry.Register(m); err != nil {
		return fmt.Errorf("adding metrics: %w", err)
	}
	return nil
}

// reconciled returns lists of the kinds whose controllers run in the manager. The cache
// holds only these.
func (o *Options) reconciled() []client.ObjectList {
	var kinds []client.ObjectList
	if o.runs(providerInfrastructure) {
		kinds = append(kinds, &infrav1.WorkspaceTemplateApplyList{}, &infrav1.CAPTClusterList{}, &infrav1.CAPTMachineList{},
			&infrav1.CAPTMachinePoolList{}, &infrav1.CAPTMachineSetList{}, &infrav1.CAPTMachineDeploymentList{})
	}
	if o.runs(providerControlPlane) {
		kinds = append(kinds, &controlplanev1.CAPTControlPlaneList{})
	}
	if o.runs(providerAddon) {
		kinds = append(kinds, &addonsv1.CAPTAddonList{})
	}
	return kinds
}

// Describe implements prometheus.Collector.
func (m *objectMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, vector := range m.vectors {
		vector.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *objectMetrics) Collect(ch chan<- prometheus.Metric) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, vector := range m.vectors {
		vector.Reset()
	}
	m.readCertificates()
	if m.synced() {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		for _, list := range m.kinds {
			if err := m.readObjects(ctx, list); err != nil {
				klog.Background().Error(err, "Reading objects for the metrics")
			}
		}
	}
	for _, vector := range m.vectors {
		vector.Collect(ch)
	}
}

// readObjects sets the metrics of the objects of a kind. It changes none of them, so they
// are not copied.
func (m *objectMetrics) readObjects(ctx context.Context, kind client.ObjectList) error {
	list := kind.DeepCopyObject().(client.ObjectList)
	if err := m.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		if deleted := obj.GetDeletionTimestamp(); deleted != nil {
			gvk, err := apiutil.GVKForObject(obj, m.scheme)
			if err != nil {
				return err
			}
			m.deletions.WithLabelValues(gvk.Kind, obj.GetNamespace(), obj.GetName()).Set(float64(deleted.Unix()))
		}
		switch obj := obj.(type) {
		case *infrav1.WorkspaceTemplateApply:
			m.readRuns(ctx, obj)
			m.readDrift(ctx, obj)
		case *controlplanev1.CAPTControlPlane:
			m.readKubeconfig(obj)
			m.readSupport(obj)
		}
		return nil
	})
}

// readRuns sets the metrics of the latest run of a workspace.
func (m *objectMetrics) readRuns(ctx context.Context, workspace *infrav1.WorkspaceTemplateApply) {
	if m.isFailing(ctx, workspace) {
		m.failing.WithLabelValues(workspace.Namespace, workspace.Name, workspace.Status.Failure.Reason).Set(1)
	}
	if run := workspace.Status.Run; run != nil && !run.StartedAt.IsZero() {
		m.runs.WithLabelValues(workspace.Namespace, workspace.Name).Set(float64(run.StartedAt.Unix()))
	}
	if c := meta.FindStatusCondition(workspace.Status.Conditions, infrav1.StateSavedCondition); c != nil && c.Status == metav1.ConditionFalse {
		m.unsaved.WithLabelValues(workspace.Namespace, workspace.Name, c.Reason).Set(1)
	}
}

// readDrift sets the metrics of the drift of a workspace. One that is being deleted is not
// checked any more, nor one whose drift.action is Off: what an earlier or a requested check
// found may be repaired since. That of a guest is the drift of the workspace that runs for it.
func (m *objectMetrics) readDrift(ctx context.Context, workspace *infrav1.WorkspaceTemplateApply) {
	drift := workspace.Status.Drift
	if drift == nil || !workspace.DeletionTimestamp.IsZero() || workspace.Status.Host != nil {
		return
	}
	if len(drift.Resources) == 0 || decision.ChecksDrift(m.policyOf(ctx, workspace)) {
		m.drifted.WithLabelValues(workspace.Namespace, workspace.Name).Set(float64(len(drift.Resources)))
	}
	if !drift.FailedAt.IsZero() && decision.DriftUnknown(m.policyOf(ctx, workspace), drift) {
		m.driftUnknown.WithLabelValues(workspace.Namespace, workspace.Name).Set(1)
	}
}

// isFailing reports whether a workspace needs a user: its latest run failed and is not
// retried, or its runs fail again and again. A run that was stopped has not failed, and one
// that was interrupted has only if that happens each time, for example because its pod has too
// little memory.
func (m *objectMetrics) isFailing(ctx context.Context, workspace *infrav1.WorkspaceTemplateApply) bool {
	failure := workspace.Status.Failure
	switch {
	case failure == nil, failure.Reason == infrav1.RunCanceledReason:
		return false
	case failure.NextAt.IsZero():
		return true
	case failure.Attempts >= maxRetries:
		return true
	default:
		return decision.GaveUp(m.policyOf(ctx, workspace), failure)
	}
}

// policyOf returns the policy of a workspace. Without its template, it is that of the
// workspace alone.
func (m *objectMetrics) policyOf(ctx context.Context, workspace *infrav1.WorkspaceTemplateApply) template.Policy {
	sources := template.Sources{Apply: workspace, Template: &infrav1.WorkspaceTemplate{}}
	found := &infrav1.WorkspaceTemplate{}
	if err := m.reader.Get(ctx, workspace.Spec.TemplateRef.Key(workspace.Namespace), found); err == nil {
		sources.Template = found
	}
	return template.PolicyOf(sources)
}

// readKubeconfig sets the metric of a control plane. The deletion of a cluster ends with an
// expired kubeconfig, and has a metric of its own.
func (m *objectMetrics) readKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) {
	status := controlPlane.Status.Kubeconfig
	if status == nil || status.ExpiresAt.IsZero() || !controlPlane.DeletionTimestamp.IsZero() {
		return
	}
	m.kubeconfigs.WithLabelValues(controlPlane.Namespace, controlPlane.Name, string(kubeconfigSource(controlPlane))).Set(float64(status.ExpiresAt.Unix()))
}

// readSupport sets the metric of a control plane of EKS that runs. A version that the
// calendar of EKS does not contain has none.
func (m *objectMetrics) readSupport(controlPlane *controlplanev1.CAPTControlPlane) {
	minor, err := kubeversion.Parse(controlPlane.Status.Version)
	if err != nil || kubeconfigSource(controlPlane) != controlplanev1.KubeconfigSourceEKS || !controlPlane.DeletionTimestamp.IsZero() {
		return
	}
	if end := kubeversion.EKSStandardSupportEnd(controlPlane.Status.Version); !end.IsZero() {
		m.support.WithLabelValues(controlPlane.Namespace, controlPlane.Name, minor.String()).Set(float64(end.Unix()))
	}
}

func kubeconfigSource(controlPlane *controlplanev1.CAPTControlPlane) controlplanev1.KubeconfigSource {
	if config := controlPlane.Spec.Kubeconfig; config != nil && config.Source != "" {
		return config.Source
	}
	return controlplanev1.KubeconfigSourceEKS
}

// readCertificates sets the metrics of the manager's own certificates. A missing or
// invalid file has none: what serves it reports the error.
func (m *objectMetrics) readCertificates() {
	for use, dir := range m.certDirs {
		text, err := os.ReadFile(filepath.Join(dir, corev1.TLSCertKey))
		if err != nil {
			continue
		}
		if block, _ := pem.Decode(text); block != nil {
			if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
				m.certificates.WithLabelValues(use).Set(float64(certificate.NotAfter.Unix()))
			}
		}
	}
}
