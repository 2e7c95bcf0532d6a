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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// readTimeout limits the time that a scrape reads objects from the cache.
const readTimeout = 5 * time.Second

// objectMetrics collects metrics of objects that may not be reconciled at all: deletions
// that wait, runs that failed or hang, and certificates that expire. It reads them from the cache when Prometheus
// asks.
type objectMetrics struct {
	reader   client.Reader
	scheme   *runtime.Scheme
	kinds    []client.ObjectList
	certDirs map[string]string
	synced   func() bool

	lock         sync.Mutex
	deletions    *prometheus.GaugeVec
	failing      *prometheus.GaugeVec
	runs         *prometheus.GaugeVec
	kubeconfigs  *prometheus.GaugeVec
	certificates *prometheus.GaugeVec
}

// newObjectMetrics returns the metrics of the kinds that the manager reconciles.
func newObjectMetrics(reader client.Reader, scheme *runtime.Scheme, o *Options, synced *cachesSynced) *objectMetrics {
	m := &objectMetrics{
		reader: reader, scheme: scheme, kinds: o.reconciled(), synced: synced.Load,
		certDirs: map[string]string{},
		deletions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_deletion_timestamp_seconds", Help: "When the deletion of an object began, for each object that is being deleted.",
		}, []string{"kind", "namespace", "name"}),
		failing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_workspace_failing", Help: "1 for each workspace whose latest run failed and is not retried, by the reason.",
		}, []string{"namespace", "name", "reason"}),
		runs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_run_start_timestamp_seconds", Help: "When the current run of a workspace was created, for each run that has not ended.",
		}, []string{"namespace", "name"}),
		kubeconfigs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_kubeconfig_expiry_timestamp_seconds", Help: "When the kubeconfig of a control plane expires, by the source of the kubeconfig. CAPT renews those of the source EKS.",
		}, []string{"namespace", "name", "source"}),
		certificates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_certificate_expiry_timestamp_seconds", Help: "When a certificate of the manager expires, by its use.",
		}, []string{"use"}),
	}
	if o.WebhookPort != 0 {
		m.certDirs["webhooks"] = o.WebhookCertDir
	}
	if dir := o.diagnosticsCertDir(); dir != "" {
		m.certDirs["metrics"] = dir
	}
	return m
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
		kinds = append(kinds, &infrav1.WorkspaceTemplateApplyList{}, &infrav1.CAPTClusterList{}, &infrav1.CAPTMachineList{}, &infrav1.CAPTMachinePoolList{})
	}
	if o.runs(providerControlPlane) {
		kinds = append(kinds, &controlplanev1.CAPTControlPlaneList{})
	}
	return kinds
}

// Describe implements prometheus.Collector.
func (m *objectMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, vector := range m.vectors() {
		vector.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *objectMetrics) Collect(ch chan<- prometheus.Metric) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, vector := range m.vectors() {
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
	for _, vector := range m.vectors() {
		vector.Collect(ch)
	}
}

func (m *objectMetrics) vectors() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.deletions, m.failing, m.runs, m.kubeconfigs, m.certificates}
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
			m.readRuns(obj)
		case *controlplanev1.CAPTControlPlane:
			m.readKubeconfig(obj)
		}
		return nil
	})
}

// readRuns sets the metrics of the latest run of a workspace. A run that a user stopped has
// not failed.
func (m *objectMetrics) readRuns(workspace *infrav1.WorkspaceTemplateApply) {
	if failure := workspace.Status.Failure; failure != nil && failure.NextAt.IsZero() && failure.Reason != infrav1.RunCanceledReason {
		m.failing.WithLabelValues(workspace.Namespace, workspace.Name, failure.Reason).Set(1)
	}
	if run := workspace.Status.Run; run != nil && !run.StartedAt.IsZero() {
		m.runs.WithLabelValues(workspace.Namespace, workspace.Name).Set(float64(run.StartedAt.Unix()))
	}
}

// readKubeconfig sets the metric of a control plane. The deletion of a cluster ends with an
// expired kubeconfig, and has a metric of its own.
func (m *objectMetrics) readKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) {
	status := controlPlane.Status.Kubeconfig
	if status == nil || status.ExpiresAt.IsZero() || !controlPlane.DeletionTimestamp.IsZero() {
		return
	}
	source := controlplanev1.KubeconfigSourceEKS
	if config := controlPlane.Spec.Kubeconfig; config != nil && config.Source != "" {
		source = config.Source
	}
	m.kubeconfigs.WithLabelValues(controlPlane.Namespace, controlPlane.Name, string(source)).Set(float64(status.ExpiresAt.Unix()))
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
