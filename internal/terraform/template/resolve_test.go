package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

func TestResolve_returnsAValidRequest(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g,
		applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.RequiredOutputs = []string{"id"} }),
		templateSpec(func(w *infrav1.WorkspaceSpec) {
			w.ForProvider.InitArgs, w.ForProvider.PlanArgs = []infrav1.Argument{"-upgrade"}, []infrav1.Argument{"-parallelism=2"}
			w.ForProvider.ApplyArgs, w.ForProvider.DestroyArgs = []infrav1.Argument{"-parallelism=3"}, []infrav1.Argument{"-parallelism=4"}
		}),
	)
	request := inputs.Request
	g.Expect(request.Workspace).To(Equal(terraform.WorkspaceRef{Namespace: "n", Name: "hello", UID: "u"}))
	g.Expect(request.Module).To(Equal(terraform.Module{Source: terraform.SourceInline, Content: module, Format: terraform.FormatHCL}))
	g.Expect(request.Env).To(BeEmpty())
	g.Expect(request.Variables).To(Equal(map[string]json.RawMessage{"name": json.RawMessage(`"world"`)}))
	g.Expect(request.SecretVariables).To(Equal([]string{"token"}))
	g.Expect(request.Backend).To(Equal(terraform.Backend{Type: "kubernetes", Namespace: "n", SecretSuffix: "hello-ws"}))
	g.Expect(request.PluginCache).To(BeTrue())
	g.Expect(request.Outputs).To(ConsistOf("id"))
	g.Expect(request.InitArgs).To(ConsistOf("-upgrade"))
	g.Expect(request.PlanArgs).To(ConsistOf("-parallelism=2"))
	g.Expect(request.ApplyArgs).To(ConsistOf("-parallelism=3"))
	g.Expect(request.DestroyArgs).To(ConsistOf("-parallelism=4"))
	request.RunID, request.Operation = "hello-r1", terraform.OperationPlanAndApply
	g.Expect(request.Validate()).To(Succeed())
	g.Expect(inputs.ConnectionSecret).To(BeEmpty())
}

func TestResolve_overridesEarlierValues(t *testing.T) {
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    string
	}{
		{"a file", []func(*template.Sources){without("name"), configFile("one", `name = "file"`)}, "file"},
		{"a later file", []func(*template.Sources){without("name"), configFile("one", `name = "one"`), secretFile("two", `name = "two"`)}, "two"},
		{"the template overrides files", []func(*template.Sources){without("name"), vars("name", `"template"`), configFile("one", `name = "file"`)}, "template"},
		{"the workspace overrides the template", []func(*template.Sources){given("name", `"apply"`), vars("name", `"template"`), configFile("one", `name = "file"`)}, "apply"},
		{"the workspace overrides files", []func(*template.Sources){given("name", `"apply"`), secretFile("one", `name = "file"`)}, "apply"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(resolve(g, tt.changes...).Request.Variables).To(haveVariable("name", strconv.Quote(tt.want)))
		})
	}
}

// haveVariable matches the variables of a request with a value as JSON.
func haveVariable(name, value string) types.GomegaMatcher {
	return HaveKeyWithValue(name, WithTransform(func(text json.RawMessage) string { return string(text) }, MatchJSON(value)))
}

