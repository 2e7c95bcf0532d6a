package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"

	captmanager "github.com/appthrust/capt/internal/manager"
	"github.com/appthrust/capt/internal/testenv"
)

// flagTypes maps the types of flags to those of JSON schema.
var flagTypes = map[string]string{
	"bool": "boolean", "int": "integer", "int32": "integer", "Level": "integer", "float32": "number", "duration": "string", "string": "string",
	"stringSlice": "array", "strings": "array",
}

// unusable are flags that no user of the chart can set to another value, by the reason.
var unusable = map[string][]string{
	"the manager is in its cluster":                                {"kubeconfig"},
	"the image has no programs for the process executor":           {"executor", "allow-process-executor-in-cluster", "hide", "inherit-home", "sandbox", "runner-binary", "terraform-binary", "work-dir"},
	"the value runnerImage":                                        {"runner-image"},
	"the Role for the lease is in the namespace of the release":    {"leader-elect-namespace"},
	"the pod has one certificate":                                  {"webhook-cert-dir", "diagnostics-cert-dir"},
	"there is one format, and no flag for the gate of its options": {"logging-format", "log-text-split-stream", "log-text-info-buffer-size"},
}

// The chart accepts every flag of the manager that can be used under the value flags, with
// its type, and nothing else.
func TestChart_acceptsEveryFlag(t *testing.T) {
	g := NewWithT(t)
	options := captmanager.NewOptions()
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	options.AddFlags(flags)
	flags.AddGoFlagSet(flag.CommandLine)
	for reason, names := range unusable {
		for _, name := range names {
			g.Expect(flags.Lookup(name)).NotTo(BeNil(), "the manager has --%s: %s", name, reason)
			flags.Lookup(name).Hidden = true
		}
	}
	want := map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) {
		// The rest are flags of go test.
		if f.Hidden || f.Name == "update" || len(f.Name) > 5 && f.Name[:5] == "test." {
			return
		}
		kind := flagTypes[f.Value.Type()]
		if kind == "" {
			kind = "string"
		}
		property := map[string]any{"type": kind, "description": f.Usage}
		if kind == "array" {
			property["items"] = map[string]any{"type": "string"}
		}
		want[f.Name] = property
	})

	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(root, "charts", "capt", "values.schema.json")
	text, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	var schema map[string]any
	g.Expect(json.Unmarshal(text, &schema)).To(Succeed())
	have := schema["properties"].(map[string]any)["flags"].(map[string]any)
	if os.Getenv("CAPT_UPDATE") != "" {
		have["properties"] = want
		text, err := json.MarshalIndent(schema, "", "  ")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(path, append(text, '\n'), 0o644)).To(Succeed())
	}

	g.Expect(have["additionalProperties"]).To(BeFalse())
	g.Expect(have["properties"]).To(Equal(want), "run CAPT_UPDATE=1 go test ./test/config -run TestChart")
}
