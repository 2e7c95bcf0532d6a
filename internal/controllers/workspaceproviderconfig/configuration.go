package workspaceproviderconfig

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// shortestPassphrase is what OpenTofu's key derivation asks for.
const shortestPassphrase = 16

// configuration checks what can be read of the configuration: that HCL parses,
// and that the encryption can work. What is in a Secret is never repeated.
func configuration(_ context.Context, s *scope) error {
	spec := s.config.Spec
	var problems []string
	if text := parse("provider.tf", spec.Configuration); text != "" {
		problems = append(problems, "configuration: "+text)
	}
	if spec.Backend != nil {
		if text := parse("backend.tf", spec.Backend.Configuration); text != "" {
			problems = append(problems, "backend.configuration: "+text)
		}
	}
	if text := s.encryption(); text != "" {
		problems = append(problems, text)
	}
	if len(problems) > 0 {
		return fault.Stall(infrav1.ConfigurationInvalidReason, "%s", strings.Join(problems, "; "))
	}
	return s.passphrase()
}

// parse tells what is wrong with HCL, with file and line.
func parse(file, text string) string {
	return inspect.Files(map[string][]byte{file: []byte(text)}).Diagnostics.Errors().Short()
}

// encryption tells what is wrong with an encryption configuration, without
// repeating any of it.
func (s *scope) encryption() string {
	e := s.config.Spec.StateEncryption
	if e == nil || e.ConfigurationSecretRef == nil {
		return ""
	}
	text, found := s.secrets[e.ConfigurationSecretRef.Name][e.ConfigurationSecretRef.Key]
	if !found {
		return ""
	}
	where := fmt.Sprintf("stateEncryption.configurationSecretRef: key %s of Secret %s", e.ConfigurationSecretRef.Key, e.ConfigurationSecretRef.Name)
	if !utf8.Valid(text) {
		return where + " is not valid UTF-8"
	}
	file := "encryption.tf"
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		file += ".json"
	}
	errs := inspect.Files(map[string][]byte{file: text}).Diagnostics.Errors()
	if len(errs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s does not parse at line %d", where, errs[0].Line)
}

// passphrase refuses one that is too short. A Secret that does not exist is
// waited for elsewhere.
func (s *scope) passphrase() error {
	e := s.config.Spec.StateEncryption
	if e == nil || e.PassphraseSecretRef == nil {
		return nil
	}
	text, found := s.secrets[e.PassphraseSecretRef.Name][e.PassphraseSecretRef.Key]
	if !found || len(text) >= shortestPassphrase {
		return nil
	}
	return fault.Stall(infrav1.PassphraseTooShortReason,
		"stateEncryption.passphraseSecretRef: key %s of Secret %s is shorter than %d characters: write a longer passphrase",
		e.PassphraseSecretRef.Key, e.PassphraseSecretRef.Name, shortestPassphrase)
}