func TestResolve_passesValuesUnchanged(t *testing.T) {
	tests := []struct{ name, variable, value string }{
		{"a number", "size", `3`},
		{"a number as text", "size", `"3"`},
		{"text that looks like HCL", "name", `"${path.module}\"; rm -rf"`},
		{"text that looks like a number", "name", `"007"`},
		{"a map", "tags", `{"b":"2","a":"1"}`},
		{"a map with interpolation", "tags", `{"a":"${b}"}`},
		{"a map as text", "tags", `"{\"a\":\"1\"}"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(resolve(g, given(tt.variable, tt.value)).Request.Variables).To(haveVariable(tt.variable, tt.value))
		})
	}
}

func TestResolve_expandsPlaceholders(t *testing.T) {
	region := given("region", `"eu-west-1"`)
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		check   func(g Gomega, inputs *template.Inputs)
	}{
		{
			"in variables of the template",
			[]func(*template.Sources){without("name"), region, vars("name", `"${WORKSPACE_NAME}-${region}"`)},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Variables).To(haveVariable("name", `"hello-eu-west-1"`))
			},
		},
		{
			"in lists and maps",
			[]func(*template.Sources){region, vars("tags", `{"where":"${region}","literal":"$${x}"}`)},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Variables).To(haveVariable("tags", `{"where":"eu-west-1","literal":"${x}"}`))
			},
		},
		{
			"in variables files",
			[]func(*template.Sources){without("name"), region, configFile("f", `name = "${WORKSPACE_NAME}/${region}"`)},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Variables).To(haveVariable("name", `"hello/eu-west-1"`))
			},
		},
		{
			"in the environment",
			[]func(*template.Sources){region, env(infrav1.EnvVar{Name: "AWS_REGION", Value: new("${region}")})},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Env).To(HaveKeyWithValue("AWS_REGION", "eu-west-1"))
			},
		},
		{
			"in names of Secrets",
			[]func(*template.Sources){env(infrav1.EnvVar{Name: "A", SecretKeyReference: ref("${WORKSPACE_NAME}-${name}", "k")}), secret("hello-world", "k", "literal ${region}")},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Env).To(HaveKeyWithValue("A", "literal ${region}"), "placeholders in Secrets are not expanded")
			},
		},
		{
			"in the name of the connection Secret",
			[]func(*template.Sources){
				region,
				templateSpec(func(w *infrav1.WorkspaceSpec) {
					w.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${WORKSPACE_NAME}-${region}"}
				}),
			},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.ConnectionSecret).To(Equal("hello-eu-west-1"))
			},
		},
		{
			"in the backend",
			[]func(*template.Sources){region, backend("s3", `key = "${WORKSPACE_NAME}/${region}.tfstate"`)},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Backend).To(Equal(terraform.Backend{Type: "s3", HCL: `key = "hello/eu-west-1.tfstate"`}))
			},
		},
		{
			"with numbers",
			[]func(*template.Sources){given("n", `3`), vars("tags", `{"n":"${n}"}`)},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Variables).To(haveVariable("tags", `{"n":"3"}`))
			},
		},
		{
			"never inside the module",
			[]func(*template.Sources){text(module + `output "x" { value = "${var.name}" }`)},
			func(g Gomega, inputs *template.Inputs) {
				g.Expect(inputs.Request.Module.Content).To(ContainSubstring("${var.name}"))
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			inputs := resolve(g, tt.changes...)
			tt.check(g, inputs)
			g.Expect(inputs.Request.Variables).NotTo(HaveKey("region"), "a value that only placeholders use is not passed to the module")
		})
	}
}

func TestResolve_passesDeclaredValuesThatPlaceholdersUse(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, vars("tags", `{"n":"${name}"}`))
	g.Expect(inputs.Request.Variables).To(And(haveVariable("name", `"world"`), haveVariable("tags", `{"n":"world"}`)))
}

// rejection is a test of the Problem for invalid sources.
type rejection struct {
	name     string
	changes  []func(*template.Sources)
	reason   string
	messages []string
}

func (r rejection) run(t *testing.T) {
	g := NewWithT(t)
	_, err := template.Resolve(sources(r.changes...))
	var problem *template.Problem
	g.Expect(errors.As(err, &problem)).To(BeTrue(), "%v", err)
	g.Expect(problem.Reason).To(Equal(r.reason))
	for _, text := range r.messages {
		g.Expect(problem.Message).To(ContainSubstring(text))
	}
	g.Expect(err.Error()).NotTo(ContainSubstring("s3cr3t"))
}

func TestResolve_describesInvalidSources(t *testing.T) {
	change := func(c ...func(*template.Sources)) []func(*template.Sources) { return c }
	for _, r := range []rejection{
		{"a required variable has no value", change(without("name")), infrav1.MissingVariableReason, []string{`"name"`}},
		{"a value for an undeclared variable", change(given("sise", `3`)), infrav1.UnknownVariableReason, []string{`"sise"`, `did you mean "size"?`}},
		{"an invalid variable name", change(given("no name", `3`)), infrav1.UnknownVariableReason, []string{`"no name"`}},
		{"a value of the wrong type", change(given("size", `"s3cr3t"`)), infrav1.InvalidVariableReason, []string{`"size"`, "number"}},
		{"a value that is not JSON", change(given("size", `{s3cr3t`)), infrav1.InvalidVariableReason, []string{`"size"`}},
		{"a template value that is not JSON", change(vars("size", `{s3cr3t`)), infrav1.InvalidVariableReason, []string{`"size"`}},
		{"an undeclared output", change(applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.RequiredOutputs = []string{"ids"} })), infrav1.UnknownOutputReason, []string{`"ids"`, `did you mean "id"?`}},
		{"an invalid module", change(text("variable {")), infrav1.ModuleInvalidReason, []string{"main.tf:1"}},
		{"several problems", change(without("name"), given("sise", `3`), given("taggs", `3`)), infrav1.UnknownVariableReason, []string{`"sise"`, `"taggs"`, `"name"`}},

		{"a placeholder in a variable", change(vars("size", `"${sise}"`)), infrav1.UnresolvedPlaceholderReason, []string{"vars[0] (size)", "${sise} has no value", "${WORKSPACE_UID}, ${name}", "spec.variables"}},
		{"a placeholder deep in a variable", change(vars("tags", `{"a":"${x}"}`)), infrav1.UnresolvedPlaceholderReason, []string{"vars[0] (tags)", "${x}"}},
		{"a malformed placeholder", change(vars("tags", `{"a":"${x"}`)), infrav1.UnresolvedPlaceholderReason, []string{"vars[0] (tags)", "no closing brace"}},
		{"a placeholder in the environment", change(env(infrav1.EnvVar{Name: "AWS_REGION", Value: new("${region}")})), infrav1.UnresolvedPlaceholderReason, []string{"env AWS_REGION", "${region}"}},
		{"a placeholder in the name of a Secret", change(env(infrav1.EnvVar{Name: "A", SecretKeyReference: ref("${x}", "k")})), infrav1.UnresolvedPlaceholderReason, []string{"env A", "${x}"}},
		{"a placeholder in the name of the connection Secret", change(applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${x}"}
		})), infrav1.UnresolvedPlaceholderReason, []string{"writeConnectionSecretToRef.name", "${x}"}},
		{"a placeholder in the backend", change(backend("s3", `key = "${x}"`)), infrav1.UnresolvedPlaceholderReason, []string{"backend.configuration", "${x}"}},

		{"an invalid file", change(configFile("f", "size = \n[")), infrav1.InvalidVarFileReason, []string{"varFiles[0]", "f/f.tfvars:1"}},
		{"a placeholder in a file", change(configFile("f", `name = "${x}"`)), infrav1.InvalidVarFileReason, []string{"varFiles[0]", "f/f.tfvars:1", `"x"`}},
		{"a secret without quotes", change(configFile("ok", ""), secretFile("f", "token = s3cr3t")), infrav1.InvalidVarFileReason, []string{"varFiles[1]", "f/f.tfvars:1"}},
		{"an unterminated secret", change(secretFile("f", "token = \"s3cr3t")), infrav1.InvalidVarFileReason, []string{"varFiles[0]", "f/f.tfvars:1"}},
		{"a file with an undeclared variable", change(configFile("f", `sise = 1`)), infrav1.UnknownVariableReason, []string{`"sise"`, `"size"`}},
	} {
		t.Run(r.name, r.run)
	}
}

func TestResolve_rejectsUnsafeValuesInABackend(t *testing.T) {
	for _, unsafe := range []string{
		`x"`, "x\n}", "x\\", "${file(\"/etc/passwd\")}", "%{if true}", "x#", "x\x00", "{", "[", "`", "'", "x;", "grüße", "\t", "*", "x\r",
	} {
		t.Run(fmt.Sprintf("%q", unsafe), rejection{
			"",
			[]func(*template.Sources){backend("s3", `key = "${key}"`), func(s *template.Sources) { s.Apply.Spec.Variables["key"] = infrav1.StringValue(unsafe) }},
			infrav1.InvalidVariableReason,
			[]string{"backend.configuration", "${key}"},
		}.run)
	}
	for _, plain := range []string{"", "a", "eu-west-1", "team/env_1/x.tfstate", "arn:aws:iam::123:role/x", "me@example.com", "a=b, c+d"} {
		g := NewWithT(t)
		inputs := resolve(g, backend("s3", `key = "${key}"`), func(s *template.Sources) { s.Apply.Spec.Variables["key"] = infrav1.StringValue(plain) })
		g.Expect(inputs.Request.Backend.HCL).To(Equal(`key = "` + plain + `"`))
	}
	t.Run("a list", rejection{
		"",
		[]func(*template.Sources){backend("s3", `key = "${key}"`), given("key", `["a"]`)},
		infrav1.InvalidVariableReason,
		[]string{"${key}"},
	}.run)
}

func TestResolve_reportsMissingKeys(t *testing.T) {
	passphrase := config(func(c *infrav1.WorkspaceProviderConfigSpec) {
		c.StateEncryption = &infrav1.StateEncryption{PassphraseSecretRef: ref("key", "passphrase")}
	})
	fileWithoutContent := func(s *template.Sources) {
		configFile("f", "")(s)
		delete(s.ConfigMaps, "f")
	}
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    template.MissingKeyError
		message string
	}{
		{
			"a ConfigMap",
			[]func(*template.Sources){fileWithoutContent},
			template.MissingKeyError{Field: "varFiles[0]", Name: "f", Key: "f.tfvars"},
			"varFiles[0]: ConfigMap f does not exist",
		},
		{
			"a key of a ConfigMap",
			[]func(*template.Sources){fileWithoutContent, configMap("f", "other", "")},
			template.MissingKeyError{Field: "varFiles[0]", Name: "f", Key: "f.tfvars", ObjectExists: true},
			"varFiles[0]: ConfigMap f has no key f.tfvars",
		},
		{
			"a Secret",
			[]func(*template.Sources){env(infrav1.EnvVar{Name: "A", SecretKeyReference: ref("s-${WORKSPACE_NAME}", "k")})},
			template.MissingKeyError{Field: "env A", Secret: true, Name: "s-hello", Key: "k"},
			"env A: Secret s-hello does not exist",
		},
		{
			"a ConfigMap instead of a Secret",
			[]func(*template.Sources){env(infrav1.EnvVar{Name: "A", SecretKeyReference: ref("s", "k")}), configMap("s", "k", "v")},
			template.MissingKeyError{Field: "env A", Secret: true, Name: "s", Key: "k"},
			"env A: Secret s does not exist",
		},
		{
			"a key of the credentials",
			[]func(*template.Sources){credential("A", "x"), func(s *template.Sources) { delete(s.Secrets["credentials"], "A") }},
			template.MissingKeyError{Field: "credentials[0]", Secret: true, Name: "credentials", Key: "A", ObjectExists: true},
			"credentials[0]: Secret credentials has no key A",
		},
		{
			"the passphrase",
			[]func(*template.Sources){passphrase},
			template.MissingKeyError{Field: "stateEncryption.passphraseSecretRef", Secret: true, Name: "key", Key: "passphrase"},
			"stateEncryption.passphraseSecretRef: Secret key does not exist",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := template.Resolve(sources(tt.changes...))
			var missing *template.MissingKeyError
			g.Expect(errors.As(err, &missing)).To(BeTrue(), "%v", err)
			g.Expect(*missing).To(Equal(tt.want))
			g.Expect(err).To(MatchError(tt.message))
		})
	}
}

func TestResolve_listsSecretVariables(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g,
		env(infrav1.EnvVar{Name: "PLAIN", Value: new("x")}), env(infrav1.EnvVar{Name: "MAP", ConfigMapKeyReference: ref("m", "k")}), configMap("m", "k", "v"),
		env(infrav1.EnvVar{Name: "SECRET", SecretKeyReference: ref("s", "k")}), secret("s", "k", "v"),
		credential("AWS_SECRET_ACCESS_KEY", "v"),
		secretFile("f", "size = 12345678\ntags = {}"), vars("tags", `{"a":"b"}`),
	)
	g.Expect(inputs.Request.SecretEnv).To(ConsistOf("SECRET", "AWS_SECRET_ACCESS_KEY"))
	g.Expect(inputs.Request.SecretVariables).To(ConsistOf("token", "size"),
		"values from Secrets and sensitive variables; tags was overridden by a plain value")
	g.Expect(inputs.Request.Env).To(HaveKeyWithValue("MAP", "v"))

	ofRemote := resolve(g, remote, secretFile("f", "size = 12345678"), env(infrav1.EnvVar{Name: "SECRET", SecretKeyReference: ref("s", "k")}), secret("s", "k", "v"))
	g.Expect(ofRemote.Request.SecretEnv).To(ConsistOf("SECRET"))
	g.Expect(ofRemote.Request.SecretVariables).To(ConsistOf("size"))
}

func TestResolve_leavesRemoteModulesToTheRun(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, remote, given("region", `"eu"`), given("undeclared", `[1, {"a": null}]`), vars("tags", `{"r":"${region}"}`), configFile("f", `size = 2`))
	request := inputs.Request
	g.Expect(request.Module).To(Equal(terraform.Module{
		Source: terraform.SourceRemote, Address: "git::https://example.com/m.git?ref=v1", Entrypoint: "vpc", Format: terraform.FormatHCL,
	}))
	g.Expect(request.Env).To(BeEmpty())
	got := map[string]string{}
	for name, value := range request.Variables {
		got[name] = string(value)
	}
	g.Expect(got).To(Equal(map[string]string{
		"name": `"world"`, "region": `"eu"`, "undeclared": `[1,{"a":null}]`, "tags": `{"r":"eu"}`, "size": "2",
	}))
	g.Expect(request.Fillers).To(Equal([]string{"region"}), "the module need not declare them")
}

