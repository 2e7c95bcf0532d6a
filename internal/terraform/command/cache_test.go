package command

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

func TestMarker_fits(t *testing.T) {
	for name, tc := range map[string]struct {
		marker, key  string
		file         string
		lock, wanted string
		want         bool
	}{
		"the same":                    {"k", "k", "main.tf", "l", "l", true},
		"no lock file wanted":         {"k", "k", "main.tf", "l", "", true},
		"no lock file at all":         {"k", "k", "main.tf", "", "", true},
		"another key":                 {"k", "j", "main.tf", "l", "l", false},
		"no marker":                   {"", "", "main.tf", "l", "l", false},
		"the module is missing":       {"k", "k", "README.md", "l", "l", false},
		"another lock file":           {"k", "k", "main.tf", "l", "m", false},
		"a lock file that is missing": {"k", "k", "main.tf", "", "m", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			root := t.TempDir()
			g.Expect(os.WriteFile(filepath.Join(root, tc.file), nil, 0o600)).To(Succeed())
			if tc.lock != "" {
				g.Expect(os.WriteFile(filepath.Join(root, dependencyLock), []byte(tc.lock), 0o600)).To(Succeed())
			}
			g.Expect(marker{Key: tc.marker}.fits(tc.key, root, &terraform.Request{LockFile: []byte(tc.wanted)})).To(Equal(tc.want))
		})
	}
}

func TestReadMarker_doesNotTrustInvalidContent(t *testing.T) {
	for content, want := range map[string]marker{
		`{"key":"k","root":"module/a"}`:  {Key: "k", Root: "module/a"},
		`{"key":"k","root":"../../etc"}`: {Root: "module"},
		`{"key":"k","root":"/etc"}`:      {Root: "module"},
		`{"key":`:                        {Root: "module"},
	} {
		g := NewWithT(t)
		dir := t.TempDir()
		g.Expect(os.WriteFile(filepath.Join(dir, markerFile), []byte(content), 0o600)).To(Succeed())
		g.Expect(readMarker(dir)).To(Equal(want), content)
	}
	NewWithT(t).Expect(readMarker(t.TempDir())).To(Equal(marker{Root: "module"}))
}

func TestKey_coversTheInputsOfAnInit(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tofu")
	NewWithT(t).Expect(os.WriteFile(program, []byte("1"), 0o600)).To(Succeed())
	key := func(change func(*Workdir, *terraform.Request)) string {
		w := &Workdir{Tool: &binary.Tool{Path: program}, Dir: "/work", PluginCache: "/plugins"}
		request := kubernetesRequest("# module")
		request.Files = map[string][]byte{"provider.tf": []byte("1"), "sub/main.tf": []byte("1"), "credentials": []byte("1")}
		change(w, request)
		key, err := w.key(request)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return key
	}
	base := key(func(*Workdir, *terraform.Request) {})
	for name, tc := range map[string]struct {
		change func(*Workdir, *terraform.Request)
		equal  bool
	}{
		"variables":                   {func(_ *Workdir, r *terraform.Request) { r.Variables = values(map[string]string{"a": "b"}) }, true},
		"credentials":                 {func(_ *Workdir, r *terraform.Request) { r.Files["credentials"] = []byte("2") }, true},
		"another Kubernetes state":    {func(_ *Workdir, r *terraform.Request) { r.Backend.SecretSuffix = "b" }, true},
		"another directory":           {func(w *Workdir, _ *terraform.Request) { w.Dir = "/other" }, true},
		"refetching":                  {func(_ *Workdir, r *terraform.Request) { r.Module.Refetch = true }, true},
		"the module":                  {func(_ *Workdir, r *terraform.Request) { r.Module.Content = "# other" }, false},
		"provider configuration":      {func(_ *Workdir, r *terraform.Request) { r.Files["provider.tf"] = []byte("2") }, false},
		"configuration of a module":   {func(_ *Workdir, r *terraform.Request) { r.Files["sub/main.tf"] = []byte("2") }, false},
		"another file":                {func(_ *Workdir, r *terraform.Request) { r.Files["more"] = nil }, false},
		"init arguments":              {func(_ *Workdir, r *terraform.Request) { r.InitArgs = []string{"-upgrade"} }, false},
		"the type of the backend":     {func(_ *Workdir, r *terraform.Request) { r.Backend = terraform.Backend{} }, false},
		"a backend with an init":      {func(_ *Workdir, r *terraform.Request) { r.Backend = terraform.Backend{Type: "s3", HCL: "x = 1"} }, false},
		"the plugin cache":            {func(_ *Workdir, r *terraform.Request) { r.PluginCache = true }, false},
		"the request's CLI config":    {func(_ *Workdir, r *terraform.Request) { r.Env = map[string]string{CLIConfigEnv: "x"} }, false},
		"the operator's CLI config":   {func(w *Workdir, _ *terraform.Request) { w.CLIConfig = program }, false},
		"a missing operator's config": {func(w *Workdir, _ *terraform.Request) { w.CLIConfig = "/does/not/exist" }, true},
	} {
		NewWithT(t).Expect(key(tc.change) == base).To(Equal(tc.equal), name)
	}
	s3 := func(hcl string) string {
		return key(func(_ *Workdir, r *terraform.Request) { r.Backend = terraform.Backend{Type: "s3", HCL: hcl} })
	}
	NewWithT(t).Expect(s3("x = 1")).NotTo(Equal(s3("x = 2")), "an init depends on the configuration of the backend")
}

func TestPrune_removesTheLeastRecentlyUsedTemplates(t *testing.T) {
	g := NewWithT(t)
	w := &Workdir{Cache: t.TempDir()}
	now := time.Now()
	for i := range maxTemplates + 3 {
		dir := w.templateDir(fmt.Sprint(i))
		g.Expect(marker{Key: "k", Root: "module"}.write(dir)).To(Succeed())
		used := now.Add(-time.Duration(i) * time.Minute)
		g.Expect(os.Chtimes(filepath.Join(dir, markerFile), used, used)).To(Succeed())
	}
	inUse := fmt.Sprint(maxTemplates + 1)
	lock, err := host.TryLockFile(w.templateLock(inUse))
	g.Expect(err).NotTo(HaveOccurred())
	defer lock.Release()

	g.Expect(w.prune()).To(Succeed())

	for i := range maxTemplates + 3 {
		name := fmt.Sprint(i)
		g.Expect(exists(w.templateDir(name))).To(Equal(i < maxTemplates || name == inUse), name)
	}
}
