package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
)

// serving returns a working directory in which the provider is installed, a request for
// a module that uses it, and a function that returns how often the provider was started.
func serving(t *testing.T, script string) (*Workdir, *syncBuffer, *terraform.Request, func() int) {
	t.Helper()
	g := NewWithT(t)
	real, err := filepath.EvalSymlinks(filepath.Join(commandtest.Parts(t), "terraform-provider-local"))
	g.Expect(err).NotTo(HaveOccurred(), "run make parts")
	starts := filepath.Join(t.TempDir(), "starts")
	installed := t.TempDir()
	installProvider(t, installed, openTofuHost, fmt.Sprintf("#!/bin/sh\necho >> %s\n%s\nexec %s \"$@\"\n", starts, script, real))
	config := filepath.Join(t.TempDir(), "tofurc")
	g.Expect(os.WriteFile(config, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", installed), 0o600)).To(Succeed())
	w, log := workdir(t, tofu(t))
	w.CLIConfig = config
	return w, log, inline(localModule), func() int {
		content, _ := os.ReadFile(starts)
		return strings.Count(string(content), "\n")
	}
}

// planAndApply applies the module with providers that serve both commands.
func planAndApply(t *testing.T, w *Workdir, request *terraform.Request, between func(*Session)) *ApplyResult {
	t.Helper()
	g := NewWithT(t)
	session, err := Prepare(t.Context(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	session.ServeProviders(t.Context())
	defer session.StopProviders()
	_, err = session.Plan(t.Context(), PlanOptions{Out: w.PlanFile()})
	g.Expect(err).NotTo(HaveOccurred())
	if between != nil {
		between(session)
	}
	result, err := session.Apply(t.Context(), w.PlanFile(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	return result
}

func TestServeProviders_startsEachProviderOnce(t *testing.T) {
	g := NewWithT(t)
	w, log, request, starts := serving(t, "")
	result := planAndApply(t, w, request, func(session *Session) {
		shown, err := session.ShowPlan(t.Context(), w.PlanFile())
		g.Expect(err).NotTo(HaveOccurred())
		shown.Close()
	})
	g.Expect(result.Added).To(Equal(1))
	g.Expect(starts()).To(Equal(1), log.String())
	g.Expect(processesIn(w.Dir, isProvider)).To(BeEmpty(), "it is stopped")
	g.Expect(log.String()).NotTo(ContainSubstring("starts the providers"))
}

func TestServeProviders_leavesToTheTool(t *testing.T) {
	for name, change := range map[string]func(w *Workdir, r *terraform.Request){
		"two configurations": func(_ *Workdir, r *terraform.Request) {
			r.Module.Content += "provider \"local\" {}\nprovider \"local\" {\n  alias = \"other\"\n}\n"
		},
		"a log that the user wants to see": func(_ *Workdir, r *terraform.Request) { r.Env = map[string]string{"TF_LOG_PROVIDER": "error"} },
		"a provider that the user replaces": func(_ *Workdir, r *terraform.Request) {
			r.Env = map[string]string{reattachEnv: "{}"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, _, request, starts := serving(t, "")
			change(w, request)
			session, err := Prepare(t.Context(), w, request)
			g.Expect(err).NotTo(HaveOccurred())
			session.ServeProviders(t.Context())
			defer session.StopProviders()
			g.Expect(starts()).To(BeZero())
			_, err = session.Plan(t.Context(), PlanOptions{Out: w.PlanFile()})
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// The tool refuses such a provider as well.
func TestServeProviders_comparesChecksums(t *testing.T) {
	g := NewWithT(t)
	w, _, request, starts := serving(t, "")
	session, err := Prepare(t.Context(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	program := filepath.Join(session.Root, dataDir, "providers", openTofuHost, localProvider, localVersion, platform, localProgram)
	content, err := os.ReadFile(program)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(program, append(content, "# Changed.\n"...), 0o755)).To(Succeed())
	session.ServeProviders(t.Context())
	defer session.StopProviders()
	g.Expect(starts()).To(BeZero())
}

func TestServeProviders_survivesTheEndOfAProvider(t *testing.T) {
	g := NewWithT(t)
	w, log, request, starts := serving(t, "")
	result := planAndApply(t, w, request, func(session *Session) {
		process := session.servers.processes[0]
		g.Expect(process.cmd.Process.Kill()).To(Succeed())
		<-process.ended
	})
	g.Expect(result.Added).To(Equal(1))
	g.Expect(starts()).To(BeNumerically(">", 1))
	g.Expect(log.String()).To(ContainSubstring("Provider registry.opentofu.org/hashicorp/local ended"))
}

// Served is the condition of a script that it was not started by the tool, which passes a
// certificate.
const served = `[ -z "$PLUGIN_CLIENT_CERT" ]`

func TestServeProviders_leavesProvidersThatCannotServeToTheTool(t *testing.T) {
	for name, script := range map[string]string{
		"it ends":                    "if " + served + "; then echo 'cannot serve' >&2; exit 1; fi",
		"it speaks another protocol": "if " + served + "; then echo '2|5|tcp|x|netrpc|'; sleep 60; fi",
		"it accepts no connection":   "if " + served + "; then echo '1|5|unix|nowhere|grpc|'; sleep 60; fi",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, log, request, _ := serving(t, script)
			g.Expect(planAndApply(t, w, request, nil).Added).To(Equal(1))
			g.Expect(log.String()).To(ContainSubstring("The tool starts the providers"))
			g.Expect(processesIn(w.Dir, isProvider)).To(BeEmpty())
		})
	}
}

// An engine that was killed leaves providers behind, because its tool may still use them.
func TestAwaitEnd_killsProvidersOfAnEarlierEngine(t *testing.T) {
	g := NewWithT(t)
	w, _, request, _ := serving(t, "")
	session, err := Prepare(t.Context(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	session.ServeProviders(t.Context())
	defer session.StopProviders()
	process := session.servers.processes[0]
	g.Expect(processesIn(w.Dir, isProvider)).To(ConsistOf(process.cmd.Process.Pid))
	g.Expect(w.Tool.AwaitEnd(t.Context(), w.Dir, nil, time.Minute)).To(Succeed())
	g.Eventually(process.ended, time.Minute).Should(BeClosed())
	g.Expect(process.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()).To(Equal(syscall.SIGKILL))
}

func TestHasSingleConfigurations(t *testing.T) {
	child := func(files ...string) map[string]string {
		all := map[string]string{
			"main.tf":                         "module \"a\" {\n  source = \"./child\"\n}\n",
			".terraform/modules/modules.json": `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"a","Source":"./child","Dir":"child"}]}`,
		}
		for i := 0; i < len(files); i += 2 {
			all[files[i]] = files[i+1]
		}
		return all
	}
	const (
		aws   = "provider \"aws\" {\n  region = \"eu-central-1\"\n}\n"
		alias = "provider \"aws\" {\n  alias = \"us\"\n}\n"
	)
	tests := map[string]struct {
		files map[string]string
		want  bool
	}{
		"no provider":                         {map[string]string{"main.tf": ""}, true},
		"one configuration":                   {map[string]string{"main.tf": aws}, true},
		"an alias":                            {map[string]string{"main.tf": aws + alias}, false},
		"only an alias":                       {map[string]string{"main.tf": alias}, false},
		"a configuration for each":            {map[string]string{"main.tf": "provider \"aws\" {\n  for_each = var.regions\n}\n"}, false},
		"an alias in JSON":                    {map[string]string{"main.tf": aws, "p.tf.json": `{"provider":{"aws":[{"alias":"us"}]}}`}, false},
		"an alias in an override":             {map[string]string{"main.tf": aws, "a_override.tf": alias}, false},
		"an alias in a file of OpenTofu":      {map[string]string{"main.tf": aws, "p.tofu": alias}, false},
		"another local name":                  {map[string]string{"main.tf": "terraform {\n  required_providers {\n    amazon = { source = \"hashicorp/aws\" }\n  }\n}\n"}, false},
		"its own local name":                  {map[string]string{"main.tf": "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n}\n" + aws}, true},
		"a file that cannot be parsed":        {map[string]string{"main.tf": aws, "b.tf": "{"}, false},
		"a configuration of the root module":  {child("p.tf", aws, "child/main.tf", ""), true},
		"a configuration of the child module": {child("child/main.tf", aws), true},
		"configurations of both":              {child("p.tf", aws, "child/main.tf", aws), false},
		"an alias of the child module":        {child("child/main.tf", alias), false},
		"a child module that is missing":      {child(), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			root := t.TempDir()
			for path, content := range tt.files {
				path = filepath.Join(root, path)
				g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
				g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
			}
			g.Expect(hasSingleConfigurations(root)).To(Equal(tt.want))
		})
	}
}
