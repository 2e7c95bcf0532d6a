package change

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// minSubstring is the length from which a secret is masked within longer texts, minWord
	// that from which it is masked where nothing continues it. A shorter one is masked only
	// where it is the whole value.
	minSubstring, minWord = 6, 3
	// minLine is the length from which the lines of a secret, such as a private key, are
	// masked one by one.
	minLine = 16
	// maxSecrets limits the bytes of the secrets of a plan.
	maxSecrets = 8 << 20
)

// Secrets are the values that a plan marks as sensitive. Providers copy them to
// computed attributes that are not marked, so they are masked wherever they appear.
type Secrets struct {
	values   map[string]bool
	size     int
	replacer *strings.Replacer
}

// ReadSecrets reads the sensitive values of a plan from the output of "show -json":
// those of resources, whether they change or not, of data sources, outputs and variables. It
// adds the values that the tool does not know to be secret.
func ReadSecrets(plan io.Reader, known ...string) (*Secrets, error) {
	secrets := &Secrets{values: map[string]bool{}}
	for _, value := range known {
		if err := secrets.add(strings.TrimSpace(value)); err != nil {
			return nil, err
		}
	}
	reader := &secretReader{reader: reader{decoder: json.NewDecoder(plan)}, secrets: secrets}
	if err := reader.plan(); err != nil {
		return nil, fmt.Errorf("reading the sensitive values of the plan: %w", err)
	}
	var pairs []string
	for _, value := range secrets.sorted() {
		for _, form := range forms(value) {
			pairs = append(pairs, form, terraform.Mask)
		}
	}
	secrets.replacer = strings.NewReplacer(pairs...)
	return secrets, nil
}

// Mask replaces the secrets in a text.
func (s *Secrets) Mask(text string) string {
	if s.values[text] {
		return terraform.Mask
	}
	return s.maskWords(s.replacer.Replace(text))
}

// maskWords masks the short secrets that are whole words of a text. A part of a word is not masked:
// it is an ordinary one, which would show what is masked in it.
func (s *Secrets) maskWords(text string) string {
	var out strings.Builder
	written := 0
	for i := 0; i+minWord <= len(text); i++ {
		if i > 0 && isLetter(text[i-1]) && isLetter(text[i]) {
			continue
		}
		for n := min(minSubstring-1, len(text)-i); n >= minWord; n-- {
			if end := i + n; s.values[text[i:end]] && (end == len(text) || !isLetter(text[end]) || !isLetter(text[end-1])) {
				out.WriteString(text[written:i] + terraform.Mask)
				written, i = end, end-1
				break
			}
		}
	}
	if written == 0 {
		return text
	}
	return out.String() + text[written:]
}

// isLetter reports whether a byte is a part of a letter or a digit.
func isLetter(b byte) bool {
	return b >= utf8.RuneSelf || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// sorted returns the secrets, the longest first, so that a part of one does not hide
// the whole.
func (s *Secrets) sorted() []string {
	return slices.SortedFunc(maps.Keys(s.values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
}

// forms returns a secret as it appears within other texts.
func forms(secret string) []string {
	if len(secret) < minSubstring {
		return nil
	}
	found := terraform.Encodings(secret)
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				found = append(found, line)
			}
		}
	}
	return slices.DeleteFunc(found, func(form string) bool { return len(form) < minSubstring })
}

// secretReader collects the sensitive values of a plan.
type secretReader struct {
	reader
	secrets *Secrets
	// variables are the values of variables, declared the declarations of the root module.
	variables map[string]struct{ Value value }
	declared  map[string]struct{ Sensitive bool }
}

func (r *secretReader) plan() error {
	err := r.visit(func(planned *plannedResource, _ bool) error { return r.collectChange(&planned.Change) },
		func(_ string, change *plannedChange) error { return r.collectChange(change) },
		func(key string) error {
			switch key {
			case "prior_state":
				return r.member("values", r.state)
			case "variables":
				return r.decode(&r.variables)
			case "configuration":
				return r.member("root_module", func() error {
					return r.member("variables", func() error { return r.decode(&r.declared) })
				})
			default:
				return r.skip()
			}
		})
	for name, variable := range r.declared {
		if err == nil && variable.Sensitive {
			err = r.collect(r.variables[name].Value.content, true)
		}
	}
	return err
}

// member reads one member of an object and skips the others.
func (r *secretReader) member(name string, read func() error) error {
	return r.members(func(key string) error {
		if key != name {
			return r.skip()
		}
		return read()
	})
}

// state reads the state before the plan. Only that has the data sources that were read
// for the plan, and what a plan that only refreshes the state does not change.
func (r *secretReader) state() error {
	return r.members(func(key string) error {
		switch key {
		case "outputs":
			return r.members(func(string) error {
				var output struct {
					Sensitive bool  `json:"sensitive"`
					Value     value `json:"value"`
				}
				if err := r.decode(&output); err != nil {
					return err
				}
				return r.collect(output.Value.content, output.Sensitive)
			})
		case "root_module":
			return r.module()
		default:
			return r.skip()
		}
	})
}

func (r *secretReader) module() error {
	return r.members(func(key string) error {
		switch key {
		case "resources":
			return r.elements(func() error {
				var resource struct {
					Values    value `json:"values"`
					Sensitive value `json:"sensitive_values"`
				}
				if err := r.decode(&resource); err != nil {
					return err
				}
				return r.collect(resource.Values.content, resource.Sensitive.content)
			})
		case "child_modules":
			return r.elements(r.module)
		default:
			return r.skip()
		}
	})
}

func (r *secretReader) collectChange(change *plannedChange) error {
	return errors.Join(
		r.collect(change.Before.content, change.BeforeSensitive.content),
		r.collect(change.After.content, change.AfterSensitive.content),
	)
}

// collect adds the marked texts and numbers of a value.
func (r *secretReader) collect(content, mark any) error {
	switch content := content.(type) {
	case map[string]any:
		for key, element := range content {
			if err := r.collect(element, member(mark, key)); err != nil {
				return err
			}
		}
	case []any:
		for i, element := range content {
			if err := r.collect(element, at(mark, i)); err != nil {
				return err
			}
		}
	case string:
		if mark == true {
			return r.secrets.add(content)
		}
	case json.Number:
		if mark == true && len(content) > 3 {
			return r.secrets.add(content.String())
		}
	}
	return nil
}

func (s *Secrets) add(value string) error {
	if value == "" || s.values[value] {
		return nil
	}
	if s.size += len(value); s.size > maxSecrets {
		return fmt.Errorf("the plan has more than %d MiB of sensitive values", maxSecrets>>20)
	}
	s.values[value] = true
	return nil
}
