package change_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/change"
)

func TestReadSecrets_findsWhatThePlanMarks(t *testing.T) {
	g := NewWithT(t)
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nabc\n-----END KEY-----\n"
	quoted := strings.ReplaceAll(key, "\n", `\n`)
	secrets, err := change.ReadSecrets(strings.NewReader(`{"variables":{"v":{"value":{"nested":"in-a-variable"}},"open":{"value":"public-value"}},
"planned_values":{},"resource_changes":[{"address":"a.b","change":{"actions":["no-op"],"before":{"p":"old-password","pin":482913,"short":"abc","plain":"public-too"},"after":{"k":"` + quoted + `"},
"before_sensitive":{"p":true,"pin":true,"short":true},"after_sensitive":{"k":true}}}],"output_changes":{"o":{"actions":["create"],"after":["in-an-output"],"after_sensitive":true}},
"configuration":{"provider_config":{},"root_module":{"outputs":{},"variables":{"v":{"sensitive":true},"open":{}}}}}`))
	g.Expect(err).NotTo(HaveOccurred())
	for text, want := range map[string]string{
		"in-a-variable":                "(sensitive value)",
		"x old-password y":             "x (sensitive value) y",
		`{"p":"in-an-output"}`:         `{"p":"(sensitive value)"}`,
		"482913":                       "(sensitive value)",
		"abc":                          "(sensitive value)",
		"abcd":                         "abcd",
		"public-value":                 "public-value",
		"public-too":                   "public-too",
		"MIIEvQIBADANBgkqhkiG9w0B":     "(sensitive value)",
		"-----BEGIN OTHER KEY-----":    "-----BEGIN OTHER KEY-----",
		`"` + quoted + `"`:             `"(sensitive value)"`,
		key:                            "(sensitive value)",
		"something else entirely here": "something else entirely here",
	} {
		g.Expect(secrets.Mask(text)).To(Equal(want), text)
	}
	for shift := range 3 {
		document := strings.Repeat("#", shift) + "password=old-password;"
		encoded := base64.StdEncoding.EncodeToString([]byte(document))
		decoded, _ := base64.StdEncoding.DecodeString(secrets.Mask(encoded))
		g.Expect(secrets.Mask(encoded)).NotTo(Equal(encoded), document)
		g.Expect(string(decoded)).NotTo(ContainSubstring("old-password"))
	}
}

// What a data source has read, and what did not drift, is only in the state.
func TestReadSecrets_readsTheStateBefore(t *testing.T) {
	g := NewWithT(t)
	secrets, err := change.ReadSecrets(strings.NewReader(`{"prior_state":{"format_version":"1.0","values":{
"outputs":{"o":{"sensitive":true,"value":"in-an-output"},"p":{"sensitive":false,"value":"public-value"}},
"root_module":{"resources":[{"mode":"data","values":{"id":"public-too","secret_string":"in-a-data-source"},"sensitive_values":{"secret_string":true}}],
"child_modules":[{"address":"module.a","child_modules":[{"resources":[{"values":{"result":"in-a-module"},"sensitive_values":{"result":true}}]}]}]}}},
"resource_drift":[]}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(secrets.Mask("in-an-output in-a-data-source in-a-module")).To(Equal("(sensitive value) (sensitive value) (sensitive value)"))
	g.Expect(secrets.Mask("public-value public-too")).To(Equal("public-value public-too"))
}

// A secret of the workspace need not be one of the module, and may be short.
func TestRead_masksShortSecretsOfTheWorkspace(t *testing.T) {
	g := NewWithT(t)
	plan := `{"resource_changes":[{"address":"a.b[\"q7z\"]","change":{"actions":["update"],
"before":{"pin":"q7z","number":1,"name":"app-917","tags":{"x":"old"},"list":["1"]},
"after":{"pin":"917","number":917,"name":"app-q7z","tags":{"q7z":"x=q7z;"},"list":["4f2","q7z8 is not q7z"]}}}],
"output_changes":{"o":{"actions":["create"],"after":{"code":"q7z"}}}}`
	secrets, err := change.ReadSecrets(strings.NewReader(plan), "q7z", " 917\n", "4f2", "x")
	g.Expect(err).NotTo(HaveOccurred())
	var out strings.Builder
	g.Expect(change.Read(strings.NewReader(plan), secrets.Mask, func(e change.Entry) error { return json.NewEncoder(&out).Encode(e) })).To(Succeed())
	g.Expect(strings.ReplaceAll(out.String(), "q7z8", "")).NotTo(Or(ContainSubstring("q7z"), ContainSubstring("917"), ContainSubstring("4f2")))
	g.Expect(out.String()).To(And(ContainSubstring(`"app-(sensitive value)"`), ContainSubstring("q7z8 is not (sensitive value)")))
}

func TestReadSecrets_refusesInvalidPlans(t *testing.T) {
	for _, plan := range []string{"", "s3cret", `{"resource_changes":["s3cret"]}`, `{"output_changes":[]}`, `{"configuration":"s3cret"}`, `{"variables":["s3cret"]}`, `{"prior_state":{"values":{"root_module":{"resources":["s3cret"]}}}}`} {
		_, err := change.ReadSecrets(strings.NewReader(plan))
		NewWithT(t).Expect(err).To(MatchError("reading the sensitive values of the plan: the output of show is not a plan"), plan)
	}
}
