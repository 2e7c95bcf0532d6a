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
	"github.com/appthrust/capt/internal/terraform/template"
)

// configuration checks that the HCL parses and that the state encryption can
// work. Its messages never contain the content of a Secret.
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

// parse returns the syntax errors of HCL, with file and line.
func parse(file, text string) string {
	return inspect.Files(map[string][]byte{file: []byte(text)}).Diagnostics.Errors().Short()
}

// encryption returns what is wrong with the encryption configuration, without
// its content.
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

// passphrase rejects a passphrase that is too short. The step credentials waits
// for a Secret that does not exist.
func (s *scope) passphrase() error {
	e := s.config.Spec.StateEncryption
	if e == nil || e.PassphraseSecretRef == nil {
		return nil
	}
	text, found := s.secrets[e.PassphraseSecretRef.Name][e.PassphraseSecretRef.Key]
	if !found || len(text) >= template.MinPassphraseLength {
		return nil
	}
	return fault.Stall(infrav1.PassphraseTooShortReason,
		"stateEncryption.passphraseSecretRef: key %s of Secret %s is shorter than %d characters: use a longer passphrase",
		e.PassphraseSecretRef.Key, e.PassphraseSecretRef.Name, template.MinPassphraseLength)
}
