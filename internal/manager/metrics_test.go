package manager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// objectsOf is a cache with some objects.
type objectsOf struct {
	client.Reader
	workspaces    []infrav1.WorkspaceTemplateApply
	controlPlanes []controlplanev1.CAPTControlPlane
	sets          []infrav1.CAPTMachineSet
	deployments   []infrav1.CAPTMachineDeployment
	addons        []addonsv1.CAPTAddon
	templates     []infrav1.WorkspaceTemplate
}

func (o objectsOf) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	for _, template := range o.templates {
		if client.ObjectKeyFromObject(&template) == key {
			template.DeepCopyInto(obj.(*infrav1.WorkspaceTemplate))
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (o objectsOf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *infrav1.WorkspaceTemplateApplyList:
		list.Items = o.workspaces
	case *controlplanev1.CAPTControlPlaneList:
		list.Items = o.controlPlanes
	case *infrav1.CAPTMachineSetList:
		list.Items = o.sets
	case *infrav1.CAPTMachineDeploymentList:
		list.Items = o.deployments
	case *addonsv1.CAPTAddonList:
		list.Items = o.addons
	}
	return nil
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team-a", Name: name}
}

// writeCertificate writes a self-signed certificate.
func writeCertificate(t *testing.T, dir string, notAfter time.Time) {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	g.Expect(os.WriteFile(filepath.Join(dir, corev1.TLSCertKey), text, 0o600)).To(Succeed())
}

func TestObjectMetrics(t *testing.T) {
	g := NewWithT(t)
	began, expires := time.Unix(1_700_000_000, 0), time.Unix(1_800_000_000, 0)
	deleted, living := infrav1.WorkspaceTemplateApply{ObjectMeta: named("deleted")}, infrav1.WorkspaceTemplateApply{ObjectMeta: named("living")}
	deleted.DeletionTimestamp = &metav1.Time{Time: began}
	token, output, forever := controlplanev1.CAPTControlPlane{ObjectMeta: named("token")}, controlplanev1.CAPTControlPlane{ObjectMeta: named("output")}, controlplanev1.CAPTControlPlane{ObjectMeta: named("forever")}
	token.Status.Version, output.Status.Version, forever.Status.Version = "v1.34.3", "v1.34.3", "v1.99.0"
	token.Status.Kubeconfig = &controlplanev1.KubeconfigStatus{ExpiresAt: metav1.NewTime(expires)}
	output.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	output.Status.Kubeconfig = token.Status.Kubeconfig
	forever.Status.Kubeconfig = &controlplanev1.KubeconfigStatus{}
	leaving := controlplanev1.CAPTControlPlane{ObjectMeta: named("leaving")}
	leaving.DeletionTimestamp, leaving.Status.Kubeconfig = deleted.DeletionTimestamp, token.Status.Kubeconfig

	failed, retried, stopped := infrav1.WorkspaceTemplateApply{ObjectMeta: named("failed")}, infrav1.WorkspaceTemplateApply{ObjectMeta: named("retried")}, infrav1.WorkspaceTemplateApply{ObjectMeta: named("stopped")}
	failed.Status.Failure = &infrav1.FailureStatus{Reason: infrav1.RunFailedReason}
	retried.Status.Failure = &infrav1.FailureStatus{Reason: infrav1.RetryingReason, NextAt: metav1.NewTime(expires)}
	retried.Status.Run = &infrav1.RunStatus{StartedAt: metav1.NewTime(began)}
	stopped.Status.Failure = &infrav1.FailureStatus{Reason: infrav1.RunCanceledReason}
	set, deployment, addon := infrav1.CAPTMachineSet{ObjectMeta: named("set")}, infrav1.CAPTMachineDeployment{ObjectMeta: named("deployment")}, addonsv1.CAPTAddon{ObjectMeta: named("addon")}
	for _, obj := range []client.Object{&set, &deployment, &addon} {
		obj.SetDeletionTimestamp(deleted.DeletionTimestamp)
	}

	o, synced := NewOptions(), &cachesSynced{}
	o.Providers, o.WebhookPort, o.WebhookCertDir = allProviders, 9443, t.TempDir()
	writeCertificate(t, o.WebhookCertDir, expires)
	m := newObjectMetrics(objectsOf{
		workspaces:    []infrav1.WorkspaceTemplateApply{deleted, living, failed, retried, stopped},
		controlPlanes: []controlplanev1.CAPTControlPlane{token, output, forever, leaving},
		sets:          []infrav1.CAPTMachineSet{set}, deployments: []infrav1.CAPTMachineDeployment{deployment}, addons: []addonsv1.CAPTAddon{addon},
	}, scheme.New(), o, synced)
	registry := prometheus.NewPedanticRegistry()
	g.Expect(registry.Register(m)).To(Succeed())

	certificates := fmt.Sprintf(`# HELP capt_certificate_expiry_timestamp_seconds When a certificate of the manager expires, by its use.
# TYPE capt_certificate_expiry_timestamp_seconds gauge
capt_certificate_expiry_timestamp_seconds{use="metrics"} %[1]d
capt_certificate_expiry_timestamp_seconds{use="webhooks"} %[1]d
`, expires.Unix())
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(certificates))).To(Succeed(), "the caches are not synchronised")

	synced.Store(true)
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(certificates+fmt.Sprintf(`# HELP capt_deletion_timestamp_seconds When the deletion of an object began, for each object that is being deleted.
# TYPE capt_deletion_timestamp_seconds gauge
capt_deletion_timestamp_seconds{kind="CAPTAddon",name="addon",namespace="team-a"} %[1]d
capt_deletion_timestamp_seconds{kind="CAPTControlPlane",name="leaving",namespace="team-a"} %[1]d
capt_deletion_timestamp_seconds{kind="CAPTMachineDeployment",name="deployment",namespace="team-a"} %[1]d
capt_deletion_timestamp_seconds{kind="CAPTMachineSet",name="set",namespace="team-a"} %[1]d
capt_deletion_timestamp_seconds{kind="WorkspaceTemplateApply",name="deleted",namespace="team-a"} %[1]d
# HELP capt_eks_standard_support_end_timestamp_seconds When EKS ends the standard support of the version of a control plane, and its price rises.
# TYPE capt_eks_standard_support_end_timestamp_seconds gauge
capt_eks_standard_support_end_timestamp_seconds{name="token",namespace="team-a",version="1.34"} 1796169600
# HELP capt_kubeconfig_expiry_timestamp_seconds When the kubeconfig of a control plane expires, by the source of the kubeconfig. CAPT renews those of the source EKS.
# TYPE capt_kubeconfig_expiry_timestamp_seconds gauge
capt_kubeconfig_expiry_timestamp_seconds{name="output",namespace="team-a",source="Output"} %[2]d
capt_kubeconfig_expiry_timestamp_seconds{name="token",namespace="team-a",source="EKS"} %[2]d
# HELP capt_run_start_timestamp_seconds When the current run of a workspace was created, for each run that has not ended.
# TYPE capt_run_start_timestamp_seconds gauge
capt_run_start_timestamp_seconds{name="retried",namespace="team-a"} %[1]d
# HELP capt_workspace_failing 1 for each workspace whose latest run failed and is not retried, or whose runs have failed six times in a row, by the reason.
# TYPE capt_workspace_failing gauge
capt_workspace_failing{name="failed",namespace="team-a",reason="RunFailed"} 1
`, began.Unix(), expires.Unix())))).To(Succeed())
}

