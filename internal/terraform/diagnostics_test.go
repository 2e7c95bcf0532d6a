package terraform

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

func TestDiagnostics_Short(t *testing.T) {
	long := strings.Repeat("日本語 ", 300)
	tests := []struct {
		name        string
		diagnostics Diagnostics
		want        string
	}{
		{name: "no diagnostics"},
		{
			name:        "one line",
			diagnostics: Diagnostics{{Severity: SeverityError, Summary: "Missing required argument", Detail: "The argument \"x\"\n\nis  required.", File: "main.tf", Line: 12}},
			want:        `main.tf:12: Missing required argument: The argument "x" is required.`,
		},
		{
			name:        "a file without a line",
			diagnostics: Diagnostics{{Severity: SeverityError, Summary: "Unreadable", File: "main.tf", Address: "aws_vpc.a"}},
			want:        "main.tf: Unreadable",
		},
		{
			name:        "errors before warnings",
			diagnostics: Diagnostics{{Severity: SeverityWarning, Summary: "w"}, {Severity: SeverityError, Summary: "e", Address: "aws_vpc.a"}},
			want:        "aws_vpc.a: e",
		},
		{name: "only warnings", diagnostics: Diagnostics{{Severity: SeverityWarning, Summary: "w"}}, want: "w"},
		{
			name:        "more than three",
			diagnostics: Diagnostics{{Severity: SeverityError, Summary: "1"}, {Severity: SeverityError, Summary: "2"}, {Severity: SeverityError, Summary: "3"}, {Severity: SeverityError, Summary: "4"}, {Severity: SeverityError, Summary: "5"}},
			want:        "1\n2\n3\n… and 2 more",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(test.diagnostics.Short()).To(Equal(test.want))
		})
	}
	for count := 1; count < 6; count++ {
		g := NewWithT(t)
		var many Diagnostics
		for range count {
			many = append(many, Diagnostic{Severity: SeverityError, Summary: "s", Detail: long + "\xff"})
		}
		short := many.Short()
		g.Expect(len(short)).To(BeNumerically("<=", shortBytes))
		g.Expect(utf8.ValidString(short)).To(BeTrue())
	}
}
