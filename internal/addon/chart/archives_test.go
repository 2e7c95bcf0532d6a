package chart

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// chartWith returns the files of a chart with n further ones.
func chartWith(n int, name, text string) map[string]string {
	files := map[string]string{"Chart.yaml": "name: a\n"}
	for i := range n {
		files[fmt.Sprintf(name, i)] = text
	}
	return files
}

func compressed(text string) string {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return packed.String()
}

// Zeros compress to a thousandth, so that an archive of some KiB has many large ones.
func TestFetcher_limitsTheArchivesOfAChart(t *testing.T) {
	zeros := strings.Repeat("\x00", 5<<20)
	leaf := string(pack(chartWith(1, "files/%d", strings.Repeat("\x00", 60<<20))))
	small := string(pack(chartWith(0, "", "")))
	long := strings.Repeat("x", 100<<10)
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"archives that are none":   {chartWith(11, "charts/b%d.tgz", zeros), "not a .tgz archive"},
		"files that are not kept":  {chartWith(14, "files/%d", zeros), "larger than 64 MiB"},
		"large archives":           {chartWith(20, "charts/c%d.tgz", leaf), "larger than 64 MiB"},
		"large archives in others": {chartWith(20, "charts/c%d.tgz", string(pack(chartWith(20, "charts/c%d.tgz", leaf)))), "larger than 64 MiB"},
		"many archives":            {chartWith(5_000, "charts/c%d.tgz", small), "more than 4 MiB"},
		"many archives in others":  {chartWith(150, "charts/c%d.tgz", string(pack(chartWith(150, "charts/c%d.tgz", small)))), "more than 4 MiB"},
		"an archive of empty ones": {chartWith(10, "charts/c%d.tgz", strings.Repeat(compressed(""), 200_000)), "no Chart.yaml found"},
		"many files":               {chartWith(60_000, "charts/s%d/values.yaml", ""), "more than 4 MiB"},
		"large files":              {chartWith(10, "charts/s%d/values.yaml", "a: "+strings.Repeat("x", 1<<20-10)), "more than 4 MiB"},
		"long names of files":      {chartWith(60, "charts/%d"+long+"/values.yaml", ""), ""},
		"a long name":              {map[string]string{"Chart.yaml": "name: " + long + "\n"}, "the name in Chart.yaml is longer than 253 characters"},
	} {
		g := NewWithT(t)
		data := pack(test.files)
		var err error
		allocated := memorytest.Allocated(func() { _, err = unpack(bytes.NewReader(data)) })
		t.Logf("%s: %d KiB, %d MiB allocated: %v", name, len(data)>>10, allocated>>20, err)
		if test.want == "" {
			g.Expect(err).NotTo(HaveOccurred(), name)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(test.want)), name)
			g.Expect(len(err.Error())).To(BeNumerically("<", 1000), name)
		}
		g.Expect(allocated).To(BeNumerically("<", 250<<20), name)
	}
}

// The archives of a chart are small, compared with what they contain.
func TestFetcher_readsSubchartsOfAllLevels(t *testing.T) {
	g := NewWithT(t)
	files := map[string]string{"Chart.yaml": "name: level-4\n", "values.yaml": "level: 4\n"}
	for level := 3; level >= 0; level-- {
		inner := string(pack(files))
		files = map[string]string{
			"Chart.yaml": fmt.Sprintf("name: level-%d\n", level), "values.yaml": fmt.Sprintf("level: %d\n", level),
			"charts/inner.tgz": inner, "templates/charts/other.tgz": "is not read", "charts/readme.txt": "is not read",
			"charts/plain/Chart.yaml": "name: plain\n", "charts/plain/values.yaml": "plain: true\n",
		}
	}
	c, err := unpack(bytes.NewReader(pack(files)))
	g.Expect(err).NotTo(HaveOccurred())
	for level := range 4 {
		g.Expect(c.Values).To(HaveKeyWithValue("level", BeNumerically("==", level)))
		g.Expect(c.Dependencies).To(HaveLen(2))
		g.Expect(c.Dependencies["plain"].Values).To(HaveKeyWithValue("plain", true))
		c = c.Dependencies[fmt.Sprintf("level-%d", level+1)]
	}
	g.Expect(c.Values).To(HaveKeyWithValue("level", BeNumerically("==", 4)))
	g.Expect(c.Dependencies).To(BeEmpty())
}
