package text_test

import (
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/client/text"
)

// Modules write logs and messages.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", "a\nb\t", "\x1b[31m", "\u009b", "\x9b", "a\r\nb\rc", "\u202e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		cleaned := text.Clean(given)
		if strings.ContainsAny(cleaned, "\x00\x07\x08\x1b\r\x7f\u0085\u009b\u009d\u202e\u2066") || text.Clean(cleaned) != cleaned {
			t.Fatalf("%q becomes %q", given, cleaned)
		}
	})
}
