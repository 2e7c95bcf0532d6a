package template_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

const module = `
variable "name"  { type = string }
variable "size" {
  type    = number
  default = 1
}
variable "tags" {
  type    = map(string)
  default = {}
}
variable "token" {
  type      = string
  default   = ""
  sensitive = true
}
output "id" { value = var.name }
`

// sources returns valid sources with changes.
func sources(changes ...func(*template.Sources)) template.Sources {
	s := template.Sources{
		Apply: &infrav1.WorkspaceTemplateApply{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "hello", UID: "u"},
			Spec:       infrav1.WorkspaceTemplateApplySpec{Variables: map[string]infrav1.Value{"name": infrav1.StringValue("world")}},
		},
		Template: &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "t"}},
	}
	s.Template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func text(module string) func(*template.Sources) {
	return func(s *template.Sources) { s.Template.Spec.Template.Spec.ForProvider.Module = module }
}

func remote(s *template.Sources) {
	p := &s.Template.Spec.Template.Spec.ForProvider
	p.Source, p.Module, p.Entrypoint = infrav1.ModuleSourceRemote, "git::https://example.com/m.git?ref=v1", "vpc"
}

// value returns a value from JSON.
func value(json string) infrav1.Value { return infrav1.Value{Raw: []byte(json)} }

// given sets a variable of the workspace from JSON.
func given(name, json string) func(*template.Sources) {
	return func(s *template.Sources) { s.Apply.Spec.Variables[name] = value(json) }
}

func without(name string) func(*template.Sources) {
	return func(s *template.Sources) { delete(s.Apply.Spec.Variables, name) }
}

// vars adds a variable of the template from JSON.
func vars(name, json string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.Vars = append(p.Vars, infrav1.Variable{Key: infrav1.VariableName(name), Value: value(json)})
	}
}

func ref(name, key string) *infrav1.KeyReference { return &infrav1.KeyReference{Name: name, Key: key} }

func secret(name, key, content string) func(*template.Sources) {
	return func(s *template.Sources) { put(&s.Secrets, name, key, content) }
}

func configMap(name, key, content string) func(*template.Sources) {
	return func(s *template.Sources) { put(&s.ConfigMaps, name, key, content) }
}

func put(objects *map[string]map[string][]byte, name, key, content string) {
	if *objects == nil {
		*objects = map[string]map[string][]byte{}
	}
	if (*objects)[name] == nil {
		(*objects)[name] = map[string][]byte{}
	}
	(*objects)[name][key] = []byte(content)
}

// configFile adds a variables file in a ConfigMap.
func configFile(name, content string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.VarFiles = append(p.VarFiles, infrav1.VarFile{Source: infrav1.VarFileSourceConfigMapKey, ConfigMapKeyReference: ref(name, "f.tfvars")})
		configMap(name, "f.tfvars", content)(s)
	}
}

// secretFile adds a variables file in a Secret.
func secretFile(name, content string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.VarFiles = append(p.VarFiles, infrav1.VarFile{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: ref(name, "f.tfvars")})
		secret(name, "f.tfvars", content)(s)
	}
}

func env(e infrav1.EnvVar) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.Env = append(p.Env, e)
	}
}

func config(change func(*infrav1.WorkspaceProviderConfigSpec)) func(*template.Sources) {
	return func(s *template.Sources) {
		if s.ProviderConfig == nil {
			s.ProviderConfig = &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
		}
		change(&s.ProviderConfig.Spec)
	}
}

func backend(kind, configuration string) func(*template.Sources) {
	return config(func(c *infrav1.WorkspaceProviderConfigSpec) {
		c.Backend = &infrav1.BackendConfig{Type: kind, Configuration: configuration}
	})
}

func credential(name, value string) func(*template.Sources) {
	return func(s *template.Sources) {
		config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.Credentials = append(c.Credentials, infrav1.ProviderCredential{Env: name, SecretRef: *ref("credentials", name)})
		})(s)
		secret("credentials", name, value)(s)
	}
}

func templateSpec(change func(*infrav1.WorkspaceSpec)) func(*template.Sources) {
	return func(s *template.Sources) { change(&s.Template.Spec.Template.Spec) }
}

func applySpec(change func(*infrav1.WorkspaceTemplateApplySpec)) func(*template.Sources) {
	return func(s *template.Sources) { change(&s.Apply.Spec) }
}

func resolve(g Gomega, changes ...func(*template.Sources)) *template.Inputs {
	inputs, err := template.Resolve(sources(changes...))
	g.Expect(err).NotTo(HaveOccurred())
	return inputs
}

func fluxSource(name string) func(*template.Sources) {
	return templateSpec(func(w *infrav1.WorkspaceSpec) {
		w.ForProvider.Source, w.ForProvider.Module, w.ForProvider.Entrypoint = infrav1.ModuleSourceFlux, "", "vpc"
		w.ForProvider.SourceRef = &infrav1.FluxSourceReference{Kind: "GitRepository", Name: name}
	})
}

func artifact(digest, revision string) func(*template.Sources) {
	return func(s *template.Sources) { s.Artifact = &terraform.Artifact{Digest: digest, Revision: revision} }
}

func TestResolve_takesTheArtifactOfAFluxSource(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, fluxSource("infra"), artifact("sha256:1", "main@sha1:1"), vars("size", "3"))
	g.Expect(inputs.Request.Module).To(Equal(terraform.Module{
		Source: terraform.SourceFlux, Entrypoint: "vpc",
		Artifact: &terraform.Artifact{Source: "GitRepository/infra", Digest: "sha256:1", Revision: "main@sha1:1"},
	}))
	g.Expect(inputs.Request.Variables).To(HaveKey("size"), "the runner knows the types")
	g.Expect(inputs.Request.Module.Origin().Artifact).To(Equal(&terraform.Artifact{Source: "GitRepository/infra"}))

	g.Expect(resolve(g, fluxSource("infra")).Request.Module.Artifact).To(Equal(&terraform.Artifact{Source: "GitRepository/infra"}), "the source is deleted")
}

func TestHash_dependsOnTheArtifactOnly(t *testing.T) {
	g := NewWithT(t)
	hash := func(name, digest, revision string) string {
		return hashOf(g, sources(fluxSource(name), artifact(digest, revision)))
	}
	before := hash("infra", "sha256:1", "main@sha1:1")
	g.Expect(hash("infra", "sha256:2", "main@sha1:1")).NotTo(Equal(before))
	g.Expect(hash("infra", "sha256:1", "main@sha1:2")).To(Equal(before), "a commit without a change of the files")
	g.Expect(hash("copy", "sha256:1", "main@sha1:1")).To(Equal(before), "another source with the same files")
}
