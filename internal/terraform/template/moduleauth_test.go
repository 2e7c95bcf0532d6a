package template_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// fetchedWith sets a module and the Secrets to fetch it, one for each host.
func fetchedWith(source infrav1.ModuleSource, module string, secrets ...string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.Source, p.Module = source, module
		for _, name := range secrets {
			p.ModuleCredentials = append(p.ModuleCredentials, infrav1.ModuleCredential{Host: name + ".example.com", SecretRef: infrav1.LocalReference{Name: name}})
		}
	}
}

func TestResolve_addsCredentialsForModules(t *testing.T) {
	remote := fetchedWith(infrav1.ModuleSourceRemote, "git::https://a.example.com/m.git?ref=v1", "a")
	const docker = `{"auths":{"https://a.example.com/v1/":{"auth":"YTpi"},"b.example.com":{"auth":"Yzpk"}},"credsStore":"x"}`
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    []terraform.ModuleAuth
		err     string
	}{
		{name: "a token", changes: []func(*template.Sources){remote, secret("a", "token", "abc\n")}, want: []terraform.ModuleAuth{{Username: "git", Password: "abc"}}},
		{
			name:    "user name and password",
			changes: []func(*template.Sources){remote, secret("a", "username", "u"), secret("a", "password", "p")},
			want:    []terraform.ModuleAuth{{Username: "u", Password: "p"}},
		},
		{
			name:    "a key of Flux",
			changes: []func(*template.Sources){remote, secret("a", "identity", "key"), secret("a", "known_hosts", "hosts")},
			want:    []terraform.ModuleAuth{{PrivateKey: "key", KnownHosts: "hosts"}},
		},
		{
			name:    "a key of Kubernetes' type ssh-auth",
			changes: []func(*template.Sources){remote, secret("a", "ssh-privatekey", "key"), secret("a", "known_hosts", "hosts")},
			want:    []terraform.ModuleAuth{{PrivateKey: "key", KnownHosts: "hosts"}},
		},
		{
			name:    "an OCI registry",
			changes: []func(*template.Sources){remote, secret("a", ".dockerconfigjson", docker)},
			want:    []terraform.ModuleAuth{{Registries: map[string]terraform.RegistryAuth{"https://a.example.com/v1/": {Auth: "YTpi"}}}},
		},
		{
			name:    "several hosts of an inline module",
			changes: []func(*template.Sources){fetchedWith(infrav1.ModuleSourceInline, `variable "name" {}`, "a", "b"), secret("a", "token", "abc"), secret("b", "token", "def")},
			want:    []terraform.ModuleAuth{{Username: "git", Password: "abc"}, {Username: "git", Password: "def"}},
		},
		{name: "no Secret", changes: []func(*template.Sources){remote}, err: "moduleCredentials[0]: Secret a does not exist"},
		{name: "another key", changes: []func(*template.Sources){remote, secret("a", "pass", "abc")}, err: "moduleCredentials[0]: Secret a has no key token, password, ssh-privatekey"},
		{name: "no host keys", changes: []func(*template.Sources){remote, secret("a", "identity", "key")}, err: "moduleCredentials[0]: Secret a has no key known_hosts"},
		{name: "two lines", changes: []func(*template.Sources){remote, secret("a", "token", "a\nb")}, err: "must be one line"},
		{name: "an OCI registry of another host", changes: []func(*template.Sources){remote, secret("a", ".dockerconfigjson", `{"auths":{"b.example.com":{"auth":"x"}}}`)}, err: ".dockerconfigjson in Secret a has no entry for a.example.com"},
		{name: "no JSON", changes: []func(*template.Sources){remote, secret("a", ".dockerconfigjson", "hunter2")}, err: "has no entry for a.example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := sources(tt.changes...)
			credentials := s.Template.Spec.Template.Spec.ForProvider.ModuleCredentials
			g.Expect(template.ReferencesOf(s).Secrets).To(HaveLen(len(credentials)))

			inputs, err := template.Resolve(s)

			if tt.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			for i := range tt.want {
				tt.want[i].Host = credentials[i].Host
			}
			g.Expect(inputs.Request.Module.Auth).To(Equal(tt.want))
			s.Template.Spec.Template.Spec.ForProvider.ModuleCredentials = nil
			without, err := template.Resolve(s)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(without.Hash).To(Equal(inputs.Hash), "rotated credentials start no run")
		})
	}
}
