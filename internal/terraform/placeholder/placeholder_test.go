package placeholder_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/placeholder"
)

func TestParse_splitsLiteralsAndNames(t *testing.T) {
	tests := map[string][]placeholder.Part{
		"":          nil,
		"plain":     {{Literal: "plain"}},
		"$5 and $$": {{Literal: "$5 and $$"}},
		"${a}":      {{Name: "a"}},
		"${WORKSPACE_NAME}-eks": {
			{Name: "WORKSPACE_NAME"}, {Literal: "-eks", Offset: 17},
		},
		"x ${a.b-c_1}${d}": {
			{Literal: "x "}, {Name: "a.b-c_1", Offset: 2}, {Name: "d", Offset: 12},
		},
		"$${a}":    {{Literal: "${a}"}},
		"$$${a}":   {{Literal: "$${a}"}},
		"${a}$${b": {{Name: "a"}, {Literal: "${b", Offset: 4}},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			parts, err := placeholder.Parse(text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(parts).To(Equal(want))
		})
	}
}

func TestParse_rejectsMalformedPlaceholders(t *testing.T) {
	tests := map[string]string{
		"${":              "${ (line 1) has no closing brace: write ${NAME}, or $${ for a literal ${",
		"a\nb ${c\n}":     "${c (line 2) has no closing brace",
		"${}":             "${} (line 1) has no name",
		"${a b}":          "${a b} (line 1) has an invalid name (letters, digits, '_', '-' and '.', starting with a letter or '_')",
		"${1a}":           "${1a} (line 1) has an invalid name",
		"${é}":            "${é} (line 1) has an invalid name",
		"${A:-default}":   "${A:-default} (line 1) has an invalid name",
		"ok ${a} ${${b}}": "${${b} (line 1) has an invalid name",
		"${aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "${aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (line 1)",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			_, err := placeholder.Parse(text)
			var syntax *placeholder.SyntaxError
			g.Expect(err).To(BeAssignableToTypeOf(syntax))
			g.Expect(err).To(MatchError(HavePrefix(want)))
		})
	}
}

func TestParse_acceptsLettersDigitsAndPunctuation(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "_": true, "a_": true, "a-": true, "a.": true, "a0": true, "a9": true, "aZ": true, "Az": true,
		"0": false, "9": false, "-": false, ".": false, "-a": false, ".a": false,
		"@": false, "[": false, "`": false, "a{": false, "a/": false, "a:": false, "a@": false, "a[": false, "a`": false, "a b": false,
	} {
		parts, err := placeholder.Parse("${" + name + "}")
		if valid {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), name)
			NewWithT(t).Expect(parts).To(Equal([]placeholder.Part{{Name: name}}), name)
		} else {
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("has an invalid name")), name)
		}
	}
}

func TestParse_errorsHaveAPosition(t *testing.T) {
	g := NewWithT(t)
	_, err := placeholder.Parse("first\nsecond\n ${} ${")
	syntax, ok := errors.AsType[*placeholder.SyntaxError](err)
	g.Expect(ok).To(BeTrue())
	g.Expect(*syntax).To(Equal(placeholder.SyntaxError{Text: "${}", Offset: 14, Line: 3, Problem: "has no name"}))
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