func TestResolve_credentials(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, credential("AWS_ACCESS_KEY_ID", "id"), secret("credentials", "file", "[default]\n"),
		config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.Configuration = `provider "aws" {}`
			c.PluginCache = infrav1.PluginCacheDisabled
			c.Credentials = append(c.Credentials, infrav1.ProviderCredential{Filename: "aws.ini", SecretRef: *ref("credentials", "file")})
		}))
	g.Expect(inputs.Request.Env).To(HaveKeyWithValue("AWS_ACCESS_KEY_ID", "id"))
	g.Expect(inputs.Request.Files).To(HaveKeyWithValue("aws.ini", []byte("[default]\n")))
	g.Expect(inputs.Request.Files).To(HaveKeyWithValue("capt_provider_config.tf", []byte(`provider "aws" {}`)))
	g.Expect(inputs.Request.PluginCache).To(BeFalse())
}

func TestResolve_encryption(t *testing.T) {
	g := NewWithT(t)
	encryptedWith := func(passphrase string) []func(*template.Sources) {
		return []func(*template.Sources){secret("key", "p", passphrase), config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.StateEncryption = &infrav1.StateEncryption{PassphraseSecretRef: ref("key", "p")}
		})}
	}
	g.Expect(resolve(g).Request.Encryption).To(BeEmpty())
	text := resolve(g, encryptedWith(`correct "horse" ${battery} %{ if }`+"\n")...).Request.Encryption
	g.Expect(text).To(ContainSubstring(`passphrase = "correct \"horse\" $${battery} %%{ if }\n"`), "the passphrase is escaped")
	g.Expect(text).To(And(ContainSubstring("keys = key_provider.pbkdf2.capt"), MatchRegexp(`iterations += 210000\n`)))
	g.Expect(strings.Count(text, "enforced = true")).To(Equal(2), "for states and plans")

	configured := resolve(g, secret("key", "c", "the whole configuration"), config(func(c *infrav1.WorkspaceProviderConfigSpec) {
		c.StateEncryption = &infrav1.StateEncryption{ConfigurationSecretRef: ref("key", "c")}
	}))
	g.Expect(configured.Request.Encryption).To(Equal("the whole configuration"))

	t.Run("too short", rejection{"", encryptedWith("s3cr3t"), infrav1.InvalidVariableReason, []string{"stateEncryption.passphraseSecretRef", "16"}}.run)
	t.Run("random bytes", rejection{"", encryptedWith(strings.Repeat("\xff", 32)), infrav1.InvalidVariableReason, []string{"stateEncryption.passphraseSecretRef", "UTF-8", "base64"}}.run)
}

