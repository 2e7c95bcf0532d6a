package placeholder_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/placeholder"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

func TestExpand_replacesOnlyPlaceholders(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"plain":                 "plain",
		"$5 and $$":             "$5 and $$",
		"${a}":                  "<a>",
		"${WORKSPACE_NAME}-eks": "<WORKSPACE_NAME>-eks",
		"x ${a.b-c_1}${d}":      "x <a.b-c_1><d>",
		"$${a}":                 "${a}",
		"$$${a}":                "$${a}",
		"${a}$${b":              "<a>${b",
	} {
		NewWithT(t).Expect(placeholder.Expand(text, func(name string) (string, bool) { return "<" + name + ">", true })).To(Equal(want), text)
	}
}

func TestNames_rejectsMalformedPlaceholders(t *testing.T) {
	tests := map[string]string{
		"${":                     "${ (line 1) has no closing brace: write ${NAME}, or $${ for a literal ${",
		"a\nb ${c\n}":            "${c (line 2) has no closing brace",
		"first\nsecond\n ${} ${": "${} (line 3) has no name",
		"${}":                    "${} (line 1) has no name",
		"${a b}":                 "${a b} (line 1) has an invalid name (letters, digits, '_', '-' and '.', starting with a letter or '_')",
		"${1a}":                  "${1a} (line 1) has an invalid name",
		"${é}":                   "${é} (line 1) has an invalid name",
		"${A:-default}":          "${A:-default} (line 1) has an invalid name",
		"ok ${a} ${${b}}":        "${${b} (line 1) has an invalid name",
		"${aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "${aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (line 1)",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			_, err := placeholder.Names(text)
			g.Expect(err).To(MatchError(HavePrefix(want)))
		})
	}
}

func TestNames_acceptsLettersDigitsAndPunctuation(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "_": true, "a_": true, "a-": true, "a.": true, "a0": true, "a9": true, "aZ": true, "Az": true,
		"0": false, "9": false, "-": false, ".": false, "-a": false, ".a": false,
		"@": false, "[": false, "`": false, "a{": false, "a/": false, "a:": false, "a@": false, "a[": false, "a`": false, "a b": false,
	} {
		names, err := placeholder.Names("${" + name + "}")
		if valid {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), name)
			NewWithT(t).Expect(names).To(Equal([]string{name}))
		} else {
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("has an invalid name")), name)
		}
	}
}

func TestNames_returnsEachOnceInOrder(t *testing.T) {
	g := NewWithT(t)
	names, err := placeholder.Names("${b} ${a} ${b} $${c}")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(Equal([]string{"b", "a"}))
}

func TestExpand_doesNotExpandValues(t *testing.T) {
	g := NewWithT(t)
	values := map[string]string{"a": "${b}", "b": "x", "empty": ""}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }

	out, err := placeholder.Expand("<${a}|${empty}|$${b}>", lookup)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(Equal("<${b}||${b}>"))
}

func TestExpand_listsEveryUnresolvedPlaceholder(t *testing.T) {
	g := NewWithT(t)
	none := func(string) (string, bool) { return "", false }

	_, err := placeholder.Expand("${one}", none)
	g.Expect(err).To(MatchError("${one} has no value"))
	_, err = placeholder.Expand("${one} ${two} ${one}", none)
	g.Expect(err).To(MatchError("${one}, ${two} have no value"))
	_, err = placeholder.Expand("${one", none)
	g.Expect(err).To(MatchError(ContainSubstring("has no closing brace")))
}

