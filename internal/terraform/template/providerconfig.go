package template

import (
	"fmt"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// providerFile holds the provider blocks of the provider config.
const providerFile = "capt_provider_config.tf"

// providerConfig adds provider blocks, backend and encryption.
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
		text, err := r.expandPlain("backend.configuration", spec.Backend.Configuration)
		if err != nil {
			return err
		}
		request.Backend = terraform.Backend{Type: spec.Backend.Type, HCL: text}
	}
	return r.encryption(request)
}

// shortestPassphrase is what OpenTofu's key derivation asks for.
const shortestPassphrase = 16

func (r *resolver) encryption(request *terraform.Request) error {
	e := r.ProviderConfig.Spec.StateEncryption
	switch {
	case e == nil:
		return nil
	case e.ConfigurationSecretRef != nil:
		text, err := r.key("stateEncryption.configurationSecretRef", true, e.ConfigurationSecretRef)
		if err != nil {
			return err
		}
		request.Encryption = string(text)
		return nil
	}
	passphrase, err := r.key("stateEncryption.passphraseSecretRef", true, e.PassphraseSecretRef)
	if err != nil {
		return err
	}
	if len(passphrase) < shortestPassphrase {
		return problem(infrav1.InvalidVariableReason, "stateEncryption.passphraseSecretRef: the passphrase is shorter than %d characters", shortestPassphrase)
	}
	request.Encryption = encryptionConfig(string(passphrase))
	return nil
}

// encryptionConfig has OpenTofu encrypt state and plans with a key derived from
// the passphrase, and refuse anything that is not encrypted.
func encryptionConfig(passphrase string) string {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	key := body.AppendNewBlock("key_provider", []string{"pbkdf2", "capt"}).Body()
	key.SetAttributeValue("passphrase", cty.StringVal(passphrase))
	method := body.AppendNewBlock("method", []string{"aes_gcm", "capt"}).Body()
	method.SetAttributeRaw("keys", hclwrite.TokensForIdentifier("key_provider.pbkdf2.capt"))
	for _, what := range []string{"state", "plan"} {
		block := body.AppendNewBlock(what, nil).Body()
		block.SetAttributeRaw("method", hclwrite.TokensForIdentifier("method.aes_gcm.capt"))
		block.SetAttributeValue("enforced", cty.True)
	}
	return string(file.Bytes())
}

// credentials adds what the run may know and nobody else.
func (r *resolver) credentials(request *terraform.Request) error {
	if r.ProviderConfig == nil {
		return nil
	}
	for i, c := range r.ProviderConfig.Spec.Credentials {
		content, err := r.key(fmt.Sprintf("credentials[%d]", i), true, &c.SecretRef)
		if err != nil {
			return err
		}
		if c.Filename != "" {
			request.Files[c.Filename] = content
			continue
		}
		request.Env[c.Env] = string(content)
		request.SecretEnv = append(request.SecretEnv, c.Env)
	}
	return nil
}
