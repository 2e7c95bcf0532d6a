package template

import (
	"fmt"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// providerFile is the file with the provider blocks of the provider config.
const providerFile = "capt_provider_config.tf"

// providerConfig adds provider blocks, backend and encryption to the request.
func (r *resolver) providerConfig(request *terraform.Request) error {
	request.Files = map[string][]byte{}
	request.PluginCache = true
	request.Backend = terraform.Backend{
		Type: terraform.BackendKubernetes, Namespace: r.Apply.Namespace, SecretSuffix: StateSuffix(r.Apply.Name),
	}
	if r.ProviderConfig == nil {
		return nil
	}
	spec := r.ProviderConfig.Spec
	request.PluginCache = spec.PluginCache != infrav1.PluginCacheDisabled
	if spec.Configuration != "" {
		request.Files[providerFile] = []byte(spec.Configuration)
	}
	if spec.Backend != nil {
		// The workspace of another namespace must not choose the state of a third one.
		if err := r.checkHosted("backend.configuration", spec.Backend.Configuration, workspacePlaceholders...); err != nil {
			return err
		}
		text, err := r.expandPlain("backend.configuration", spec.Backend.Configuration)
		if err != nil {
			return err
		}
		request.Backend = terraform.Backend{Type: spec.Backend.Type, HCL: text}
	}
	return r.encryption(request)
}

// MinPassphraseLength is the minimum of OpenTofu's key derivation.
const MinPassphraseLength = 16

func (r *resolver) encryption(request *terraform.Request) error {
	e := r.ProviderConfig.Spec.StateEncryption
	if e == nil {
		return nil
	}
	field, ref := "stateEncryption.passphraseSecretRef", e.PassphraseSecretRef
	if e.ConfigurationSecretRef != nil {
		field, ref = "stateEncryption.configurationSecretRef", e.ConfigurationSecretRef
	}
	text, err := r.key(field, keyRef{ref, true})
	switch {
	case err != nil:
		return err
	case !utf8.Valid(text):
		// JSON would replace the bytes of a random key, and with them the key.
		return problem(infrav1.InvalidVariableReason, "%s: the value is not valid UTF-8: encode a random key, for example with base64", field)
	case e.ConfigurationSecretRef != nil:
		request.Encryption = string(text)
		return nil
	case len(text) < MinPassphraseLength:
		return problem(infrav1.InvalidVariableReason, "%s: the passphrase is shorter than %d characters", field, MinPassphraseLength)
	}
	request.Encryption = encryptionConfig(string(text))
	return nil
}

// iterations is what OWASP recommends for PBKDF2 with SHA-512. OpenTofu derives keys several times
// in each command: its default, 600,000, takes seconds of CPU time in each of them.
const iterations = 210_000

// encryptionConfig returns a configuration with which OpenTofu encrypts states
// and plans with a key derived from the passphrase, and rejects unencrypted ones.
func encryptionConfig(passphrase string) string {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	key := body.AppendNewBlock("key_provider", []string{"pbkdf2", "capt"}).Body()
	key.SetAttributeValue("passphrase", cty.StringVal(passphrase))
	key.SetAttributeValue("iterations", cty.NumberIntVal(iterations))
	method := body.AppendNewBlock("method", []string{"aes_gcm", "capt"}).Body()
	method.SetAttributeRaw("keys", hclwrite.TokensForIdentifier("key_provider.pbkdf2.capt"))
	for _, target := range []string{"state", "plan"} {
		block := body.AppendNewBlock(target, nil).Body()
		block.SetAttributeRaw("method", hclwrite.TokensForIdentifier("method.aes_gcm.capt"))
		block.SetAttributeValue("enforced", cty.True)
	}
	return string(file.Bytes())
}

// credentials adds the credentials of the provider config to the request.
func (r *resolver) credentials(request *terraform.Request) error {
	if r.ProviderConfig == nil {
		return nil
	}
	for i, c := range r.ProviderConfig.Spec.Credentials {
		field, ref := fmt.Sprintf("credentials[%d]", i), keyRef{&c.SecretRef, true}
		if c.Filename != "" {
			content, err := r.key(field, ref)
			if err != nil {
				return err
			}
			request.Files[c.Filename] = content
			continue
		}
		text, err := r.envText(field, ref)
		if err != nil {
			return err
		}
		request.Env[c.Env] = text
		request.SecretEnv = append(request.SecretEnv, c.Env)
	}
	return nil
}
