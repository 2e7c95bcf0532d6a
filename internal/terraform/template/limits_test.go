package template_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

func TestLimits_refuseWhatIsNotListed(t *testing.T) {
	limits := template.Limits{
		Images: []string{"ghcr.io/appthrust/*", "example.com/runner:v1"}, ServiceAccounts: []string{"terraform-*"},
		ModuleHosts: []string{"github.com", "*.example.com", "registry"}, DefaultServiceAccount: "default-runner",
	}
	remote := func(address string) terraform.Module {
		return terraform.Module{Source: terraform.SourceRemote, Address: address}
	}
	inline := terraform.Module{Source: terraform.SourceInline}
	for _, tt := range []struct {
		module         terraform.Module
		image, account string
		want           bool
	}{
		{inline, "", "", true},
		{inline, "ghcr.io/appthrust/capt-runner:v1", "", true},
		{inline, "ghcr.io/appthrust/deep/er:v1@sha256:0", "", true},
		{inline, "example.com/runner:v1", "", true},
		{inline, "example.com/runner:v2", "", false},
		{inline, "evil.example/ghcr.io/appthrust/x", "", false},
		{inline, "", "terraform-aws", true},
		{inline, "", "default-runner", true},
		{inline, "", "cluster-admin", false},
		{remote("git::https://github.com/a/b.git?ref=v1"), "", "", true},
		{remote("github.com/a/b"), "", "", true},
		{remote("git@github.com:a/b.git"), "", "", true},
		{remote("git::ssh://git@git.example.com/a.git"), "", "", true},
		{remote("terraform-aws-modules/vpc/aws"), "", "", true},
		{remote("app.example.com/a/b/c"), "", "", true},
		{remote("app.terraform.io/a/b/c"), "", "", false},
		{remote("git::https://github.com@evil.net/a.git"), "", "", false},
		{remote("git::https://github.com.evil.net/a.git"), "", "", false},
		{remote("https://169.254.169.254/latest"), "", "", false},
		{remote("s3::https://s3.amazonaws.com/b/x.zip"), "", "", false},
		{remote("https://evil.net/m.zip?x=a::https://github.com/y"), "", "", false},
		{remote("git::https://evil.net/m.git?x=a::https://github.com/y"), "", "", false},
		{remote("../x"), "", "", false},
		{remote("git::file:///etc"), "", "", false},
		{terraform.Module{Source: terraform.SourceFlux}, "", "", false},
	} {
		g := NewWithT(t)
		err := limits.Check(tt.module, tt.image, tt.account)
		g.Expect(err == nil).To(Equal(tt.want), "%+v: %v", tt, err)
		if problem, ok := errors.AsType[*template.Problem](err); ok {
			g.Expect(problem.Reason).To(Equal(infrav1.NotAllowedReason))
		}
		g.Expect(template.Limits{ModuleHosts: []string{"flux"}}.Check(terraform.Module{Source: terraform.SourceFlux}, "", "")).To(Succeed())
		g.Expect(template.Limits{}.Check(tt.module, tt.image, tt.account)).To(Succeed(), "without limits")
	}
}
