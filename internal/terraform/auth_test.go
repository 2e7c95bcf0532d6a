package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestRedactor_masksTheCredentialsOfModules(t *testing.T) {
	g := NewWithT(t)
	request := &Request{Module: Module{Auth: []ModuleAuth{
		{Password: "hunter2hunter2", PrivateKey: "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0a2V5\n-----END OPENSSH PRIVATE KEY-----\n"},
		{Registries: map[string]RegistryAuth{"example.com": {Auth: "dXNlcjpodW50ZXIy"}}},
	}}}
	text := request.Redactor().Replace("a hunter2hunter2 b c2VjcmV0a2V5 c dXNlcjpodW50ZXIy d")
	g.Expect(text).To(Equal("a (sensitive value) b (sensitive value) c (sensitive value) d"))
}
