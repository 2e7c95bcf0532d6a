package workspaceproviderconfig

import (
	"context"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
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

// Without the config, the state could not be read any more.
func TestConfig_isNotDeletedWhileAStateMovesAwayFromIt(t *testing.T) {
	for name, end := range map[string]func(Gomega, *infrav1.WorkspaceOperation){
		"until it has moved": func(g Gomega, move *infrav1.WorkspaceOperation) {
			move.Status.Phase = infrav1.OperationSucceeded
			g.Expect(testEnv.Client.Status().Update(t.Context(), move)).To(Succeed())
		},
		"until the request is withdrawn": func(g Gomega, move *infrav1.WorkspaceOperation) {
			g.Expect(testEnv.Client.Delete(t.Context(), move)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			namespace := testEnv.Namespace(t)
			config := create(t, &infrav1.WorkspaceProviderConfig{ObjectMeta: named(namespace, "old")})
			workspace := newApply(namespace, "a", infrav1.TemplateReference{Name: "none"})
			workspace.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "new"}
			create(t, workspace)
			move := create(t, &infrav1.WorkspaceOperation{ObjectMeta: named(namespace, "move"), Spec: infrav1.WorkspaceOperationSpec{
				Workspace: "a", Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: "old", To: "new"}, RequestedBy: testenv.AdminUser,
			}})
			waitFor(t, config, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
			g.Expect(testEnv.Client.Delete(t.Context(), config)).To(Succeed())
			c := waitFor(t, config, infrav1.DeletableCondition, metav1.ConditionFalse, infrav1.InUseReason)
			g.Expect(c.Message).To(HaveSuffix("first: " + namespace + "/a"))
			end(g, move)
			waitForDeletion(t, config)
		})
	}
}

// secretValue must not appear in any message.
const secretValue = "hunter2"

type data = map[string]map[string][]byte

func newScope(spec infrav1.WorkspaceProviderConfigSpec, secrets data) *scope {
	return &scope{config: &infrav1.WorkspaceProviderConfig{Spec: spec}, secrets: secrets}
}

func env(name, secret, key string) infrav1.ProviderCredential {
	return infrav1.ProviderCredential{Env: name, SecretRef: infrav1.KeyReference{Name: secret, Key: key}}
}

func passphrase(secret, key string) *infrav1.StateEncryption {
	return &infrav1.StateEncryption{PassphraseSecretRef: &infrav1.KeyReference{Name: secret, Key: key}}
}

func encryption(secret, key string) *infrav1.StateEncryption {
	return &infrav1.StateEncryption{ConfigurationSecretRef: &infrav1.KeyReference{Name: secret, Key: key}}
}

func TestConfiguration(t *testing.T) {
	tests := []struct {
		name    string
		spec    infrav1.WorkspaceProviderConfigSpec
		secrets data
		reason  string
		message string
	}{
		{name: "empty"},
		{name: "a provider", spec: infrav1.WorkspaceProviderConfigSpec{Configuration: "provider \"aws\" {\n  region = \"eu-west-1\"\n}\n"}},
		{
			name:   "invalid HCL",
			spec:   infrav1.WorkspaceProviderConfigSpec{Configuration: "provider \"aws\" {\n"},
			reason: infrav1.ConfigurationInvalidReason, message: "configuration: provider.tf:1: Unclosed configuration block",
		},
		{
			name: "a backend with a placeholder",
			spec: infrav1.WorkspaceProviderConfigSpec{Backend: &infrav1.BackendConfig{Type: "s3", Configuration: "key = \"${WORKSPACE_NAME}\"\n"}},
		},
		{
			name:   "a backend with invalid HCL",
			spec:   infrav1.WorkspaceProviderConfigSpec{Backend: &infrav1.BackendConfig{Type: "s3", Configuration: "bucket = \"a\"\nkey ="}},
			reason: infrav1.ConfigurationInvalidReason, message: "backend.configuration: backend.tf:2: ",
		},
		{
			name:    "a passphrase that is too short",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: passphrase("state", "passphrase")},
			secrets: data{"state": {"passphrase": []byte(secretValue)}},
			reason:  infrav1.PassphraseTooShortReason, message: "key passphrase of Secret state is shorter than 16 characters",
		},
		{
			name:    "a passphrase that is long enough",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: passphrase("state", "passphrase")},
			secrets: data{"state": {"passphrase": []byte("0123456789abcdef")}},
		},
		{name: "a passphrase that does not exist yet", spec: infrav1.WorkspaceProviderConfigSpec{StateEncryption: passphrase("state", "passphrase")}},
		{
			name:    "an encryption in HCL",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: encryption("state", "config")},
			secrets: data{"state": {"config": []byte("key_provider \"pbkdf2\" \"x\" {\n  passphrase = \"hunter2hunter2hunter2\"\n}\n")}},
		},
		{
			name:    "an encryption in JSON",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: encryption("state", "config")},
			secrets: data{"state": {"config": []byte(` {"key_provider": {}}`)}},
		},
		{
			name:    "an encryption that does not parse",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: encryption("state", "config")},
			secrets: data{"state": {"config": []byte("key_provider \"pbkdf2\" \"x\" {}\nhunter2 hunter2\n")}},
			reason:  infrav1.ConfigurationInvalidReason, message: "key config of Secret state does not parse at line 2",
		},
		{
			name:    "an encryption that is not text",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: encryption("state", "config")},
			secrets: data{"state": {"config": {0xff, 0xfe}}},
			reason:  infrav1.ConfigurationInvalidReason, message: "is not valid UTF-8",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			err := configuration(t.Context(), newScope(tt.spec, tt.secrets))

			if tt.reason == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "the step is not stalled")
			g.Expect(stalled.Reason).To(Equal(tt.reason))
			g.Expect(stalled.Message()).To(ContainSubstring(tt.message))
			g.Expect(stalled.Message()).NotTo(ContainSubstring(secretValue))
		})
	}
}