// The name of the Secret decides what reads it: a workspace must not write the state or
// the run of another one, or the certificate authority of a future cluster.
func TestResolve_refusesReservedNamesOfConnectionSecrets(t *testing.T) {
	named := func(name string) []func(*template.Sources) {
		return []func(*template.Sources){given("x", `"capt-run-other"`), text(module + `variable "x" {}`), applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: name}
		})}
	}
	for _, name := range []string{"capt-run-other-r5", "tfstate-default-hello-ws", "capt-snapshot-a-0", "capt-seal-key", "victim-kubeconfig", "victim-ca", "${x}-r5", "tfstate-default-${WORKSPACE_NAME}-ws"} {
		_, err := template.Resolve(sources(named(name)...))
		problem, ok := errors.AsType[*template.Problem](err)
		NewWithT(t).Expect(ok).To(BeTrue(), "%s: %v", name, err)
		NewWithT(t).Expect(problem.Reason).To(Equal(infrav1.ReservedNameReason), name)
	}

	g := NewWithT(t)
	has := func(name string) func(*template.Sources) {
		return func(s *template.Sources) { s.Apply.Status.ConnectionSecretName = name }
	}
	_, err := template.Resolve(sources(append(named("vpc-proxy"), has("vpc-proxy"))...))
	g.Expect(err).NotTo(HaveOccurred(), "a Secret that the workspace has already")
	_, err = template.Resolve(sources(append(named("capt-run-x-r1"), has("capt-run-x-r1"))...))
	g.Expect(err).To(HaveOccurred())
}

