package workspacenotification

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

var testEnv *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &testEnv, testenv.WithManager(setup)))
}

func setup(mgr ctrl.Manager) error {
	metadata, err := cache.New(mgr.GetConfig(), cache.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return err
	}
	if err := mgr.Add(metadata); err != nil {
		return err
	}
	return (&Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Metadata: metadata, Network: local(),
		Recorder: mgr.GetEventRecorder("capt-notification"), Now: time.Now,
	}).SetupWithManager(context.Background(), mgr, controller.Options{})
}

func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	NewWithT(t).Expect(testEnv.Client.Create(t.Context(), obj)).To(Succeed())
	return obj
}

// createWorkspace creates a workspace whose run has just failed.
func createWorkspace(t *testing.T, namespace, name string, labels map[string]string) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := create(t, &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "vpc"}},
	})
	addRun(t, apply, "r1", "Failed")
	return apply
}

// addRun writes a run that has just ended into the status of a workspace.
func addRun(t *testing.T, apply *infrav1.WorkspaceTemplateApply, id string, outcome infrav1.RunOutcome) {
	t.Helper()
	apply.Status.History = append([]infrav1.RunRecord{{
		ID: id, Operation: "PlanAndApply", Outcome: outcome, StartedAt: metav1.Now(), Duration: metav1.Duration{Duration: time.Second}, Summary: "summary of " + id,
	}}, apply.Status.History...)
	NewWithT(t).Expect(testEnv.Client.Status().Update(t.Context(), apply)).To(Succeed())
}

func newNotification(namespace string) *infrav1.WorkspaceNotification {
	return &infrav1.WorkspaceNotification{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat"},
		Spec: infrav1.WorkspaceNotificationSpec{
			SecretRef: infrav1.LocalReference{Name: "chat"}, Format: infrav1.NotificationGeneric,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}},
			Events:   []infrav1.NotificationEvent{infrav1.NotifyFailed, infrav1.NotifyApplied},
		},
	}
}

// texts returns the texts of the messages that a server accepted or refused.
func (r *receiver) texts(g Gomega) []string {
	var texts []string
	for _, request := range r.all() {
		var m message
		g.Expect(json.Unmarshal(request.body, &m)).To(Succeed())
		texts = append(texts, m.Workspace.Name+": "+m.Text)
	}
	return texts
}

func waitFor(t *testing.T, n *infrav1.WorkspaceNotification, condition string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	objecttest.New(t, testEnv.Client).WaitForCondition(n, condition, status, reason)
}

func TestNotification_reportsEachTransitionOnce(t *testing.T) {
	g := NewWithT(t)
	namespace, server := testEnv.Namespace(t), newReceiver(t)
	n := create(t, newNotification(namespace))
	waitFor(t, n, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForSecretReason)
	production := map[string]string{"stage": "production"}
	a := createWorkspace(t, namespace, "a", production)
	createWorkspace(t, namespace, "other", nil)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat"}, Data: server.data()})

	g.Eventually(func(g Gomega) {
		g.Expect(server.texts(g)).To(Equal([]string{"a: Run r1 (PlanAndApply) failed: summary of r1"}))
	}).Should(Succeed(), "what happened before the Secret existed is not lost")

	addRun(t, a, "r2", "Failed")
	addRun(t, a, "r3", "Succeeded")
	g.Eventually(func(g Gomega) {
		g.Expect(server.texts(g)).To(Equal([]string{"a: Run r1 (PlanAndApply) failed: summary of r1", "a: Run r3 changed resources: summary of r3"}))
	}).Should(Succeed(), "a repeated failure is not reported")
	g.Eventually(func(g Gomega) {
		waitFor(t, n, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
		g.Expect(n.Status.LastDelivery.Event).To(Equal(infrav1.NotifyApplied))
		g.Expect(n.Status.LastDelivery.Workspace).To(Equal("a"))
		g.Expect(n.Status.LastFailure).To(BeNil())
		g.Expect(n.Status.Delivered).To(HaveLen(2))
	}).Should(Succeed(), "the deliveries are in the status")
}

func TestNotification_repeatsWhatWasNotDelivered(t *testing.T) {
	g := NewWithT(t)
	namespace, server := testEnv.Namespace(t), newReceiver(t)
	server.answer(http.StatusServiceUnavailable)
	secret := create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat"}, Data: server.data()})
	n := create(t, newNotification(namespace))
	createWorkspace(t, namespace, "a", map[string]string{"stage": "production"})
	createWorkspace(t, namespace, "b", map[string]string{"stage": "production"})
	waitFor(t, n, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.DeliveryFailedReason)
	g.Expect(n.Status.LastFailure.Message).To(Equal("the destination answered HTTP 503"))
	g.Expect(n.Status.LastFailure.Attempts).NotTo(BeZero())
	g.Expect(n.Status.LastDelivery).To(BeNil())

	server.answer(http.StatusOK)
	secret.Data["token"] = []byte("renewed")
	g.Expect(testEnv.Client.Update(t.Context(), secret)).To(Succeed())

	waitFor(t, n, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	g.Expect(n.Status.Delivered).To(HaveLen(2), "another Secret is tried at once")
	g.Expect(n.Status.LastFailure.Attempts).To(BeZero())
	requests := server.all()
	g.Expect(requests[len(requests)-1].header.Get("Authorization")).To(Equal("Bearer renewed"))
}

func TestNotification_dropsAMessageThatIsRefused(t *testing.T) {
	g := NewWithT(t)
	namespace, server := testEnv.Namespace(t), newReceiver(t)
	server.answer(http.StatusBadRequest)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat"}, Data: server.data()})
	n := create(t, newNotification(namespace))
	createWorkspace(t, namespace, "a", map[string]string{"stage": "production"})

	g.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(n), n)).To(Succeed())
		g.Expect(n.Status.LastFailure).NotTo(BeNil())
		g.Expect(n.Status.Delivered).To(HaveLen(1))
	}).Should(Succeed())
	g.Expect(n.Status.LastFailure.Message).To(Equal("the destination refused the message with HTTP 400: check spec.format"))
	g.Expect(n.Status.LastDelivery).To(BeNil())
	g.Expect(server.all()).To(HaveLen(1), "it does not hold back others")
}

func TestDeliver_oneNamespaceSendsOneMessageAtATime(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Now: time.Now}
	r.sending.Store("team-a", true)
	s := &scope{notification: newNotification("team-a"), secret: &corev1.Secret{}, pending: []message{{ID: "m1"}}}

	g.Expect(r.deliver(t.Context(), s)).To(MatchError(ContainSubstring("Other messages of this namespace are sent first")))
	g.Expect(s.notification.Status.LastFailure).To(BeNil())
}
