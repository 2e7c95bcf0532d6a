package targetpath_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/addon/targetpath"
)

func TestParse_returnsSegments(t *testing.T) {
	name := func(s string) targetpath.Segment { return targetpath.Segment{Name: s} }
	item := func(i int) targetpath.Segment { return targetpath.Segment{Index: i} }
	tests := map[string][]targetpath.Segment{
		`replicas`:             {name("replicas")},
		`settings.clusterName`: {name("settings"), name("clusterName")},
		`serviceAccount.annotations.eks\.amazonaws\.com/role-arn`: {
			name("serviceAccount"), name("annotations"), name("eks.amazonaws.com/role-arn"),
		},
		`tolerations[0].key`: {name("tolerations"), item(0), name("key")},
		`matrix[1][20]`:      {name("matrix"), item(1), item(20)},
		`\.hidden`:           {name(".hidden")},
		`file\.`:             {name("file.")},
		`azAZ09_-/`:          {name("azAZ09_-/")},
		`a.0`:                {name("a"), name("0")},
		`a[65536]`:           {name("a"), item(65536)},
	}
	for path, want := range tests {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			segments, err := targetpath.Parse(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(segments).To(Equal(want))
			g.Expect(targetpath.Format(segments)).To(Equal(path))
		})
	}
}

func TestParse_reportsPositionAndProblem(t *testing.T) {
	tests := map[string]string{
		``:                                   "at character 1: the path is empty: write a path such as settings.clusterName",
		`.a`:                                 "at character 1: the path begins with a dot: remove it",
		`a.`:                                 "at character 3: the path ends with a dot: remove it, or write the name that follows",
		`a..b`:                               `at character 3: a name is empty: remove one of the dots, or write \. for a dot inside a name`,
		`[0].a`:                              "at character 1: the path begins with a list item: write the name of the list first, for example items[0]",
		`a.[0]`:                              "at character 3: a dot precedes a list item: remove it, for example items[0]",
		`a[0]b`:                              "at character 5: 'b' follows a list item: insert a dot, for example items[0].name",
		`a[`:                                 "at character 2: '[' is not closed: write list items as [0]",
		`a[]`:                                "at character 2: [] has no number: write list items as [0]",
		`a[-1]`:                              "at character 2: [-1] is not a list item: write a number, for example [0], or a name after a dot",
		`a[key]`:                             "at character 2: [key] is not a list item: write a number, for example [0], or a name after a dot",
		`a[99999]`:                           "at character 2: [99999] is too large: the largest list index is 65536",
		`a[` + strings.Repeat("9", 30) + `]`: "is too large: the largest list index is 65536",
		`a]`:                                 "at character 2: unexpected ']': write list items as [0]",
		`a\b`:                                `at character 2: a backslash is allowed only before a dot: write \. for a dot inside a name`,
		`a\`:                                 `at character 2: a backslash is allowed only before a dot: write \. for a dot inside a name`,
		`a=b`:                                "at character 2: '=' is not allowed in a name: use letters, digits, '_', '-' and '/'",
		`a b`:                                "at character 2: ' ' is not allowed in a name",
		"a`":                                 "at character 2: '`' is not allowed in a name",
		`a{`:                                 "at character 2: '{' is not allowed in a name",
		`a@`:                                 "at character 2: '@' is not allowed in a name",
		`a:`:                                 "at character 2: ':' is not allowed in a name",
		`日本`:                                 "at character 1: '日' is not allowed in a name",
		`a[日]`:                               "at character 2: [日] is not a list item",
		strings.Repeat("a.", 30) + "a":       "at character 61: the path has more than 30 names, which Helm does not accept",
	}
	for path, want := range tests {
		t.Run(path, func(t *testing.T) {
			_, err := targetpath.Parse(path)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
		})
	}
}
