package webhooks

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCheckManifests_numbersDocumentsFromOne(t *testing.T) {
	const good = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${CLUSTER_NAME}\n"
	tests := map[string]struct{ text, want string }{
		"one":                           {good, ""},
		"two":                           {good + "---\n" + good, ""},
		"comment first":                 {"# hello\n---\n" + good, ""},
		"separator first and last":      {"---\n" + good + "---\n", ""},
		"JSON":                          {`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}`, ""},
		"placeholder in a flow mapping": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: '${CLUSTER_NAME}'}\n", ""},
		"unquoted in a flow mapping":    {"apiVersion: v1\nkind: Namespace\nmetadata: {name: ${CLUSTER_NAME}}\n", "document 1 is not valid YAML"},
		"unknown placeholder":           {good + "spec: ${NAME}\n", "unknown placeholder"},
		"JSON as a whole string":        {good + "spec: ${json:CLUSTER_NAME}\n", ""},
		"unknown JSON":                  {good + "spec: ${json:NAME}\n", "unknown placeholder"},
		"JSON inside a string":          {good + "spec: a ${json:CLUSTER_NAME}\n", "must be the whole string"},
		"generated list":                {"apiVersion: v1\nkind: ConfigMapList\nitems: []\n", ""},
		"aliases that expand":           {good + "data: {a: &a " + strings.Repeat("x", 100<<10) + ", b: [" + strings.Repeat("*a, ", 1000) + "]}\n", "document 1 is refused: the YAML would need more than 10 MiB"},
		"maps in maps":                  {good + "spec: " + strings.Repeat("{a: ", 9_000) + "1" + strings.Repeat("}", 9_000) + "\n", "document 1 is refused: the YAML would need more than 10 MiB"},
		"the second is bad":             {good + "---\nkind: A\n", "document 2 has no apiVersion"},
		"a key twice":                   {good + "kind: Namespace\n", `document 1 is not valid YAML: yaml: unmarshal errors:`},
		"a list":                        {"- a\n- b\n", "document 1 is not a Kubernetes object"},
		"a number as kind":              {"apiVersion: v1\nkind: 1\nmetadata: {name: a}\n", "document 1 is not a Kubernetes object"},
		"only comments":                 {"# nothing\n", "has no object"},
		"a tab":                         {"apiVersion: v1\n\tkind: A\n", "document 1 is not valid YAML: yaml: line 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			errs := checkManifests(field.NewPath("inline"), tt.text, []string{"CLUSTER_NAME"})
			if tt.want == "" {
				g.Expect(errs).To(BeEmpty())
				return
			}
			g.Expect(errs.ToAggregate()).To(MatchError(ContainSubstring(tt.want)))
		})
	}
}
