package elements_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	. "github.com/onsi/gomega"
	"go.yaml.in/yaml/v3"
	decoder "sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/elements"
)

// breaks are the line breaks of the YAML parsers.
var breaks = map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n", "NEL": "\u0085", "LS": "\u2028", "PS": "\u2029"}

// shapes are texts with many nodes for their size. B is a line break.
var shapes = map[string]string{
	"items":                   "-B",
	"items with values":       "- 1B",
	"items with tabs":         "-\t1B",
	"keys":                    "a: 1B",
	"empty keys":              "a:B",
	"maps in items":           "-B  a:B",
	"maps in items in a line": "- a: 1B",
	"nested items":            "- - - - - -B",
	"nested items with tabs":  "-\t-\t-\t-B",
	"explicit keys":           "? aB: bB",
	"explicit keys of maps":   "? a: bB: c: dB",
	"nested explicit keys":    "? ? ? ?B",
	"explicit keys with tabs": "?\t?\t?\t?B",
	"items of explicit keys":  "- ? - ? a: bB",
	"documents":               "---B",
	"documents with values":   "--- aB...B",
	"aliases":                 "- &a {b: c}B- *aB- <<: *aB",
	"BOMs":                    "\ufeff- aB",
	"comments":                "- # aB  bB",
	"block scalars":           "- |B  aB- >-B  bB",
	"quoted keys":             "- \"a\": 'b'B",
	"tags":                    "- !!str a: !t bB",
	"flow list":               "- [a,b,[c],[],{}]B",
	"flow maps":               "- [{a: 1},{b: 2}]B",
	"pairs in a flow list":    "- [a: 1,b: 2,? c,? d : e]B",
	"pairs of lists":          "- [a: [a: [a: {\"a\":[? [? []]]}]]]B",
	"flow maps over lines":    "- {aB,bB,? cB,? dB: eB}B",
}

func TestYAML_countsEveryNode(t *testing.T) {
	for shape, text := range shapes {
		for name, lineBreak := range breaks {
			text := []byte(strings.Repeat(strings.ReplaceAll(text, "B", lineBreak), 50))
			checkCount(t, text)
			if nodes := count(text); nodes < 50 && !strings.Contains(shape, "tabs") && shape != "BOMs" {
				t.Errorf("%s with %s: has only %d nodes", shape, name, nodes)
			}
		}
	}
	for _, text := range []string{
		strings.Repeat("- ", 1000), strings.Repeat("? ", 1000), strings.Repeat("[", 1000), strings.Repeat("[a: ", 500), strings.Repeat("[?", 500),
		strings.Repeat("{a: ", 500), strings.Repeat("{? ", 500), strings.Repeat("[{: ", 300),
	} {
		checkCount(t, []byte(text))
	}
}

func FuzzYAML(f *testing.F) {
	for _, text := range shapes {
		for _, lineBreak := range breaks {
			f.Add([]byte(strings.Repeat(strings.ReplaceAll(text, "B", lineBreak), 4)))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 1<<10 {
			checkCount(t, text)
		}
	})
}

// checkCount fails if a text has more nodes, or decoded values, than elements allow.
func checkCount(t *testing.T, text []byte) {
	t.Helper()
	if elements.CheckYAML(text, len(text)+1) != nil {
		return
	}
	limit := 3*elements.YAML(text) + 1
	if nodes := count(text); nodes > limit {
		t.Errorf("%.100q has %d nodes, more than %d", text, nodes, limit)
	}
	var value any
	if bytes.IndexByte(text, '*') < 0 && decoder.Unmarshal(text, &value) == nil && values(value) > limit {
		t.Errorf("%.100q has %d values, more than %d", text, values(value), limit)
	}
}

// count returns the number of nodes in the documents of a text, without what aliases repeat.
func count(text []byte) int {
	total := 0
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		if documents.Decode(&document) != nil {
			return total
		}
		total += nodes(&document)
	}
}

func nodes(node *yaml.Node) int {
	total := 1
	for _, child := range node.Content {
		total += nodes(child)
	}
	return total
}

func values(value any) int {
	total := 1
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			total += values(item)
		}
	case map[string]any:
		for _, item := range value {
			total += 1 + values(item)
		}
	}
	return total
}

// The parsers read UTF-16, whose separators are other bytes.
func TestCheckYAML_refusesUTF16(t *testing.T) {
	for name, order := range map[string]binary.AppendByteOrder{"little endian": binary.LittleEndian, "big endian": binary.BigEndian} {
		var text []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + strings.Repeat("-\u2028", 1000))) {
			text = order.AppendUint16(text, unit)
		}
		g := NewWithT(t)
		g.Expect(count(text)).To(BeNumerically(">", 1000), "the parser reads "+name)
		g.Expect(elements.CheckYAML(text, 10_000)).To(MatchError(ContainSubstring("UTF-8")), name)
	}
}
