package workspaceproviderconfig

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/usage"
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
	if err := usage.Index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return (&Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Metadata: metadata, Recorder: mgr.GetEventRecorder("capt-provider-config"),
		Usage: usage.Finder{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()},
	}).SetupWithManager(context.Background(), mgr, controller.Options{})
}

func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	NewWithT(t).Expect(testEnv.Client.Create(t.Context(), obj)).To(Succeed())
	return obj
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newTemplate(namespace, name, config string) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: named(namespace, name)}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: "# Nothing."}
	if config != "" {
		template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config}
	}
	return template
}

func newApply(namespace, name string, template infrav1.TemplateReference) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{
		ObjectMeta: named(namespace, name), Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: template},
	}
}

func waitFor(t *testing.T, config *infrav1.WorkspaceProviderConfig, condition string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	return objecttest.New(t, testEnv.Client).WaitForCondition(config, condition, status, reason)
}

func waitForDeletion(t *testing.T, obj client.Object) {
	t.Helper()
	objecttest.New(t, testEnv.Client).WaitUntilGone(obj, obj.GetName()+" still exists")
}

func TestConfig_isReadyWhenItsSecretsExist(t *testing.T) {
	g := NewWithT(t)
	namespace := testEnv.Namespace(t)
	config := create(t, &infrav1.WorkspaceProviderConfig{ObjectMeta: named(namespace, "aws"), Spec: infrav1.WorkspaceProviderConfigSpec{
		Credentials:     []infrav1.ProviderCredential{env("AWS_SECRET_ACCESS_KEY", "aws", "key")},
		StateEncryption: passphrase("state", "passphrase"),
	}})
	waitFor(t, config, infrav1.CredentialsFoundCondition, metav1.ConditionFalse, infrav1.WaitingForSecretReason)
	waitFor(t, config, infrav1.ConfigurationValidCondition, metav1.ConditionTrue, infrav1.ConfigurationValidCondition)

	secret := create(t, &corev1.Secret{ObjectMeta: named(namespace, "aws"), StringData: map[string]string{"other": "x"}})
	create(t, &corev1.Secret{ObjectMeta: named(namespace, "state"), StringData: map[string]string{"passphrase": secretValue}})
	c := waitFor(t, config, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.PassphraseTooShortReason)
	g.Expect(c.Message).NotTo(ContainSubstring(secretValue))

	state := &corev1.Secret{ObjectMeta: named(namespace, "state")}
	g.Expect(testEnv.Client.Patch(t.Context(), state, client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"passphrase":"hunter2hunter2hunter2"}}`)))).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(waitFor(t, config, infrav1.CredentialsFoundCondition, metav1.ConditionFalse, infrav1.WaitingForSecretReason).Message).
			To(Equal("credentials[0].secretRef: Secret aws has no key key"))
	}).Should(Succeed(), "the Secret has another key")

	secret.StringData = map[string]string{"key": secretValue}
	g.Expect(testEnv.Client.Update(t.Context(), secret)).To(Succeed())
	waitFor(t, config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")

	g.Expect(testEnv.Client.Delete(t.Context(), secret)).To(Succeed())
	waitFor(t, config, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForSecretReason)
}

func TestConfig_isNotDeletedWhileWorkspacesUseIt(t *testing.T) {
	g := NewWithT(t)
	home, library := testEnv.Namespace(t), testEnv.Namespace(t)
	config := create(t, &infrav1.WorkspaceProviderConfig{ObjectMeta: named(home, "aws")})
	elsewhere := create(t, &infrav1.WorkspaceProviderConfig{ObjectMeta: named(library, "aws")})
	near := create(t, newTemplate(home, "near", "aws"))
	create(t, newTemplate(library, "far", "aws"))
	create(t, newTemplate(home, "without", ""))
	create(t, newApply(home, "a", infrav1.TemplateReference{Name: "near"}))
	b := create(t, newApply(home, "b", infrav1.TemplateReference{Name: "far", Namespace: library}))
	create(t, newApply(home, "c", infrav1.TemplateReference{Name: "without"}))
	waitFor(t, config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	waitFor(t, elsewhere, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")

	g.Expect(testEnv.Client.Delete(t.Context(), elsewhere)).To(Succeed())
	waitForDeletion(t, elsewhere)

	g.Expect(testEnv.Client.Delete(t.Context(), config)).To(Succeed())
	c := waitFor(t, config, infrav1.DeletableCondition, metav1.ConditionFalse, infrav1.InUseReason)
	g.Expect(c.Message).To(HaveSuffix(home + "/a, " + home + "/b"))

	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(near), near)).To(Succeed())
	near.Spec.Template.Spec.ProviderConfigRef = nil
	g.Expect(testEnv.Client.Update(t.Context(), near)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(waitFor(t, config, infrav1.DeletableCondition, metav1.ConditionFalse, infrav1.InUseReason).Message).To(HaveSuffix("first: " + home + "/b"))
	}).Should(Succeed(), "the template near no longer refers to it")

	g.Expect(testEnv.Client.Delete(t.Context(), b)).To(Succeed())
	waitForDeletion(t, config)
}
