package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestAuthOf(t *testing.T) {
	tests := []struct {
		address string
		method  AuthMethod
		host    string
		err     string
	}{
		{address: "git::https://example.com/network.git//vpc?ref=v1", method: AuthHTTPS, host: "example.com"},
		{address: "git::https://user@example.com:8443/network.git", method: AuthHTTPS, host: "example.com:8443"},
		{address: "github.com/example/network", method: AuthHTTPS, host: "github.com"},
		{address: "git@github.com:example/network.git", method: AuthSSH, host: "github.com"},
		{address: "git::git@example.com:network.git?ref=main", method: AuthSSH, host: "example.com"},
		{address: "git::ssh://git@example.com:2222/network.git", method: AuthSSH, host: "example.com:2222"},
		{address: "registry.example.com/team/network/aws//modules/vpc", method: AuthRegistry, host: "registry.example.com"},
		{address: "registry.example.com:8443/team/network/aws", method: AuthRegistry, host: "registry.example.com:8443"},
		{address: "oci://registry.example.com/modules/network?tag=1.0.0", method: AuthOCI, host: "registry.example.com"},
		{address: "terraform-aws-modules/vpc/aws", err: "for example registry.example.com/terraform-aws-modules/vpc/aws"},
		{address: "git::http://example.com/network.git", err: "write git::https://"},
		{address: "https://example.com/network.zip", err: "credentials are supported for Git"},
		{address: "/srv/modules/network", err: "credentials are supported for Git"},
		{address: "s3::https://s3.amazonaws.com/bucket/network.zip", err: "credentials are supported for Git"},
		{address: "git::https://%zz", err: "credentials are supported for Git"},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			g := NewWithT(t)
			method, host, err := AuthOf(tt.address)
			if tt.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(method).To(Equal(tt.method))
			g.Expect(host).To(Equal(tt.host))
		})
	}
}

func TestRedactor_masksTheCredentialsOfTheModule(t *testing.T) {
	g := NewWithT(t)
	request := &Request{Module: Module{Auth: &ModuleAuth{
		Password: "hunter2hunter2", PrivateKey: "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0a2V5\n-----END OPENSSH PRIVATE KEY-----\n",
		DockerConfig: `{"auths":{"example.com":{"auth":"dXNlcjpodW50ZXIy"}}}`,
	}}}
	text := request.Redactor().Replace("a hunter2hunter2 b c2VjcmV0a2V5 c dXNlcjpodW50ZXIy d")
	g.Expect(text).To(Equal("a (sensitive value) b (sensitive value) c (sensitive value) d"))
}
