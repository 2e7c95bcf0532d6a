package placeholder_test

import (
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// Users write placeholders in names, manifests and backends.
func FuzzPlaceholder(f *testing.F) {
	for _, seed := range []string{"", "a", "${A}", "$${A}", "a-${A}-${B}", "${", "${}", "${a b}", "${${A}}", "${json:A}", "$$$${A}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := placeholder.Names(text)
		if err != nil {
			return
		}
		// A value is never expanded again.
		expanded, err := placeholder.Expand(text, func(string) (string, bool) { return "${X}", true })
		if err != nil {
			t.Fatalf("%q parses and does not expand: %v", text, err)
		}
		if len(names) > 0 && !strings.Contains(expanded, "${X}") {
			t.Fatalf("%q has placeholders, and %q has no value", text, expanded)
		}
	})
}
