package chart

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// A user who writes an add-on names the repository of its chart.
func TestFetcher_refusesChartsThatFillTheMemory(t *testing.T) {
	maps := "[" + strings.Repeat("{a: 1},", 15_000) + "1]"
	json := `{"a":[` + strings.Repeat(`{"a":{}},`, 30_000) + `1]}`
	many := map[string]string{"Chart.yaml": "name: a\n"}
	for i := range 10 {
		many[fmt.Sprintf("charts/s%d/Chart.yaml", i)] = fmt.Sprintf("name: s%d\n", i)
		many[fmt.Sprintf("charts/s%d/values.yaml", i)] = "a: " + maps
	}
	for name, files := range map[string]map[string]string{
		"values":    {"Chart.yaml": "name: a\n", "values.yaml": "a: [" + strings.Repeat("{a: 1},", 45_000) + "1]\n"},
		"NEL":       {"Chart.yaml": "name: a\n", "values.yaml": "a:\n" + strings.Repeat(" -\u0085  a:\u0085", 45_000)},
		"a schema":  {"Chart.yaml": "name: a\n", "values.schema.json": json},
		"subcharts": many,
	} {
		g := NewWithT(t)
		data := pack(files)
		var err error
		allocated := memorytest.Allocated(func() { _, err = unpack(bytes.NewReader(data)) })
		t.Logf("%s: %d KiB, %d MiB allocated", name, len(data)>>10, allocated>>20)
		g.Expect(err).To(MatchError(ContainSubstring("would need more than 10 MiB of memory")), name)
		g.Expect(allocated).To(BeNumerically("<", 100<<20), name)
	}
}
