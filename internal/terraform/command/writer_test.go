package command

import (
	"io"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

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

// The tool is recorded with the result of a run.
func TestSession_knowsItsTool(t *testing.T) {
	g := NewWithT(t)
	for line, want := range map[string]terraform.Tool{
		`{"@level":"info","type":"version","tofu":"1.12.6"}`:      {Product: "OpenTofu", Version: "1.12.6"},
		`{"@level":"info","type":"version","terraform":"1.11.4"}`: {Product: "Terraform", Version: "1.11.4"},
		`{"@level":"info","type":"log"}`:                          {},
	} {
		session := &executor{log: newRunLog(io.Discard, nil)}
		session.handleLine(&output{}, []byte(line), func(Event) {})
		g.Expect(session.Used()).To(Equal(want), line)
	}
}