// With the Secrets of CAPT a module would read the states of other workspaces, and act as the
// account of another run.
func TestResolve_readsNoSecretsOfCAPT(t *testing.T) {
	const token = "capt-token-victim-r7"
	reference := &infrav1.KeyReference{Name: "capt-token-${name}-r7", Key: "token"}
	has := func(s *template.Sources) {
		s.Apply.Spec.Variables = map[string]infrav1.Value{"name": infrav1.StringValue("victim")}
		s.Secrets = map[string]map[string][]byte{token: {"token": []byte("s3cr3t")}}
	}
	parameters := func(change func(*infrav1.ModuleParameters)) func(*template.Sources) {
		return templateSpec(func(w *infrav1.WorkspaceSpec) { change(&w.ForProvider) })
	}
	for name, names := range map[string]func(*template.Sources){
		"env": parameters(func(p *infrav1.ModuleParameters) {
			p.Env = []infrav1.EnvVar{{Name: "A", SecretKeyReference: reference}}
		}),
		"vars": parameters(func(p *infrav1.ModuleParameters) {
			p.Vars = []infrav1.Variable{{Key: "name", SecretKeyReference: reference}}
		}),
		"varFiles": parameters(func(p *infrav1.ModuleParameters) {
			p.VarFiles = []infrav1.VarFile{{Source: infrav1.VarFileSourceSecretKey, SecretKeyReference: reference}}
		}),
		"moduleCredentials": parameters(func(p *infrav1.ModuleParameters) {
			p.Source, p.Module = infrav1.ModuleSourceRemote, "git::https://git.example.com/a.git"
			p.ModuleCredentials = []infrav1.ModuleCredential{{Host: "git.example.com", SecretRef: infrav1.LocalReference{Name: token}}}
		}),
		"credentials": func(s *template.Sources) {
			s.ProviderConfig = &infrav1.WorkspaceProviderConfig{}
			s.ProviderConfig.Spec.Credentials = []infrav1.ProviderCredential{{Env: "A", SecretRef: *reference}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := sources(has, names)
			g.Expect(template.ReferencesOf(s).Secrets).To(BeEmpty(), "it is not even read")
			_, err := template.Resolve(s)
			problem, ok := errors.AsType[*template.Problem](err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(problem.Reason).To(Equal(infrav1.NotAllowedReason))
			g.Expect(problem.Error()).To(ContainSubstring(token))
		})
	}
	for _, name := range []string{"victim-kubeconfig", "capt-credentials"} {
		s := sources(parameters(func(p *infrav1.ModuleParameters) {
			p.Env = []infrav1.EnvVar{{Name: "A", SecretKeyReference: &infrav1.KeyReference{Name: name, Key: "value"}}}
		}))
		s.Secrets = map[string]map[string][]byte{name: {"value": []byte("v")}}
		_, err := template.Resolve(s)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), name)
	}
}