func TestExpandUpTo_returnsNothingLongerThanTheLimit(t *testing.T) {
	g := NewWithT(t)
	values := map[string]string{"a": "aaaa", "b": "b", "empty": ""}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for text, size := range map[string]int{"${a}": 4, "${a}-${b}": 6, "${b}${b}${b}": 3, "${empty}x": 1, "$${a}${b}": 5, "$${a}": 4, "12345": 5} {
		expanded, err := placeholder.ExpandUpTo(text, size, lookup)
		g.Expect(err).NotTo(HaveOccurred(), text)
		g.Expect(expanded).To(HaveLen(size), text)
	}
	for text, want := range map[string]placeholder.TooLongError{
		"${a}": {Limit: 3, Name: "a"}, "${b}${a}${b}": {Limit: 5, Name: "a"}, "12345${empty}": {Limit: 4, Name: "empty"},
	} {
		_, err := placeholder.ExpandUpTo(text, want.Limit, lookup)
		tooLong, ok := errors.AsType[*placeholder.TooLongError](err)
		g.Expect(ok).To(BeTrue(), "%s: %v", text, err)
		g.Expect(*tooLong).To(Equal(want))
	}
	_, err := placeholder.ExpandUpTo("${a}", 3, lookup)
	g.Expect(err).To(MatchError("has more than 3 bytes, the limit, with the values of its placeholders: shorten the value of ${a}"))
	for _, text := range []string{"12345", "$${a}"} {
		_, err := placeholder.ExpandUpTo(text, 1, lookup)
		g.Expect(err).NotTo(HaveOccurred(), "%s has no placeholder", text)
	}
}

// The values of placeholders, and how often they appear, are what a user writes.
func TestExpandUpTo_needsLittleMemory(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("x", 1<<20)
	lookups := 0
	lookup := func(string) (string, bool) { lookups++; return long, true }
	text := strings.Repeat("${V}", 300_000)
	var err error
	g.Expect(memorytest.Allocated(func() { _, err = placeholder.ExpandUpTo(text, 2<<20, lookup) })).To(BeNumerically("<", 16<<20))
	g.Expect(err).To(MatchError(ContainSubstring("2097152 bytes")))
	g.Expect(lookups).To(Equal(1))

	short := func(string) (string, bool) { lookups++; return "x", true }
	lookups = 0
	g.Expect(memorytest.Allocated(func() { _, err = placeholder.ExpandUpTo(text, 1<<20, short) })).To(BeNumerically("<", 2<<20))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lookups).To(Equal(1))
	g.Expect(memorytest.Allocated(func() { err = placeholder.Check(text) })).To(BeNumerically("<", 64<<10))
	g.Expect(err).NotTo(HaveOccurred())
}

// A text may have as many names as fit into it.
func TestExpand_listsSomeOfManyUnresolvedPlaceholders(t *testing.T) {
	g := NewWithT(t)
	var text strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&text, "${a%d}", i)
	}
	_, err := placeholder.Expand(text.String(), func(string) (string, bool) { return "", false })
	unresolved, ok := errors.AsType[*placeholder.UnresolvedError](err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(unresolved.Names).To(HaveLen(20))
}

func TestValue(t *testing.T) {
	g := NewWithT(t)
	for raw, want := range map[string]string{`"a"`: "a", `""`: "", `"\u0041b"`: "Ab", `[1]`: "[1]", `7`: "7", `null`: "", "": ""} {
		g.Expect(placeholder.Value([]byte(raw), 10)).To(Equal(want), raw)
		g.Expect(placeholder.Value([]byte(raw), math.MaxInt)).To(Equal(want), raw)
	}
	for _, char := range []string{`x`, `\u0041`, `\n`, `é`} {
		for _, count := range []int{0, 1, 9, 10, 11, 12, 100} {
			raw := `"` + strings.Repeat(char, count) + `"`
			var text string
			g.Expect(json.Unmarshal([]byte(raw), &text)).To(Succeed())
			for limit := range 12 {
				if len(text) <= limit {
					g.Expect(placeholder.Value([]byte(raw), limit)).To(Equal(text), "%s, %d", raw, limit)
				} else {
					g.Expect(len(placeholder.Value([]byte(raw), limit))).To(BeNumerically(">", limit), "%s, %d", raw, limit)
				}
			}
		}
	}
	raw := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	g.Expect(memorytest.Allocated(func() { placeholder.Value(raw, 253) })).To(BeNumerically("<", 16<<10))
}
