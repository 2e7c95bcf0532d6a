package template_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// fetchedWith sets the address of a remote module and the Secret to fetch it.
func fetchedWith(address string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.Source, p.Module, p.ModuleSecretReference = infrav1.ModuleSourceRemote, address, &infrav1.LocalReference{Name: "git"}
	}
}

func TestResolve_addsCredentialsOfTheModule(t *testing.T) {
	https, ssh := fetchedWith("git::https://example.com/m.git?ref=v1"), fetchedWith("git@example.com:m.git")
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    terraform.ModuleAuth
		err     string
	}{
		{name: "a token", changes: []func(*template.Sources){https, secret("git", "token", "abc\n")}, want: terraform.ModuleAuth{Method: "HTTPS", Host: "example.com", Username: "git", Password: "abc"}},
		{
			name:    "user name and password",
			changes: []func(*template.Sources){https, secret("git", "username", "u"), secret("git", "password", "p")},
			want:    terraform.ModuleAuth{Method: "HTTPS", Host: "example.com", Username: "u", Password: "p"},
		},
		{
			name:    "a key of Flux",
			changes: []func(*template.Sources){ssh, secret("git", "identity", "key"), secret("git", "known_hosts", "hosts")},
			want:    terraform.ModuleAuth{Method: "SSH", Host: "example.com", PrivateKey: "key", KnownHosts: "hosts"},
		},
		{
			name:    "a key of Kubernetes' type ssh-auth",
			changes: []func(*template.Sources){ssh, secret("git", "ssh-privatekey", "key"), secret("git", "known_hosts", "hosts")},
			want:    terraform.ModuleAuth{Method: "SSH", Host: "example.com", PrivateKey: "key", KnownHosts: "hosts"},
		},
		{
			name:    "a registry",
			changes: []func(*template.Sources){fetchedWith("registry.example.com/team/network/aws"), secret("git", "token", "abc")},
			want:    terraform.ModuleAuth{Method: "Registry", Host: "registry.example.com", Password: "abc"},
		},
		{
			name:    "an OCI registry",
			changes: []func(*template.Sources){fetchedWith("oci://example.com/network"), secret("git", ".dockerconfigjson", "{}")},
			want:    terraform.ModuleAuth{Method: "OCI", Host: "example.com", DockerConfig: "{}"},
		},
		{name: "no Secret", changes: []func(*template.Sources){https}, err: "moduleSecretRef: Secret git does not exist"},
		{name: "another key", changes: []func(*template.Sources){https, secret("git", "pass", "abc")}, err: "moduleSecretRef: Secret git has no key token"},
		{name: "no host keys", changes: []func(*template.Sources){ssh, secret("git", "identity", "key")}, err: "moduleSecretRef: Secret git has no key known_hosts"},
		{name: "two lines", changes: []func(*template.Sources){https, secret("git", "token", "a\nb")}, err: "must be one line"},
		{name: "an archive", changes: []func(*template.Sources){fetchedWith("https://example.com/m.zip"), secret("git", "token", "a")}, err: "credentials are supported for Git"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := sources(tt.changes...)
			g.Expect(template.ReferencesOf(s).Secrets).To(ConsistOf("git"))

			inputs, err := template.Resolve(s)

			if tt.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(inputs.Request.Module.Auth).To(HaveValue(Equal(tt.want)))
			s.Template.Spec.Template.Spec.ForProvider.ModuleSecretReference = nil
			without, err := template.Resolve(s)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(without.Hash).To(Equal(inputs.Hash), "rotated credentials start no run")
		})
	}
}