// A workspace that is retried counts as failing when it has failed often, or when its
// attempts have reached the limit of its policy.
func TestIsFailing(t *testing.T) {
	template := infrav1.WorkspaceTemplate{ObjectMeta: named("limited")}
	template.Spec.Template.Spec.Retry = &infrav1.RetryPolicy{Limit: new(int32(3))}
	m := &objectMetrics{reader: objectsOf{templates: []infrav1.WorkspaceTemplate{template}}}
	for name, tc := range map[string]struct {
		failure  *infrav1.FailureStatus
		template string
		limit    *int32
		want     bool
	}{
		"none":                     {},
		"not retried":              {failure: &infrav1.FailureStatus{Reason: infrav1.RunFailedReason, Attempts: 1}, want: true},
		"stopped by a user":        {failure: &infrav1.FailureStatus{Reason: infrav1.RunCanceledReason, Attempts: 9}},
		"retried":                  {failure: retriedAfter(infrav1.RetryingReason, 5)},
		"retried often":            {failure: retriedAfter(infrav1.RetryingReason, 6), want: true},
		"interrupted":              {failure: retriedAfter(infrav1.RunInterruptedReason, 5)},
		"interrupted each time":    {failure: retriedAfter(infrav1.RunInterruptedReason, 6), want: true},
		"interruptions at a limit": {failure: retriedAfter(infrav1.RunInterruptedReason, 2), limit: new(int32(1))},
		"limit of the workspace":   {failure: retriedAfter(infrav1.LockHeldReason, 2), limit: new(int32(1)), want: true},
		"within its limit":         {failure: retriedAfter(infrav1.LockHeldReason, 2), limit: new(int32(2))},
		"limit of the template":    {failure: retriedAfter(infrav1.RunTimedOutReason, 4), template: "limited", want: true},
		"within that limit":        {failure: retriedAfter(infrav1.RunTimedOutReason, 3), template: "limited"},
		"template does not exist":  {failure: retriedAfter(infrav1.RunTimedOutReason, 4), template: "missing"},
		"not an attempt":           {failure: retriedAfter(infrav1.PlanStaleReason, 2), limit: new(int32(0))},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")}
			workspace.Status.Failure, workspace.Spec.TemplateRef.Name = tc.failure, tc.template
			if tc.limit != nil {
				workspace.Spec.Retry = &infrav1.RetryPolicy{Limit: tc.limit}
			}
			NewWithT(t).Expect(m.isFailing(t.Context(), workspace)).To(Equal(tc.want))
		})
	}
}

