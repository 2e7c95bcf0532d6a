package statefile

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestParse(t *testing.T) {
	g := NewWithT(t)
	state, err := Parse([]byte(`{"version": 4, "terraform_version": "1.12.6", "serial": 7, "lineage": "l",
  "outputs": {"a": {"value": {"x": 1}, "type": ["object", {"x": "number"}]}, "s": {"value": "v", "type": "string", "sensitive": true}},
  "resources": [
    {"mode": "data", "type": "d", "name": "d", "instances": [{}]},
    {"mode": "managed", "type": "t", "name": "one", "instances": [{}]},
    {"module": "module.m[\"k\"]", "mode": "managed", "type": "t", "name": "many", "instances": [{"index_key": 1}, {"index_key": "a\"b"}, {"index_key": "${x}%{y}$z\u0001"}, {"index_key": 0, "deposed": "12345678"}]}
  ]}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.StateInfo).To(Equal(terraform.StateInfo{Lineage: "l", Serial: 7, Resources: 5}))
	g.Expect(state.Addresses).To(Equal([]string{`module.m["k"].t.many["$${x}%%{y}$z\u0001"]`, `module.m["k"].t.many["a\"b"]`, `module.m["k"].t.many[1]`, "t.one"}))
	g.Expect(string(state.Outputs["a"].Value)).To(Equal(`{"x": 1}`))
	g.Expect(state.Outputs["s"].Sensitive).To(BeTrue())
}

func TestParse_rejectsInvalidStates(t *testing.T) {
	g := NewWithT(t)
	_, err := Parse([]byte(`{"serial": 1, "lineage": "l", "meta": {}, "encrypted_data": "x"}`))
	g.Expect(err).To(MatchError(ErrEncrypted))
	_, err = Parse([]byte(`{"version": 3}`))
	g.Expect(err).To(MatchError(ContainSubstring("version 3")))
	_, err = Parse([]byte(`{"password": "s3cr3t`))
	g.Expect(err).To(MatchError("parsing state: invalid JSON"))
	empty, err := Parse(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(empty.Resources).To(BeZero())
}

func TestWriterOf_knowsTheProductByTheProviders(t *testing.T) {
	state := func(provider string) string {
		return `{"version":4,"terraform_version":"1.12.6","resources":[{"provider":"provider[\"terraform.io/builtin/terraform\"]"},{"provider":"` + provider + `"}]}`
	}
	for name, tc := range map[string]struct {
		state string
		want  terraform.Tool
	}{
		"none":      {"", terraform.Tool{}},
		"invalid":   {"{", terraform.Tool{}},
		"OpenTofu":  {state(`module.a.provider[\"registry.opentofu.org/hashicorp/aws\"]`), terraform.Tool{Product: "OpenTofu", Version: "1.12.6"}},
		"Terraform": {state(`provider[\"registry.terraform.io/hashicorp/aws\"].west`), terraform.Tool{Product: "Terraform", Version: "1.12.6"}},
		"mirror":    {state(`provider[\"mirror.example/registry.terraform.io/aws\"]`), terraform.Tool{Version: "1.12.6"}},
		"encrypted": {`{"encrypted_data":"x"}`, terraform.Tool{Product: "OpenTofu"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(WriterOf([]byte(tc.state))).To(Equal(tc.want))
		})
	}
}

// A module may bring a state of its own.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[{"type":"a","instances":[{}]}]}`, `{"version":"4"}`, "null"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = Parse(data)
		_, _ = Identify(data)
		IsLater(data, data)
	})
}
