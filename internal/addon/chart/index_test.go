package chart

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestReadIndex(t *testing.T) {
	const helm = `apiVersion: v1
entries:
  alpha:
  - created: "2026-01-01"
    description: |
      Several lines,
      karpenter: one of them looks like a chart
    urls:
    - alpha-1.0.0.tgz
    version: 1.0.0
  # A comment.
  "karpenter":
  - digest: abc
    urls: [karpenter-1.2.3.tgz]
    version: 1.2.3
  - urls:
    - karpenter-1.2.2.tgz
    version: 1.2.2
  omega:
    - urls: [omega-1.tgz]
      version: "1"
generated: "2026-01-01"
`
	for name, tt := range map[string]struct {
		text, chart string
		want        []entry
		err         string
	}{
		"written by Helm":   {helm, "karpenter", []entry{{"1.2.3", []string{"karpenter-1.2.3.tgz"}, "abc"}, {"1.2.2", []string{"karpenter-1.2.2.tgz"}, ""}}, ""},
		"the first chart":   {helm, "alpha", []entry{{"1.0.0", []string{"alpha-1.0.0.tgz"}, ""}}, ""},
		"the last chart":    {helm, "omega", []entry{{"1", []string{"omega-1.tgz"}, ""}}, ""},
		"an unknown chart":  {helm, "karpentr", nil, "did you mean karpenter?"},
		"no entries":        {"apiVersion: v1\nentries: {}\n", "karpenter", nil, "the repository has no chart karpenter"},
		"in JSON":           {`{"entries":{"karpenter":[{"version":"1.2.3","urls":["u"]}]}}`, "karpenter", []entry{{"1.2.3", []string{"u"}, ""}}, ""},
		"unknown in JSON":   {`{"entries":{"alpha":[]}}`, "karpenter", nil, "the repository has no chart karpenter"},
		"in one line":       {"entries: {karpenter: []}\n", "karpenter", nil, "not written in lines"},
		"a page":            {"<html>\n<body>\n", "karpenter", nil, "the repository has no chart karpenter"},
		"invalid":           {"entries:\n  karpenter:\n  - version: [\n", "karpenter", nil, "the YAML is invalid"},
		"a line too long":   {"entries:\n  karpenter: " + strings.Repeat("x", 2*maxLine), "karpenter", nil, "token too long"},
		"too many versions": {"entries:\n  karpenter:\n" + strings.Repeat("  - version: 1.2.3\n", maxEntries/10), "karpenter", nil, "larger than 2 MiB"},
	} {
		g := NewWithT(t)
		entries, err := Fetcher{MaxIndex: maxIndex}.readIndex(strings.NewReader(tt.text), tt.chart)
		if tt.err != "" {
			g.Expect(err).To(MatchError(ContainSubstring(tt.err)), name)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(entries).To(Equal(tt.want), name)
	}
}

// An index of a public repository has many charts. The manager, whose memory is limited
// to 128 MiB, keeps the lines of one.
func TestReadIndex_needsLittleMemory(t *testing.T) {
	g := NewWithT(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	index := &endlessIndex{size: 25 << 20}
	entries, err := Fetcher{MaxIndex: maxIndex}.readIndex(index, "chart-7")
	runtime.ReadMemStats(&after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).NotTo(BeEmpty())
	g.Expect(index.size).To(BeNumerically("<=", 0), "the whole index was read")
	// What was ever allocated is more than what is in use at any time.
	g.Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 150<<20))
}

// endlessIndex writes the lines of an index of a given size.
type endlessIndex struct {
	size, chart int
	rest        string
}

func (i *endlessIndex) Read(p []byte) (int, error) {
	if i.rest == "" {
		if i.chart == 0 {
			i.rest = "entries:\n"
		}
		i.rest += fmt.Sprintf("  chart-%d:\n", i.chart) + strings.Repeat("  - version: 1.2.3\n    urls:\n    - https://charts.example.com/chart.tgz\n    description: "+strings.Repeat("x", 400)+"\n", 50)
		i.chart++
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	if i.size -= n; i.size <= 0 {
		return n, io.EOF
	}
	return n, nil
}