func retriedAfter(reason string, attempts int32) *infrav1.FailureStatus {
	return &infrav1.FailureStatus{Reason: reason, Attempts: attempts, NextAt: metav1.NewTime(time.Unix(1_700_000_000, 0))}
}

// The drift of a workspace counts whatever its runs wait for, and ends with the workspace.
func TestObjectMetrics_drift(t *testing.T) {
	g := NewWithT(t)
	at := func(minute int64) metav1.Time { return metav1.NewTime(time.Unix(60*minute, 0)) }
	workspace := func(name string, action infrav1.DriftAction, drift *infrav1.DriftStatus) infrav1.WorkspaceTemplateApply {
		apply := infrav1.WorkspaceTemplateApply{ObjectMeta: named(name)}
		apply.Spec.Drift, apply.Status.Drift = &infrav1.DriftPolicy{Action: action}, drift
		return apply
	}
	resources := []infrav1.ResourceChange{{Address: "a"}, {Address: "b"}}
	waiting := workspace("waiting", infrav1.DriftRepair, &infrav1.DriftStatus{CheckedAt: at(1), Resources: resources})
	waiting.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForApprovalReason}}
	deleted, guest := waiting, waiting
	deleted.ObjectMeta, guest.ObjectMeta = named("deleted"), named("guest")
	deleted.DeletionTimestamp, guest.Status.Host = new(at(2)), &infrav1.ObjectReference{Namespace: "platform", Name: "guest"}
	objects := &objectsOf{workspaces: []infrav1.WorkspaceTemplateApply{
		workspace("never", infrav1.DriftReport, nil), waiting, deleted, guest,
		workspace("clean", infrav1.DriftReport, &infrav1.DriftStatus{CheckedAt: at(2), FailedAt: at(1)}),
		workspace("failing", infrav1.DriftReport, &infrav1.DriftStatus{CheckedAt: at(1), FailedAt: at(2), Failure: "no luck", Failures: 5, Resources: resources[:1]}),
		workspace("new", infrav1.DriftReport, &infrav1.DriftStatus{FailedAt: at(2), Failure: "no luck", Failures: 2}),
		workspace("once", infrav1.DriftReport, &infrav1.DriftStatus{FailedAt: at(2), Failure: "no luck", Failures: 1, NextAt: at(3)}),
		workspace("requested", infrav1.DriftOff, &infrav1.DriftStatus{FailedAt: at(2), Failure: "no luck", Failures: 2}),
		workspace("switched-off", infrav1.DriftOff, &infrav1.DriftStatus{CheckedAt: at(1), Resources: resources}),
	}}
	o, synced := NewOptions(), &cachesSynced{}
	o.Providers, o.WebhookPort = allProviders, 0
	synced.Store(true)
	registry := prometheus.NewPedanticRegistry()
	g.Expect(registry.Register(newObjectMetrics(objects, scheme.New(), o, synced))).To(Succeed())
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`# HELP capt_drift_check_failing 1 for each workspace whose drift checks fail, also those that were repeated soon.
# TYPE capt_drift_check_failing gauge
capt_drift_check_failing{name="failing",namespace="team-a"} 1
capt_drift_check_failing{name="new",namespace="team-a"} 1
# HELP capt_drifted_resources Number of resources that differ from the state.
# TYPE capt_drifted_resources gauge
capt_drifted_resources{name="clean",namespace="team-a"} 0
capt_drifted_resources{name="failing",namespace="team-a"} 1
capt_drifted_resources{name="new",namespace="team-a"} 0
capt_drifted_resources{name="once",namespace="team-a"} 0
capt_drifted_resources{name="requested",namespace="team-a"} 0
capt_drifted_resources{name="waiting",namespace="team-a"} 2
`), "capt_drifted_resources", "capt_drift_check_failing")).To(Succeed())

	objects.workspaces = nil
	g.Expect(testutil.GatherAndCount(registry, "capt_drifted_resources", "capt_drift_check_failing")).To(BeZero(), "they do not exist any more")
}

