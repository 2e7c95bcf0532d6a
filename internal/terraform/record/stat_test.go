package record

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseStartTime(t *testing.T) {
	const fields = " 1 17 17 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2 3"
	tests := []struct {
		name string
		stat string
		want int64
		err  string
	}{
		{name: "a plain name", stat: "17 (runner) S" + fields, want: 4711},
		{name: "a name with spaces", stat: "17 (tofu apply) R" + fields, want: 4711},
		{name: "a name with parentheses", stat: "17 (a) S 1 2 (b)) S" + fields, want: 4711},
		{name: "exactly enough fields", stat: "17 (runner) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", want: 19},
		{name: "one field too few", stat: "17 (runner) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18", err: "unexpected format"},
		{name: "no name", stat: "17 S" + fields, err: "unexpected format"},
		{name: "empty", err: "unexpected format"},
		{name: "not a number", stat: "17 (runner) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x", err: "invalid syntax"},
		{name: "a zombie", stat: "17 (runner) Z" + fields, err: "process has exited"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			started, err := parseStartTime([]byte(tt.stat))

			g.Expect(started).To(Equal(tt.want))
			if tt.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
			}
		})
	}
	_, err := parseStartTime([]byte("17 (runner) Z" + fields))
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
}
