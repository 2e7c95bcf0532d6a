package adopt_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/adopt"
)

// crossplane returns a Workspace with a forProvider.
func crossplane(t *testing.T, forProvider string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte("apiVersion: tf.upbound.io/v1beta1\nkind: Workspace\nmetadata: {name: net}\nspec:\n  providerConfigRef: {name: aws}\n  forProvider: "+forProvider+"\n"), &obj.Object)).To(Succeed())
	return obj
}

func TestFromCrossplane_acceptsEveryField(t *testing.T) {
	g := NewWithT(t)
	obj := crossplane(t, `{source: Inline, inlineFormat: HCL, entrypoint: "", module: "variable \"a\" {}", enableTerraformCLILogging: true, remotePullPolicy: Always,
    vars: [{key: a, value: "${x}"}], varmap: {b: [1, "${y}"]},
    varFiles: [{source: SecretKey, format: JSON, secretKeyRef: {namespace: other, name: s, key: k}}],
    env: [{name: A, value: ""}, {name: B, value: "", configMapKeyRef: {namespace: team, name: c, key: k}}],
    initArgs: [-upgrade=true], planArgs: [-parallelism=2], applyArgs: [-parallelism=2], destroyArgs: [-parallelism=2]}`)
	c, err := adopt.FromCrossplane(obj, "team")
	g.Expect(err).NotTo(HaveOccurred())
	empty := ""
	list, err := infrav1.NewValue([]any{1, "$${y}"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Parameters).To(Equal(infrav1.ModuleParameters{
		Source: infrav1.ModuleSourceInline, InlineFormat: infrav1.FileFormatHCL, Module: `variable "a" {}`,
		Vars: []infrav1.Variable{{Key: "a", Value: infrav1.StringValue("$${x}")}, {Key: "b", Value: list}},
		VarFiles: []infrav1.VarFile{{
			Source: infrav1.VarFileSourceSecretKey, Format: infrav1.FileFormatJSON, SecretKeyReference: &infrav1.KeyReference{Name: "s", Key: "k"},
		}},
		Env:      []infrav1.EnvVar{{Name: "A", Value: &empty}, {Name: "B", ConfigMapKeyReference: &infrav1.KeyReference{Name: "c", Key: "k"}}},
		InitArgs: []infrav1.Argument{"-upgrade=true"}, PlanArgs: []infrav1.Argument{"-parallelism=2"},
		ApplyArgs: []infrav1.Argument{"-parallelism=2"}, DestroyArgs: []infrav1.Argument{"-parallelism=2"},
	}))
	g.Expect(c.TerraformWorkspace).To(Equal("net"))
	g.Expect(c.Notes).To(ConsistOf(
		"Secret s of namespace other must be copied into namespace team",
		"Write $${ for ${ in the variables files, unless it is a placeholder of CAPT",
		"Credentials, configuration and pluginCache of ProviderConfig aws belong into a WorkspaceProviderConfig: name it with --provider-config",
	))
}

func TestFromCrossplane_readsSources(t *testing.T) {
	g := NewWithT(t)
	obj := crossplane(t, `{source: Flux, module: "GitRepository::flux-system/infra", entrypoint: vpc}`)
	obj.SetAnnotations(map[string]string{"crossplane.io/external-name": "net-x7"})
	c, err := adopt.FromCrossplane(obj, "team")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.TerraformWorkspace).To(Equal("net-x7"), "Terraform's workspace has the external name")
	g.Expect(c.Parameters.SourceRef.String()).To(Equal("GitRepository/infra"))
	g.Expect(c.Parameters.Module).To(BeEmpty())
	g.Expect(c.Notes).To(ContainElement("GitRepository infra must be in namespace team, that of the workspace"))

	c, err = adopt.FromCrossplane(crossplane(t, `{source: Remote, module: "git::https://example.com/x.git", remotePullPolicy: Always}`), "team")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Notes).To(ContainElement(ContainSubstring("The module was fetched all the time")))

	for forProvider, want := range map[string]string{
		`{source: Inline, module: x, newField: 1}`:                                `unknown field "newField"`,
		`{source: Inline, module: x, vars: [{key: a, value: b}], varmap: {a: c}}`: "variable a is in vars and in varmap: remove one of them",
		`{source: Flux, module: infra}`:                                           "the module of a Flux source must have the form KIND::NAMESPACE/NAME",
		`null`:                                                                    "Workspace net has no spec.forProvider",
	} {
		_, err := adopt.FromCrossplane(crossplane(t, forProvider), "team")
		g.Expect(err).To(MatchError(ContainSubstring(want)), forProvider)
	}
}
