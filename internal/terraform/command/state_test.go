package command

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestParseState(t *testing.T) {
	g := NewWithT(t)
	state, err := ParseState([]byte(`{"version": 4, "terraform_version": "1.12.6", "serial": 7, "lineage": "l",
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
	g.Expect(state.ToolVersion).To(Equal("1.12.6"))
}

func TestParseState_rejectsInvalidStates(t *testing.T) {
	g := NewWithT(t)
	_, err := ParseState([]byte(`{"serial": 1, "lineage": "l", "meta": {}, "encrypted_data": "x"}`))
	g.Expect(err).To(MatchError(ErrEncrypted))
	_, err = ParseState([]byte(`{"version": 3}`))
	g.Expect(err).To(MatchError(ContainSubstring("version 3")))
	_, err = ParseState([]byte(`{"password": "s3cr3t`))
	g.Expect(err).To(MatchError("parsing state: invalid JSON"))
	empty, err := ParseState(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(empty.Resources).To(BeZero())
}