func TestOptions_certificateOfTheMetrics(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	writeCertificate(t, with, time.Now().Add(time.Hour))
	for _, tc := range []struct {
		name     string
		port     int
		webhooks string
		metrics  string
		insecure bool
		want     string
	}{
		{name: "that of the webhooks", port: 9443, webhooks: with, want: with},
		{name: "its own", port: 9443, webhooks: with, metrics: without, want: without},
		{name: "created if there is none", port: 9443, webhooks: without},
		{name: "created without webhooks", webhooks: with},
		{name: "none without TLS", port: 9443, webhooks: with, insecure: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := NewOptions()
			o.WebhookPort, o.WebhookCertDir, o.DiagnosticsCertDir = tc.port, tc.webhooks, tc.metrics
			o.Diagnostics.InsecureDiagnostics = tc.insecure
			NewWithT(t).Expect(o.diagnosticsCertDir()).To(Equal(tc.want))
		})
	}
}

func TestObjectMetrics_reportStatesThatAreNotSaved(t *testing.T) {
	g := NewWithT(t)
	workspace := func(name string, status metav1.ConditionStatus, reason string) infrav1.WorkspaceTemplateApply {
		apply := infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
		apply.Status.Conditions = []metav1.Condition{{Type: infrav1.StateSavedCondition, Status: status, Reason: reason}}
		return apply
	}
	objects := &objectsOf{workspaces: []infrav1.WorkspaceTemplateApply{
		workspace("kept", metav1.ConditionFalse, infrav1.StateNotMergedReason), workspace("resolved", metav1.ConditionTrue, infrav1.StateSavedCondition),
	}}
	o, synced := NewOptions(), &cachesSynced{}
	o.Providers, o.WebhookPort = allProviders, 0
	synced.Store(true)
	registry := prometheus.NewPedanticRegistry()
	g.Expect(registry.Register(newObjectMetrics(objects, scheme.New(), o, synced))).To(Succeed())
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`# HELP capt_unsaved_states 1 for each workspace with a state that a run could not save, by the reason.
# TYPE capt_unsaved_states gauge
capt_unsaved_states{name="kept",namespace="team-a",reason="StateNotMerged"} 1
`), "capt_unsaved_states")).To(Succeed())
}
