package message_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/message"
)

func TestTruncate_endsAtACharacterWithinTheLimit(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "…"},
		{"abcdef", 5, "ab…"},
		{"ab cdef", 6, "ab…"},
		{"äöüß", 7, "äö…"},
		{"äöüß", 6, "ä…"},
		{"日本語", 8, "日…"},
		{"日本語", 9, "日本語"},
		{"abc", 0, "…"},
		{"\x80\x80\x80\x80", 3, "…"},
	} {
		NewWithT(t).Expect(message.Truncate(tt.text, tt.limit)).To(Equal(tt.want), "%q to %d", tt.text, tt.limit)
	}
}

func TestTruncateWidth_countsCharacters(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"日本語", 3, "日本語"},
		{"日本語テ", 3, "日本…"},
		{"ab cd", 4, "ab…"},
		{"abc", 0, "…"},
	} {
		NewWithT(t).Expect(message.TruncateWidth(tt.text, tt.width)).To(Equal(tt.want), "%q to %d", tt.text, tt.width)
	}
}

func TestTail_beginsAtTheStartOfALine(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""},
		{" a\nb\n", 10, "a\nb"},
		{"a\nb", 3, "a\nb"},
		{"first\nsecond\nthird\n", 15, "second\nthird"},
		{"first\nsecond", 6, "second"},
		{"first\nsecond", 4, "cond"},
		{"日本語", 4, "語"},
	} {
		NewWithT(t).Expect(message.Tail(tt.text, tt.limit)).To(Equal(tt.want), "%q to %d", tt.text, tt.limit)
	}
}

func TestOneLine(t *testing.T) {
	NewWithT(t).Expect(message.OneLine(" a\n\tb  c\xff ")).To(Equal("a b c\uFFFD"))
}

func TestList_countsWhatItLeavesOut(t *testing.T) {
	g := NewWithT(t)
	g.Expect(message.List(nil, 2)).To(BeEmpty())
	g.Expect(message.List([]string{"a", "b"}, 2)).To(Equal("a, b"))
	g.Expect(message.List([]string{"a", "b", "c"}, 2)).To(Equal("a, b and 1 more"))
	g.Expect(message.Sentences([]string{"a", "b", "c", "d"}, 2)).To(Equal("a; b; and 2 more"))
}

func TestNearest_returnsWhatWasMeant(t *testing.T) {
	known := []string{"cluster_name", "cluster_endpoint", "Region", "region"}
	for _, tt := range []struct{ name, want string }{
		{"cluster_nam", "cluster_name"},
		{"clutser_name", "cluster_name"},
		{"regoin", "region"},
		{"REGION", "Region"},
		{"endpoint", ""},
		{"", ""},
		{"vpc", ""},
	} {
		nearest, found := message.Nearest(tt.name, known)
		NewWithT(t).Expect(nearest).To(Equal(tt.want), tt.name)
		NewWithT(t).Expect(found).To(Equal(tt.want != ""), tt.name)
	}
	for _, tt := range []struct {
		name  string
		known []string
		want  string
	}{
		{"nmae", []string{"name"}, "name"},
		{"nmax", []string{"name"}, ""},
		{"nxym", []string{"name"}, ""},
		{"xn", []string{"na"}, ""},
		{"cx", []string{"ax", "bx"}, "ax"},
	} {
		nearest, _ := message.Nearest(tt.name, tt.known)
		NewWithT(t).Expect(nearest).To(Equal(tt.want), tt.name)
	}
	NewWithT(t).Expect(message.Suggestion("regin", known)).To(Equal(`: did you mean "region"?`))
	NewWithT(t).Expect(message.Suggestion("x", known)).To(BeEmpty())
}

func TestNearest_prefersSpellingOverCase(t *testing.T) {
	known := []string{"WORKSPACE_NAME", "CLUSTER_NAME", "CLUSTER_NAMESPACE", "cluster_endpoint", "cluster_name"}
	for _, tt := range []struct{ name, want string }{
		{"WORKSPACE_NMAE", "WORKSPACE_NAME"},
		{"workspace_name", "WORKSPACE_NAME"},
		{"CLUSTERNAME", "CLUSTER_NAME"},
		{"CLUSTER_NAMESPAC", "CLUSTER_NAMESPACE"},
		{"cluster_endpoints", "cluster_endpoint"},
		{"cluster_nam", "cluster_name"},
		{"CLUSTER_NAM", "CLUSTER_NAME"},
		{"region", ""},
		{"", ""},
	} {
		nearest, found := message.Nearest(tt.name, known)
		NewWithT(t).Expect(nearest).To(Equal(tt.want), tt.name)
		NewWithT(t).Expect(found).To(Equal(tt.want != ""), tt.name)
	}
}
