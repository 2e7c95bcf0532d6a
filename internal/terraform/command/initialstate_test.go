package command

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestEncryptionBlock_doesNotMatchTheWordElsewhere(t *testing.T) {
	tests := map[string]bool{
		"terraform {\n  encryption {\n  }\n}":                                    true,
		"terraform { encryption { } }":                                           true,
		`{"terraform": {"encryption": {}}}`:                                      true,
		"variable \"x\" {\n  description = \"CloudWatch's own encryption {\"\n}": false,
		"# encryption {": false,
		"resource \"aws_eks_cluster\" \"this\" {\n  encryption_config {\n  }\n}": false,
		"locals { encryption = true }":                                           false,
	}
	for text, want := range tests {
		NewWithT(t).Expect(encryptionBlock.MatchString(text)).To(Equal(want), text)
	}
}

func TestSettings_keepsTheBlocksThatEncryptionMayReferTo(t *testing.T) {
	g := NewWithT(t)
	const module = `
terraform {
  encryption {}
}
variable "key" {}
locals {
  a = module.b.c
}
module "b" {
  source = "./b"
}
resource "terraform_data" "d" {}
output "e" { value = 1 }
`
	kept := string(settings("main.tf", []byte(module)))
	g.Expect(kept).To(And(ContainSubstring("encryption"), ContainSubstring(`variable "key"`), ContainSubstring("locals")))
	g.Expect(kept).NotTo(Or(ContainSubstring("module \"b\""), ContainSubstring("resource"), ContainSubstring("output")))
	g.Expect(settings("main.tf.json", []byte(`{"terraform":{"encryption":{}},"module":{"b":{"source":"./b"}}}`))).To(MatchJSON(`{"terraform":{"encryption":{}}}`))
	g.Expect(settings("main.tf", []byte("not {{ hcl"))).To(BeEquivalentTo("not {{ hcl"))
}