// Every kubeconfig of Cluster API has the same key, so the variables of a template with a
// placeholder in the name of a Secret would choose the cluster.
func TestResolve_readsOnlyTheKubeconfigOfItsCluster(t *testing.T) {
	of := func(cluster, kind string) func(*template.Sources) {
		return func(s *template.Sources) {
			s.Apply.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
			if kind != "" {
				s.Apply.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: "x", Controller: new(true)}}
			}
		}
	}
	read := func(secret, name string) func(*template.Sources) {
		return func(s *template.Sources) {
			templateSpec(func(w *infrav1.WorkspaceSpec) {
				w.ForProvider.Env = []infrav1.EnvVar{{Name: "A", SecretKeyReference: &infrav1.KeyReference{Name: secret, Key: "value"}}}
			})(s)
			s.Apply.Spec.Variables = map[string]infrav1.Value{"name": infrav1.StringValue(name)}
			s.Secrets = map[string]map[string][]byte{"prod-kubeconfig": {"value": []byte("s3cr3t")}, "prod-data": {"value": []byte("data")}}
		}
	}
	for name, tc := range map[string]struct {
		sources []func(*template.Sources)
		refused bool
	}{
		"another cluster":               {[]func(*template.Sources){of("dev", "CAPTMachine"), read("${name}-kubeconfig", "prod")}, true},
		"a whole name":                  {[]func(*template.Sources){of("dev", "CAPTMachine"), read("${name}", "prod-kubeconfig")}, true},
		"a workspace of a user":         {[]func(*template.Sources){of("prod", ""), read("${name}-kubeconfig", "prod")}, true},
		"its own cluster":               {[]func(*template.Sources){of("prod", "CAPTMachine"), read("${name}-kubeconfig", "prod")}, false},
		"another Secret":                {[]func(*template.Sources){read("${name}-data", "prod")}, false},
		"what the template itself says": {[]func(*template.Sources){read("prod-kubeconfig", "prod")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := template.Resolve(sources(tc.sources...))
			if !tc.refused {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			problem, ok := errors.AsType[*template.Problem](err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(problem.Reason).To(Equal(infrav1.NotAllowedReason))
		})
	}
}

func TestResolve_connectionSecretOfTheWorkspaceOverridesTheTemplate(t *testing.T) {
	g := NewWithT(t)
	ofTemplate := templateSpec(func(w *infrav1.WorkspaceSpec) {
		w.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${WORKSPACE_NAME}-template"}
	})
	ofApply := applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
		a.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${name}-apply"}
	})
	g.Expect(resolve(g, ofTemplate).ConnectionSecret).To(Equal("hello-template"))
	g.Expect(resolve(g, ofTemplate, ofApply).ConnectionSecret).To(Equal("world-apply"))
}

