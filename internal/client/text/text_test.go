package text_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/client/text"
)

func TestTable_alignsColumnsAndShortensTheLast(t *testing.T) {
	table := text.NewTable("NAME", "STATUS", "MESSAGE")
	table.Add(text.Cells("a", "✓ Ready", "")...)
	table.Add(text.Cell{Text: "longer"}, text.Cell{Text: "✗ No", Colour: text.Red}, text.Cell{Text: "something long that does not fit"})

	for name, tc := range map[string]struct {
		style text.Style
		want  string
	}{
		"unlimited width":     {want: "NAME    STATUS   MESSAGE\na       ✓ Ready\nlonger  ✗ No     something long that does not fit\n"},
		"width of a terminal": {style: text.Style{Width: 38}, want: "NAME    STATUS   MESSAGE\na       ✓ Ready\nlonger  ✗ No     something long that…\n"},
		"colours": {style: text.Style{Colour: true}, want: "\x1b[2mNAME\x1b[0m    \x1b[2mSTATUS\x1b[0m   \x1b[2mMESSAGE\x1b[0m\n" +
			"a       ✓ Ready\nlonger  \x1b[31m✗ No\x1b[0m     something long that does not fit\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			NewWithT(t).Expect(table.Print(text.NewPrintable(&out), tc.style)).To(Succeed())
			NewWithT(t).Expect(out.String()).To(Equal(tc.want))
		})
	}
}

func TestTable_shortensTheFirstColumnWhenTheLastDoesNotFit(t *testing.T) {
	g := NewWithT(t)
	table := text.NewTable("NAME", "MESSAGE")
	table.Add(text.Cells("└─Node/a-name-of-forty-letters-that-is-too-long", "something that does not fit either")...)
	var out bytes.Buffer
	g.Expect(table.Print(&out, text.Style{Width: 50})).To(Succeed())
	g.Expect(out.String()).To(Equal("NAME                          MESSAGE\n└─Node/a-name-of-forty-lett…  something that does…\n"))
	out.Reset()
	g.Expect(table.Print(&out, text.Style{})).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("too-long  something that does not fit either\n"))
}

func TestOutput_printsJSONAndYAML(t *testing.T) {
	value := map[string]any{"name": "demo"}
	for format, want := range map[string]string{"json": "{\n  \"name\": \"demo\"\n}\n", "yaml": "name: demo\n"} {
		g := NewWithT(t)
		var o text.Output
		g.Expect(o.Structured()).To(BeFalse())
		o = text.Output(format)
		g.Expect(o.Structured()).To(BeTrue())
		var out bytes.Buffer
		g.Expect(o.Print(&out, value)).To(Succeed())
		g.Expect(out.String()).To(Equal(want))
	}
}

func TestStyleOf_isPlainWithoutTerminal(t *testing.T) {
	g := NewWithT(t)
	g.Expect(text.StyleOf(&bytes.Buffer{})).To(Equal(text.Style{}))
	file, err := os.CreateTemp(t.TempDir(), "")
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	g.Expect(text.StyleOf(file)).To(Equal(text.Style{}))
	g.Expect(text.IsTerminal(nil)).To(BeFalse())
}

func TestAge_isEmptyForZeroAndNeverNegative(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g.Expect(text.Age(now, time.Time{})).To(BeEmpty())
	g.Expect(text.Age(now, now.Add(-90*time.Second))).To(Equal("90s"))
	g.Expect(text.Age(now, now.Add(time.Second))).To(Equal("0s"), "clock skew")
}
