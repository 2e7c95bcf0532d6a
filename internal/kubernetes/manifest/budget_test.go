package manifest_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func nested(depth int) string {
	return strings.Repeat("{a: ", depth) + "1" + strings.Repeat("}", depth)
}

// Ten workers of the manager decode at the same time.
func TestParse_refusesWhatFillsTheMemory(t *testing.T) {
	maps := "spec: [" + strings.Repeat("a: 1,", 20_000) + "1]\n"
	for name, text := range map[string]string{
		"many maps":              head + "spec: [" + strings.Repeat("{a: 1},", 40_000) + "1]\n",
		"many maps in documents": strings.Repeat(head+maps+"---\n", 2),
		"many small documents":   strings.Repeat(head+"spec: ["+strings.Repeat("a: 1,", 1_000)+"1]\n---\n", 40),
		"maps in maps":           head + "spec: [" + strings.Repeat(nested(900)+",", 100) + "1]\n",
		"a deep map":             head + "spec: " + nested(9_000) + "\n",
		"maps after NEL":         head + "spec:\n" + strings.Repeat(" -\u0085  a:\u0085", 40_000),
		"maps after LS":          head + "spec:\n" + strings.Repeat(" -\u2028  a:\u2028", 40_000),
		"maps after PS":          head + "spec:\n" + strings.Repeat(" -\u2029  a:\u2029", 40_000),
		"aliases of maps":        head + "a: &a [" + strings.Repeat("a: 1,", 100) + "1]\nb: [" + strings.Repeat("*a,", 900) + "1]\n",
	} {
		g := NewWithT(t)
		var err error
		allocated := memorytest.Allocated(func() { _, err = manifest.Parse([]byte(text)) })
		t.Logf("%s: %d KiB, %d MiB allocated", name, len(text)>>10, allocated>>20)
		g.Expect(err).To(MatchError(ContainSubstring("would need more than 10 MiB of memory")), name)
		g.Expect(allocated).To(BeNumerically("<", 100<<20), name)
	}
}

// The parsers also read UTF-16, in which elements cannot be counted.
func TestParse_refusesUTF16(t *testing.T) {
	text := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(head)) {
		text = binary.LittleEndian.AppendUint16(text, unit)
	}
	NewWithT(t).Expect(manifest.Parse(text)).Error().To(MatchError(ContainSubstring("not in UTF-8")))
}

// Manifests of add-ons that fit an object of Kubernetes are normal.
func TestParse_acceptsLargeManifests(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../../config/crd/bases/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var definitions strings.Builder
	for i := 0; definitions.Len() < 1<<20; i++ {
		text, err := os.ReadFile(files[i%len(files)])
		g.Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&definitions, "---\n%s", text)
	}
	dashboard := strings.Repeat("    {\"expr\": \"up\",\n     \"id\": 1},\n", 18_000)
	for name, text := range map[string]string{
		"definitions": definitions.String(), "definitions without texts": withoutTexts(definitions.String()), "a dashboard": head + "data:\n  a: |\n" + dashboard,
	} {
		_, err := manifest.Parse([]byte(text))
		t.Logf("%s: %d KiB", name, len(text)>>10)
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
}

// withoutTexts removes the descriptions of definitions.
func withoutTexts(definitions string) string {
	var kept strings.Builder
	indent := -1
	for line := range strings.Lines(definitions) {
		content := strings.TrimLeft(line, " ")
		if indent >= 0 && len(line)-len(content) > indent || content == "\n" {
			continue
		}
		if indent = -1; strings.HasPrefix(content, "description:") {
			indent = len(line) - len(content)
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}
