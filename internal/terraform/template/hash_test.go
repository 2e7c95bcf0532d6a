package template_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

// rich returns sources that use all fields.
func rich(changes ...func(*template.Sources)) template.Sources {
	base := []func(*template.Sources){
		vars("tags", `{"a":"1","b":"2","c":"3"}`), configFile("f", `size = 2`),
		env(infrav1.EnvVar{Name: "A", Value: new("x")}), env(infrav1.EnvVar{Name: "S", SecretKeyReference: ref("s", "k")}), secret("s", "k", "v"),
		credential("AWS_ACCESS_KEY_ID", "id"), backend("s3", `key = "${WORKSPACE_NAME}"`),
		secret("key", "p", "correct horse battery staple"),
		config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.Configuration = `provider "aws" {}`
			c.StateEncryption = &infrav1.StateEncryption{PassphraseSecretRef: ref("key", "p")}
		}),
	}
	return sources(append(base, changes...)...)
}

func hashOf(g Gomega, s template.Sources) string {
	inputs, err := template.Resolve(s)
	g.Expect(err).NotTo(HaveOccurred())
	return inputs.Hash
}

func TestHash_isDeterministic(t *testing.T) {
	g := NewWithT(t)
	first := hashOf(g, rich())
	g.Expect(first).To(MatchRegexp("^[0-9a-f]{32}$"))
	for range 20 {
		g.Expect(hashOf(g, rich())).To(Equal(first), "the order of maps does not matter")
	}
}

func TestHash_ignoresWhatARunDoesNotApply(t *testing.T) {
	g := NewWithT(t)
	before := hashOf(g, rich())
	for name, change := range map[string]func(*template.Sources){
		"rotated credentials":  credentialsOf("other"),
		"a rotated passphrase": secret("key", "p", "another horse battery staple"),
		"another uid":          func(s *template.Sources) { s.Apply.UID = "other" },
		"another namespace":    func(s *template.Sources) { s.Apply.Namespace = "other" },
		"labels":               func(s *template.Sources) { s.Apply.Labels = map[string]string{"a": "b"} },
		"approval":             applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.Approval = infrav1.ApprovalManual }),
		"an approved plan":     applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.ApprovedPlan = "plan-1" }),
		"retries":              templateSpec(func(w *infrav1.WorkspaceSpec) { w.Retry = &infrav1.RetryPolicy{Limit: ptr.To[int32](1)} }),
		"drift":                templateSpec(func(w *infrav1.WorkspaceSpec) { w.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftRepair} }),
		"a timeout":            applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.Timeout = &metav1.Duration{Duration: time.Minute} }),
		"protection":           templateSpec(func(w *infrav1.WorkspaceSpec) { w.Protect = []infrav1.ProtectPattern{"aws_vpc"} }),
		"the connection Secret": applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) {
			a.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "x"}
		}),
		"a required output": applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.RequiredOutputs = []string{"id"} }),
		"the plugin cache":  config(func(c *infrav1.WorkspaceProviderConfigSpec) { c.PluginCache = infrav1.PluginCacheDisabled }),
		"the executor": config(func(c *infrav1.WorkspaceProviderConfigSpec) {
			c.Runner = &infrav1.RunnerConfig{Executor: infrav1.ExecutorJob}
		}),
		"format of a value": vars("tags", "{ \"c\": \"3\",\n\"b\": \"2\", \"a\": \"1\" }"),
		"an unused key":     secret("s", "other", "x"),
	} {
		g.Expect(hashOf(g, rich(change))).To(Equal(before), name)
	}
}

func TestHash_ignoresTheNamespace(t *testing.T) {
	g := NewWithT(t)
	moved := sources(func(s *template.Sources) { s.Apply.Namespace, s.Apply.UID = "elsewhere", "other" })
	g.Expect(hashOf(g, moved)).To(Equal(hashOf(g, sources())), "the state moves with the workspace")
}

func credentialsOf(value string) func(*template.Sources) {
	return secret("credentials", "AWS_ACCESS_KEY_ID", value)
}

func TestHash_dependsOnWhatARunApplies(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]string{hashOf(g, rich()): "no change"}
	for name, change := range map[string]func(*template.Sources){
		"the module":        text(module + "# more"),
		"a variable":        given("name", `"moon"`),
		"another variable":  given("token", `"x"`),
		"a template value":  vars("tags", `{"a":"1"}`),
		"a file":            configMap("f", "f.tfvars", "size = 3"),
		"the environment":   env(infrav1.EnvVar{Name: "B", Value: new("x")}),
		"a secret in it":    secret("s", "k", "w"),
		"the backend":       backend("s3", `key = "elsewhere"`),
		"the backend type":  backend("gcs", `key = "${WORKSPACE_NAME}"`),
		"provider blocks":   config(func(c *infrav1.WorkspaceProviderConfigSpec) { c.Configuration = `provider "aws" { region = "eu" }` }),
		"no encryption":     config(func(c *infrav1.WorkspaceProviderConfigSpec) { c.StateEncryption = nil }),
		"init arguments":    templateSpec(func(w *infrav1.WorkspaceSpec) { w.ForProvider.InitArgs = []infrav1.Argument{"-upgrade"} }),
		"plan arguments":    templateSpec(func(w *infrav1.WorkspaceSpec) { w.ForProvider.PlanArgs = []infrav1.Argument{"-target=a.b"} }),
		"apply arguments":   templateSpec(func(w *infrav1.WorkspaceSpec) { w.ForProvider.ApplyArgs = []infrav1.Argument{"-target=a.b"} }),
		"the workspace":     func(s *template.Sources) { s.Apply.Name = "other" },
		"a remote module":   remote,
		"another version":   func(s *template.Sources) { remote(s); s.Template.Spec.Template.Spec.ForProvider.Module += ".1" },
		"another directory": func(s *template.Sources) { remote(s); s.Template.Spec.Template.Spec.ForProvider.Entrypoint = "eks" },
		"a remote value":    func(s *template.Sources) { remote(s); given("name", `"moon"`)(s) },
	} {
		hash := hashOf(g, rich(change))
		other, found := seen[hash]
		g.Expect(found).To(BeFalse(), "%s has the same hash as %s", name, other)
		seen[hash] = name
	}
}

func TestStateSuffix_isValidAndDoesNotEndInANumber(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]string{}
	for _, name := range []string{"a", "hello-1", "a.b", "a-b", "a..b", fmt.Sprintf("%0200d", 1), fmt.Sprintf("%0200d", 2), fmt.Sprintf("%0199d.", 1) + "x"} {
		suffix := template.StateSuffix(name)
		g.Expect(suffix).To(MatchRegexp("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
		g.Expect(suffix).NotTo(MatchRegexp("-[0-9]+$"))
		g.Expect(len(suffix)).To(BeNumerically("<=", 63))
		g.Expect(seen).NotTo(HaveKey(suffix), "%s and %s", name, seen[suffix])
		seen[suffix] = name

		// A user may choose the shortened name of another workspace.
		choice := strings.TrimSuffix(suffix, "-ws")
		g.Expect(choice == name || template.StateSuffix(choice) != suffix).To(BeTrue(), "%s and %s", name, choice)
	}
}
