package text_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/appthrust/capt/internal/client/text"
)

func TestPrintable_removesEscapesOfOthers(t *testing.T) {
	for name, hostile := range map[string]string{
		"title":          "\x1b]0;owned\x07",
		"clipboard":      "\x1b]52;c;cm0gLXJmIC8=\x07",
		"hidden line":    "1 to destroy\x1b[2K\x1b[1A",
		"overwrite":      "9 to destroy\r0 to destroy",
		"backspace":      "9\x080",
		"C1":             "\u009b31m\u009d0;x\u009c",
		"a byte of C1":   "\x9b31m",
		"DEL":            "a\x7fb",
		"bidi":           "abc\u202eedoc\u2066x\u2069",
		"marks":          "a\u200f\u061cb\u2028c",
		"forged escape":  "\x00AAAAAAAAAAAAAAAAAAAAAAAAAA\x01[31m",
		"invisible tags": "a\U000e0041b",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			fmt.Fprintf(text.NewPrintable(&out), "%s\n", hostile)
			for _, r := range strings.TrimSuffix(out.String(), "\n") {
				g.Expect(r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200f || r == 0x061c || r >= 0xe0000).To(BeFalse(), "%U in %q", r, out.String())
			}
			g.Expect(out.String()).NotTo(ContainSubstring("\x9b31"))
			g.Expect(text.Clean(hostile)).NotTo(containAny("\x1b", "\u009b", "\r", "\x07", "\u202e"))
		})
	}
}

func TestPrintable_keepsTextAndItsOwnSequences(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	fmt.Fprint(text.NewPrintable(&out), "a\tb\r\nc ✓ é 日本 🎉\n", text.Style{Colour: true}.Paint(text.Red, "red"), text.Return, text.Escape+"[K")
	g.Expect(out.String()).To(Equal("a\tb\nc ✓ é 日本 🎉\n\x1b[31mred\x1b[0m\r\x1b[K"))
}

func TestOutput_isNotChanged(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	value := map[string]string{"a": "x\u202ey\u009bz"}
	g.Expect(text.PrintJSON(text.NewPrintable(&out), value)).To(Succeed())
	g.Expect(out.String()).To(Equal("{\n  \"a\": \"x\u202ey\u009bz\"\n}\n"))
}

// containAny succeeds if a text contains one of the parts.
func containAny(parts ...string) types.GomegaMatcher {
	var matchers []types.GomegaMatcher
	for _, part := range parts {
		matchers = append(matchers, ContainSubstring(part))
	}
	return Or(matchers...)
}

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
