package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

const thing = "apiVersion: v1\nkind: Thing\nmetadata: {name: a}\n"

// mine returns an add-on with inline manifests and the output BIG.
func mine(inline ...string) *addonsv1.CAPTAddon {
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	addon.Spec.Connection = &addonsv1.ConnectionSource{Keys: []string{"BIG"}}
	for i, text := range inline {
		addon.Spec.Manifests = append(addon.Spec.Manifests, addonsv1.ManifestSource{Name: fmt.Sprintf("set%d", i), Inline: text})
	}
	return addon
}

// withValues returns an add-on with helm.values.
func withValues(values string) *addonsv1.CAPTAddon {
	addon := mine()
	addon.Spec.Helm = &addonsv1.HelmRelease{Namespace: "a", Chart: addonsv1.ChartSource{Repository: "oci://example.com", Name: "a", Version: "1.0.0"}, Values: &infrav1.Value{Raw: []byte(values)}}
	return addon
}

func nested(depth int, value string) string {
	return strings.Repeat("{a: ", depth) + value + strings.Repeat("}", depth)
}

// A few hundred bytes of an add-on, and a Secret of an output, must not end the manager.
func TestRender_refusesWhatFillsTheMemory(t *testing.T) {
	maps := func(bytes int) string { return "[" + strings.Repeat(`{"a":0},`, bytes/8) + "0]" }
	list := func(item string, count int) string { return strings.Repeat("- "+item+"\n", count) }
	x := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		addon *addonsv1.CAPTAddon
		big   string
		want  string
	}{
		"JSON, often": {
			mine(thing + "spec:\n" + list("${json:BIG}", 30)), maps(156 << 10),
			"InvalidManifest: Add-on mine: manifests set0: Thing a: ${json:BIG}: the JSON would need more than 10 MiB of memory",
		},
		"JSON, in many manifests": {
			mine(strings.Split(strings.Repeat(thing+"spec: '${json:BIG}'\n\x00", 30), "\x00")...), maps(100 << 10),
			"InvalidManifest: Add-on mine: manifests set1: Thing a: ${json:BIG}: the JSON would need more than 10 MiB of memory",
		},
		"a large JSON": {
			mine(thing + "spec: '${json:BIG}'\n"), maps(1 << 20),
			"InvalidManifest: Add-on mine: manifests set0: Thing a: ${json:BIG}: the JSON is not accepted: it has more than 100000 elements",
		},
		"a deep JSON": {
			mine(thing + "spec: '${json:BIG}'\n"), strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000),
			"TooLarge: Add-on mine: its manifests have more than 900 KiB, which is what a Secret holds: split them",
		},
		"strings, often": {
			mine(thing + "spec:\n" + list("${BIG}", 60)), x,
			"TooLarge: Add-on mine: manifests set0: Thing a: with ${BIG}, its strings have more than 900 KiB, the limit: use shorter outputs, or use them less often",
		},
		"a string of them": {
			mine(thing + "spec: '" + strings.Repeat("${BIG}", 60) + "'\n"), x,
			"TooLarge: Add-on mine: manifests set0: Thing a: with ${BIG}, its strings have more than 900 KiB",
		},
		"strings of many manifests": {
			mine(strings.Split(strings.Repeat(thing+"spec: '${BIG}'\n\x00", 30), "\x00")...), x[:101<<10],
			"TooLarge: Add-on mine: manifests set8: Thing a: with ${BIG}, its strings have more than 900 KiB",
		},
		"lines, deeply nested": {
			mine(thing + "spec: " + nested(400, "'${BIG}'") + "\n"), strings.Repeat("a\n", 400<<10),
			"TooLarge: Add-on mine: its manifests have more than 900 KiB",
		},
		"words, deeply nested": {
			mine(thing + "spec: " + nested(400, "'${BIG}'") + "\n"), strings.Repeat("a ", 400<<10),
			"TooLarge: Add-on mine: its manifests have more than 900 KiB",
		},
		"lines of the text": {
			mine(thing + "spec: " + nested(1_900, `"`+strings.Repeat(`a\n`, 16<<10)+`"`) + "\n"), "",
			"TooLarge: Add-on mine: its manifests have more than 900 KiB",
		},
		"many texts": {
			mine(strings.Split(strings.Repeat(thing+"spec: ["+strings.Repeat("a: 1,", 18_000)+"1]\n\x00", 20), "\x00")...), "",
			"InvalidManifest: Add-on mine: manifests set1: document 1: the YAML would need more than 10 MiB of memory",
		},
		"many elements in a string": {
			mine(thing + "spec: '${BIG}'\n"), strings.Repeat("a,", 120_000),
			"TooLarge: Add-on mine: m00-set0.yaml cannot be read again with the values of its placeholders: ",
		},
		"JSON in helm.values": {
			withValues(`["${json:BIG}","${json:BIG}","${json:BIG}"]`), maps(156 << 10),
			"InvalidManifest: Add-on mine: helm.values: ${json:BIG}: the JSON would need more than 10 MiB of memory",
		},
		"strings in helm.values": {
			withValues(`["` + strings.Repeat(`${BIG}","`, 60) + `"]`), x,
			"TooLarge: Add-on mine: helm.values: with ${BIG}, its strings have more than 900 KiB",
		},
		"helm.values": {
			withValues(maps(1 << 20)), "",
			"InvalidManifest: Add-on mine: helm.values: the JSON is not accepted: it has more than 100000 elements",
		},
		"deep helm.values": {
			withValues(strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000)), "",
			"TooLarge: Add-on mine: its manifests have more than 900 KiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := input(test.addon, map[string]string{"BIG": test.big})
			var err error
			allocated := memorytest.Allocated(func() { _, err = Render(in) })
			t.Logf("%d MiB allocated", allocated>>20)
			g.Expect(err).To(MatchError(HavePrefix(test.want)))
			// A manifest that is just accepted allocates up to 150 MiB, but never keeps it.
			g.Expect(allocated).To(BeNumerically("<", 200<<20))
		})
	}
}

func TestRender_refusesChartSecretsThatFillTheMemory(t *testing.T) {
	g := NewWithT(t)
	addon := withValues("{}")
	addon.Spec.Helm.Chart.SecretRef = &infrav1.LocalReference{Name: "pull"}
	in := input(addon, map[string]string{"BIG": ""})
	config, err := json.Marshal(map[string]any{"auths": map[string]any{"example.com": make([]map[string]any, 200_000)}})
	g.Expect(err).NotTo(HaveOccurred())
	in.ChartSecrets = map[string]map[string][]byte{"pull": {".dockerconfigjson": config}}
	allocated := memorytest.Allocated(func() { _, err = Render(in) })
	t.Logf("%d KiB, %d MiB allocated", len(config)>>10, allocated>>20)
	g.Expect(err).To(MatchError(HavePrefix("InvalidSecret: Add-on mine: helm.chart.secretRef: .dockerconfigjson of Secret pull is too large: ")))
	g.Expect(allocated).To(BeNumerically("<", 8<<20))
}