func TestResolve_doesNotModifyItsSources(t *testing.T) {
	g := NewWithT(t)
	s := sources(given("region", `"eu"`), vars("tags", `{"a":"${region}"}`), secretFile("f", "size = 2"), credential("A", "x"), backend("s3", `key = "${region}"`))
	apply, templ, config := s.Apply.DeepCopy(), s.Template.DeepCopy(), s.ProviderConfig.DeepCopy()
	_, err := template.Resolve(s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Apply).To(Equal(apply))
	g.Expect(s.Template).To(Equal(templ))
	g.Expect(s.ProviderConfig).To(Equal(config))
}

func TestReferencesOf_returnsTheObjectsThatResolveReads(t *testing.T) {
	g := NewWithT(t)
	s := sources(
		configFile("config-${WORKSPACE_NAME}", ""), secretFile("secret-file", ""), configFile("config-${WORKSPACE_NAME}", ""),
		env(infrav1.EnvVar{Name: "A", SecretKeyReference: ref("secret-env", "k")}), env(infrav1.EnvVar{Name: "B", ConfigMapKeyReference: ref("config-env", "k")}),
		env(infrav1.EnvVar{Name: "C", Value: new("plain")}), env(infrav1.EnvVar{Name: "D", SecretKeyReference: ref("${unknown}", "k")}),
		credential("AWS_ACCESS_KEY_ID", "x"), credential("AWS_SECRET_ACCESS_KEY", "x"),
		config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.StateEncryption = &infrav1.StateEncryption{PassphraseSecretRef: ref("passphrase", "p")}
		}),
	)
	g.Expect(template.ReferencesOf(s)).To(Equal(template.References{
		Secrets:    []string{"credentials", "passphrase", "secret-env", "secret-file"},
		ConfigMaps: []string{"config-env", "config-hello"},
	}))
	g.Expect(template.ReferencesOf(sources())).To(Equal(template.References{}))
}

func TestExpandName_keepsNamesWithUnresolvedPlaceholders(t *testing.T) {
	apply := sources().Apply
	for name, want := range map[string]string{
		"plain": "plain", "${WORKSPACE_NAME}-vpc": "hello-vpc", "${name}": "world", "${other}": "${other}", "${": "${",
	} {
		NewWithT(t).Expect(template.ExpandName(apply, name)).To(Equal(want))
	}
}

func TestResolve_variablesFromKeys(t *testing.T) {
	g := NewWithT(t)
	fromKey := func(name string, v infrav1.Variable) func(*template.Sources) {
		return func(s *template.Sources) {
			v.Key = infrav1.VariableName(name)
			s.Template.Spec.Template.Spec.ForProvider.Vars = append(s.Template.Spec.Template.Spec.ForProvider.Vars, v)
		}
	}
	all := []func(*template.Sources){
		fromKey("token", infrav1.Variable{SecretKeyReference: ref("${WORKSPACE_NAME}-keys", "token")}),
		fromKey("size", infrav1.Variable{ConfigMapKeyReference: ref("sizes", "small")}),
		configMap("sizes", "small", "3"),
	}
	_, err := template.Resolve(sources(all...))
	g.Expect(err).To(MatchError(ContainSubstring("vars[0] (token): Secret hello-keys does not exist")))
	g.Expect(template.ReferencesOf(sources(all...))).To(Equal(template.References{Secrets: []string{"hello-keys"}, ConfigMaps: []string{"sizes"}}))

	inputs, err := template.Resolve(sources(append(all, secret("hello-keys", "token", "s3cret ${name}"))...))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inputs.Request.Variables).To(haveVariable("token", `"s3cret ${name}"`), "placeholders in Secrets are not expanded")
	g.Expect(inputs.Request.Variables).To(haveVariable("size", `"3"`))
	g.Expect(inputs.Request.SecretVariables).To(ConsistOf("token"))

	_, err = template.Resolve(sources(append(all, secret("hello-keys", "token", "\xff"))...))
	g.Expect(err).To(MatchError(ContainSubstring("vars[0] (token): the value is not valid UTF-8")))
}

