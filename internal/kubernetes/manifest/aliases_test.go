package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv/memorytest"
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

func TestCheck(t *testing.T) {
	nested := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		previous, next := string(rune('a'+i)), string(rune('b'+i))
		nested += fmt.Sprintf("%s: &%s [%s]\n", next, next, strings.TrimSuffix(strings.Repeat("*"+previous+", ", 9), ", "))
	}
	for name, test := range map[string]struct{ text, want string }{
		"no alias":      {"a: 1 & 2 * 3\n", ""},
		"an alias":      {"a: &a {b: c}\nd: *a\ne: {<<: *a}\n", ""},
		"large text":    {"a: &a 1\nb: *a\nc: " + strings.Repeat("x", 3<<20), ""},
		"a long value":  {bomb(), "would need more than 10 MiB"},
		"nested":        {nested, "would need more than 10 MiB"},
		"itself":        {"a: &a [*a]\n", "would need more than 10 MiB"},
		"unknown alias": {"a: &b 1\nc: *d\n", "invalid"},
		"invalid":       {"a: &a [\nb: *a", "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			err := new(manifest.Budget).Check([]byte(test.text))
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
	NewWithT(t).Expect(manifest.Parse([]byte(bomb()))).Error().To(MatchError(ContainSubstring("would need more than 10 MiB")))
}

// A parser needs about a KiB for two bytes of a list.
func TestCheck_limitsElements(t *testing.T) {
	for name, text := range map[string]string{
		"a list in a line": "a: [" + strings.Repeat("1,", 500_000) + "1]", "a list in lines": "a:\n" + strings.Repeat("- 1\n", 200_000),
	} {
		g := NewWithT(t)
		var err error
		allocated := memorytest.Allocated(func() { _, err = manifest.Parse([]byte(head + text)) })
		g.Expect(err).To(MatchError(ContainSubstring("more than 100000 elements")), name)
		g.Expect(allocated).To(BeNumerically("<", 16<<20), name)
	}
}