func TestCredentials(t *testing.T) {
	two := infrav1.WorkspaceProviderConfigSpec{Credentials: []infrav1.ProviderCredential{
		env("AWS_ACCESS_KEY_ID", "aws", "id"), env("AWS_SECRET_ACCESS_KEY", "aws", "key"),
	}}
	var many infrav1.WorkspaceProviderConfigSpec
	for i := range 8 {
		many.Credentials = append(many.Credentials, env(fmt.Sprintf("E%d", i), "none", "k"))
	}
	tests := []struct {
		name    string
		spec    infrav1.WorkspaceProviderConfigSpec
		secrets data
		message string
	}{
		{name: "empty"},
		{name: "all found", spec: two, secrets: data{"aws": {"id": nil, "key": []byte(secretValue)}}},
		{name: "no Secret", spec: two, message: "credentials[0].secretRef: Secret aws does not exist; credentials[1].secretRef: Secret aws does not exist"},
		{name: "no key", spec: two, secrets: data{"aws": {"key": []byte(secretValue)}}, message: "credentials[0].secretRef: Secret aws has no key id"},
		{name: "too many to list", spec: many, message: "credentials[4].secretRef: Secret none does not exist; and 3 more"},
		{
			name:    "no passphrase",
			spec:    infrav1.WorkspaceProviderConfigSpec{StateEncryption: passphrase("state", "p")},
			message: "stateEncryption.passphraseSecretRef: Secret state does not exist",
		},
		{
			name: "a name with a placeholder",
			spec: infrav1.WorkspaceProviderConfigSpec{Credentials: []infrav1.ProviderCredential{env("TOKEN", "${WORKSPACE_NAME}-token", "t")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			err := credentials(t.Context(), newScope(tt.spec, tt.secrets))

			if tt.message == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue(), "the step does not wait")
			g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForSecretReason))
			g.Expect(waiting.Message()).To(HaveSuffix(tt.message))
			g.Expect(waiting.Message()).NotTo(ContainSubstring(secretValue))
		})
	}
}

func TestTransitionEvents(t *testing.T) {
	const none, normal, warning = "", "Normal", "Warning"
	no, yes, unknown := metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown
	tests := []struct {
		name              string
		condition         string
		previous, current metav1.ConditionStatus
		kind, action      string
	}{
		{"invalid", infrav1.ConfigurationValidCondition, "", no, warning, "Check"},
		{"valid after a problem", infrav1.ConfigurationValidCondition, no, yes, normal, "Check"},
		{"valid at first", infrav1.ConfigurationValidCondition, "", yes, none, ""},
		{"unexpected error", infrav1.ConfigurationValidCondition, no, unknown, none, ""},
		{"recovered from an unexpected error", infrav1.ConfigurationValidCondition, unknown, yes, none, ""},
		{"credentials missing", infrav1.CredentialsFoundCondition, yes, no, warning, "Check"},
		{"credentials found", infrav1.CredentialsFoundCondition, no, yes, normal, "Check"},
		{"deletion waits", infrav1.DeletableCondition, "", no, warning, "Delete"},
		{"deletion continues", infrav1.DeletableCondition, no, yes, normal, "Delete"},
		{"Ready repeats the others", clusterv1.ReadyCondition, yes, no, none, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			event, ok := transitionEvents.Event(
				metav1.Condition{Type: tt.condition, Status: tt.previous},
				metav1.Condition{Type: tt.condition, Status: tt.current, Reason: "Reason"},
			)
			g.Expect(ok).To(Equal(tt.kind != none))
			g.Expect(event.Type).To(Equal(tt.kind))
			g.Expect(event.Action).To(Equal(tt.action))
		})
	}
}
