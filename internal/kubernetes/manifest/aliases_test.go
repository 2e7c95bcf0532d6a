package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// bomb returns a short text that expands to a gigabyte.
func bomb() string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: &a %s\n", strings.Repeat("x", 300<<10))
	for i := range 3500 {
		fmt.Fprintf(text, "  k%d: *a\n", i)
	}
	return text.String()
}

func TestCheckAliases(t *testing.T) {
	nested := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		previous, next := string(rune('a'+i)), string(rune('b'+i))
		nested += fmt.Sprintf("%s: &%s [%s]\n", next, next, strings.TrimSuffix(strings.Repeat("*"+previous+", ", 9), ", "))
	}
	for name, test := range map[string]struct{ text, want string }{
		"no alias":        {"a: 1 & 2 * 3\n", ""},
		"an alias":        {"a: &a {b: c}\nd: *a\ne: {<<: *a}\n", ""},
		"large text":      {"a: &a 1\nb: *a\nc: " + strings.Repeat("x", 3<<20), ""},
		"a long value":    {bomb(), "expand to too much"},
		"second document": {"a: 1\n---\n" + bomb(), "expand to too much"},
		"nested":          {nested, "expand to too much"},
		"itself":          {"a: &a [*a]\n", "expand to too much"},
		"unknown alias":   {"a: &b 1\nc: *d\n", "invalid"},
		"invalid":         {"a: &a [\nb: *a", "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			err := manifest.CheckAliases([]byte(test.text))
			if test.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

// An add-on with this manifest would end the manager.
func TestParse_refusesABomb(t *testing.T) {
	_, err := manifest.Parse([]byte(bomb()))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("expand to too much text")))
}
