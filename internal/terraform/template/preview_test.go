package template_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

func TestPreviewOf_showsTheInputsOfARun(t *testing.T) {
	g := NewWithT(t)
	preview, findings := template.PreviewOf(sources(
		given("region", `"eu"`), vars("tags", `{"r":"${region}"}`), given("token", `"s3cr3t"`), configVariable("size"),
		configFile("known", ""), unknownFile, secretFile("secrets", "s3cr3t"),
		env(infrav1.EnvVar{Name: "REGION", Value: new("${region}")}), env(infrav1.EnvVar{Name: "KEY", SecretKeyReference: ref("${WORKSPACE_NAME}-keys", "k")}),
		env(infrav1.EnvVar{Name: "MAP", ConfigMapKeyReference: ref("settings", "k")}),
		credential("AWS_ACCESS_KEY_ID", "s3cr3t"), backend("s3", "key = \"${WORKSPACE_NAME}\"\n"),
		config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.Configuration = `provider "aws" {}`
			c.Credentials = append(c.Credentials, infrav1.ProviderCredential{Filename: "aws.ini", SecretRef: *ref("credentials", "file")})
		}),
		applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.RequiredOutputs, a.Approval, a.Timeout = []string{"id"}, infrav1.ApprovalManual, duration(2*time.Minute)
			a.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${WORKSPACE_NAME}-connection"}
			a.Protect = []infrav1.ProtectPattern{"aws_vpc"}
		}),
	))

	g.Expect(findings).To(BeEmpty())
	g.Expect(preview).To(Equal(&template.Preview{
		Files: map[string]string{"main.tf": module, "capt_provider_config.tf": `provider "aws" {}`, "aws.ini": "(key file of Secret credentials)"},
		Variables: map[string]json.RawMessage{
			"name": json.RawMessage(`"world"`), "tags": json.RawMessage(`{"r":"eu"}`), "token": json.RawMessage(`"(sensitive)"`),
			"size": json.RawMessage(`"(key k of ConfigMap settings)"`),
		},
		VariableFiles: []string{"(key f.tfvars of ConfigMap unknown)", "(key f.tfvars of Secret secrets)"},
		Env: map[string]string{
			"REGION": "eu", "KEY": "(key k of Secret hello-keys)", "MAP": "(key k of ConfigMap settings)",
			"AWS_ACCESS_KEY_ID": "(key AWS_ACCESS_KEY_ID of Secret credentials)",
		},
		Backend: "s3 {\nkey = \"hello\"\n}", ConnectionSecret: "hello-connection", Approval: "Manual", Timeout: "2m0s",
		Protect: []string{"aws_vpc"}, RequiredOutputs: []string{"id"},
	}))
}

func TestPreviewOf_showsTheOriginOfSecretVariables(t *testing.T) {
	g := NewWithT(t)
	preview, findings := template.PreviewOf(sources(secretVariable("token"), secret("hello-keys", "k", "s3cr3t")))

	g.Expect(findings).To(BeEmpty())
	g.Expect(preview.Variables).To(HaveKeyWithValue("token", json.RawMessage(`"(key k of Secret hello-keys)"`)))
	g.Expect(preview.Backend).To(Equal("Secret tfstate-default-hello-ws"))
}

func TestPreviewOf_showsModules(t *testing.T) {
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    template.Preview
	}{
		{name: "remote", changes: changes(remote), want: template.Preview{Module: "git::https://example.com/m.git?ref=v1", Entrypoint: "vpc", Files: map[string]string{}}},
		{name: "JSON", changes: changes(text("{}"), inJSON, without("name")), want: template.Preview{Files: map[string]string{"main.tf.json": "{}"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			preview, findings := template.PreviewOf(sources(tt.changes...))
			g.Expect(findings).To(BeEmpty())
			g.Expect(template.Preview{Module: preview.Module, Entrypoint: preview.Entrypoint, Files: preview.Files}).To(Equal(tt.want))
		})
	}
}

func TestPreviewOf_returnsFindings(t *testing.T) {
	g := NewWithT(t)
	preview, findings := template.PreviewOf(sources(without("name"), vars("tags", `{"a":"${x}"}`), backend("s3", `key = "${x}"`)))

	g.Expect(findings).To(ConsistOf(
		HaveField("Reason", infrav1.MissingVariableReason),
		HaveField("Reason", infrav1.UnresolvedPlaceholderReason), HaveField("Reason", infrav1.UnresolvedPlaceholderReason),
	))
	g.Expect(preview.Backend).To(Equal("s3"), "an unresolved configuration is not shown")
}
