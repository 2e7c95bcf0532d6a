package workspaceproviderconfig

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

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
