package elements_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/elements"
)

func TestCheckJSON_countsEveryValue(t *testing.T) {
	for text, values := range map[string]int{
		`[]`: 1, `{}`: 1, `[1,2,3]`: 4, `{"a":{"b":[1]}}`: 4, `"[,,,"`: 1, `["\",[",1]`: 3, `["\\",1]`: 3, `[[],[],[]]`: 4,
	} {
		g := NewWithT(t)
		g.Expect(json.Valid([]byte(text))).To(BeTrue(), text)
		g.Expect(elements.CheckJSON([]byte(text), values-1)).To(MatchError(ContainSubstring("elements")), text)
		g.Expect(elements.CheckJSON([]byte(text), values+3)).To(Succeed(), text)
	}
}

func TestCount_countsObjects(t *testing.T) {
	for text, objects := range map[string]int{
		`{"a":{"b":{}},"c":null}`: 3, `{"items":[{},{"a":{}},null]}`: 4, `["{",{"{":"{"}]`: 1, strings.Repeat(`{"":`, 9_000): 9_000,
	} {
		_, found := elements.Count([]byte(text))
		NewWithT(t).Expect(found).To(Equal(objects), text[:min(len(text), 50)])
	}
}

func TestCheckYAML_countsLinesAndFlow(t *testing.T) {
	for name, text := range map[string]string{
		"lines": strings.Repeat("- 1\n", 1000), "flow": "[" + strings.Repeat("1,", 1000) + "1]", "nested": strings.Repeat("- ", 1000) + "1",
		"brackets": strings.Repeat("[", 1000), "maps": strings.Repeat("? ", 1000), "returns": strings.Repeat("- 1\r", 1000),
	} {
		NewWithT(t).Expect(elements.CheckYAML([]byte(text), 900)).To(HaveOccurred(), name)
		NewWithT(t).Expect(elements.CheckYAML([]byte(text), 2200)).To(Succeed(), name)
	}
}