// A workspace of another namespace must not choose which Secrets and which state its host
// reads.
func TestResolve_guestsChooseNoNames(t *testing.T) {
	hosted := func(s *template.Sources) {
		s.Apply.Annotations = map[string]string{infrav1.HostedForAnnotation: "team/guest"}
	}
	from := func(name string) func(*template.Sources) {
		return func(s *template.Sources) {
			s.Template.Spec.Template.Spec.ForProvider.Env = []infrav1.EnvVar{{Name: "A", SecretKeyReference: ref(name, "k")}}
			for _, secret := range []string{"world", "team", "guest", "n", "hello"} {
				put(&s.Secrets, secret, "k", secret)
			}
		}
	}
	backend := func(key string) func(*template.Sources) {
		return func(s *template.Sources) {
			s.ProviderConfig = &infrav1.WorkspaceProviderConfig{}
			s.ProviderConfig.Spec.Backend = &infrav1.BackendConfig{Type: "s3", Configuration: key}
		}
	}
	for name, c := range map[string]struct {
		change func(*template.Sources)
		want   string
	}{
		"Secret of a variable":     {from("${name}"), "${name} is not allowed here"},
		"Secret of the workspace":  {from("${WORKSPACE_NAME}"), "${WORKSPACE_NAME} is not allowed here"},
		"Secret of the namespace":  {from("${WORKSPACE_NAMESPACE}"), ""},
		"backend of a variable":    {backend(`key = "${name}"`), "${name} is not allowed here"},
		"backend of the workspace": {backend(`key = "${WORKSPACE_NAMESPACE}/${WORKSPACE_NAME}"`), ""},
		"value of the workspace":   {vars("name", `"${WORKSPACE_NAME}"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := template.Resolve(sources(c.change))
			g.Expect(err).NotTo(HaveOccurred(), "without a guest")
			found, err := template.Resolve(sources(hosted, c.change))
			if c.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.want)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			if backend := found.Request.Backend.HCL; backend != "" {
				g.Expect(backend).To(Equal(`key = "team/guest"`))
			}
		})
	}
}

// The author of a lent template decides what its borrowers may set.
func TestResolve_borrowersSetOnlyWhatTheTemplateLends(t *testing.T) {
	lending := func(variables ...string) func(*template.Sources) {
		return func(s *template.Sources) { s.Template.Spec.Lending = &infrav1.TemplateLending{Variables: variables} }
	}
	guest := func(s *template.Sources) {
		s.Apply.Annotations = map[string]string{infrav1.HostedForAnnotation: "team/guest"}
	}
	borrower := func(s *template.Sources) { s.Apply.Namespace = "team" }
	size := given("size", "3")
	const denied = "does not let workspaces of other namespaces set size"
	for name, c := range map[string]struct {
		changes []func(*template.Sources)
		want    string
	}{
		"its own namespace":              {changes(size, lending()), ""},
		"no list":                        {changes(size, guest), ""},
		"a guest":                        {changes(size, guest, lending("name")), denied},
		"a guest that may":               {changes(size, guest, lending("name", "size")), ""},
		"a workspace that runs itself":   {changes(size, borrower, lending("name")), denied},
		"an empty list":                  {changes(size, without("name"), vars("name", `"x"`), guest, lending()), denied},
		"nothing is set":                 {changes(without("name"), vars("name", `"x"`), guest, lending()), ""},
		"a placeholder that it must set": {changes(given("image", `"evil"`), vars("token", `"${image}"`), guest, lending("name")), "set image"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := template.Resolve(sources(c.changes...))
			findings := template.Check(sources(c.changes...))
			if c.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(findings).To(BeEmpty())
				return
			}
			g.Expect(err).To(MatchError(And(HavePrefix(infrav1.NotAllowedReason), ContainSubstring(c.want))))
			g.Expect(findings).To(ContainElement(HaveField("Reason", infrav1.NotAllowedReason)))
		})
	}
}
