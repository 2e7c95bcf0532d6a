package command

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestMatchName(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern, name string
		want          bool
	}{
		"equal":           {"AWS_REGION", "AWS_REGION", true},
		"another name":    {"AWS_REGION", "AWS_REGIONS", false},
		"a prefix":        {"AWS_*", "AWS_REGION", true},
		"the prefix only": {"AWS_*", "AWS_", true},
		"another prefix":  {"AWS_*", "AZURE_REGION", false},
		"everything":      {"*", "AWS_REGION", true},
		"a star within":   {"AWS_*_ID", "AWS_KEY_ID", false},
	} {
		NewWithT(t).Expect(MatchName(tc.pattern, tc.name)).To(Equal(tc.want), name)
	}
}

func TestEnvironment_precedence(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("LANG", "of-the-engine")
	t.Setenv("TZ", "of-the-engine")
	t.Setenv("HOME", "of-the-engine")
	t.Setenv("AWS_ROLE_ARN", "of-the-engine")
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "TF_LOG", "TF_WORKSPACE"} {
		t.Setenv(name, "hidden")
	}
	w := &Workdir{Dir: "/work", PluginCache: "/plugins", Inherit: []string{"AWS_ROLE_*"}}
	request := &terraform.Request{
		Env: map[string]string{"TZ": "of-the-request", "NO_COLOR": "of-the-request", "A": "b"}, Encryption: "e",
	}
	env := w.environment(request, "/work/module", "/work/cli.tfrc")
	g.Expect(env).To(ContainElements(
		"LANG=of-the-engine", "AWS_ROLE_ARN=of-the-engine", "TZ=of-the-request", "NO_COLOR=1", "A=b", "TF_ENCRYPTION=e",
		"PWD=/work/module", "TF_CLI_CONFIG_FILE=/work/cli.tfrc", "GIT_TERMINAL_PROMPT=0", "HOME=/work/run/home",
	))
	g.Expect(env).NotTo(ContainElement(HaveSuffix("=hidden")))
	g.Expect(env).NotTo(ContainElement(HavePrefix("TF_PLUGIN_CACHE")))

	request.PluginCache = true
	g.Expect(w.environment(request, "", "")).To(ContainElements("TF_PLUGIN_CACHE_DIR=/plugins", "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=1"))
}

func TestCLIConfig_precedence(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	w := &Workdir{Dir: t.TempDir()}
	g.Expect(os.MkdirAll(w.runDir(), 0o700)).To(Succeed())
	request := &terraform.Request{Files: map[string][]byte{}, Env: map[string]string{}}
	expect := func(want string) {
		t.Helper()
		found, err := w.cliConfig(request, root)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(Equal(want))
	}
	file := func(dir, name string) string {
		path := filepath.Join(dir, name)
		g.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		return path
	}

	expect(filepath.Join(w.runDir(), "empty.tfrc"))
	w.CLIConfig = "/does/not/exist"
	expect(filepath.Join(w.runDir(), "empty.tfrc"))
	w.CLIConfig = file(t.TempDir(), "operator.tfrc")
	expect(w.CLIConfig)
	request.Env[CLIConfigEnv] = "request.tfrc"
	expect(w.CLIConfig)
	file(root, "request.tfrc")
	expect(filepath.Join(root, "request.tfrc"))
	request.Files[".terraformrc"] = nil
	expect(filepath.Join(root, "request.tfrc"))
	file(root, ".terraformrc")
	expect(filepath.Join(root, ".terraformrc"))
}

func TestCollectorEnv(t *testing.T) {
	g := NewWithT(t)
	g.Expect(collectorEnv(0)).To(Equal(map[string]string{"GOGC": "200"}))
	g.Expect(collectorEnv(1 << 30)).To(Equal(map[string]string{"GOGC": "200", "GOMEMLIMIT": "536870912"}))

	w, _ := workdir(t, tofu(t))
	request := inline("")
	request.Env = map[string]string{"GOGC": "50"}
	g.Expect(w.environment(request, t.TempDir(), "")).To(ContainElement("GOGC=50"), "the author of the template decides")
}
