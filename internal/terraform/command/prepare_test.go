package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

const echo = `
variable "v" { default = "from the module" }
resource "terraform_data" "a" { input = var.v }
output "v" { value = terraform_data.a.output }
`

func TestPrepare_initialisesOnlyAfterChanges(t *testing.T) {
	ctx := context.Background()
	w, _ := workdir(t, tofu(t))
	w.Cache = t.TempDir()
	other, _ := workdir(t, tofu(t))
	other.Cache = w.Cache
	base := func() *terraform.Request {
		request := inline(echo)
		request.Files = map[string][]byte{"provider.tf": []byte("# a provider"), "credentials.json": []byte("s3cr3t")}
		request.Variables = values(map[string]string{"v": "s3cr3t"})
		return request
	}
	steps := []struct {
		name    string
		w       *Workdir
		change  func(*terraform.Request)
		initRan bool
	}{
		{"new workspace", w, func(*terraform.Request) {}, true},
		{"same request", w, func(*terraform.Request) {}, false},
		{"another variable", w, func(r *terraform.Request) { r.Variables = values(map[string]string{"v": "x"}) }, false},
		{"other credentials", w, func(r *terraform.Request) { r.Files["credentials.json"] = []byte("other") }, false},
		{"another workspace", other, func(*terraform.Request) {}, false},
		{"other provider configuration", w, func(r *terraform.Request) { r.Files["provider.tf"] = []byte("# another") }, true},
		{"another module", w, func(r *terraform.Request) { r.Module.Content += "\noutput \"w\" { value = 1 }\n" }, true},
		{"other arguments", w, func(r *terraform.Request) { r.InitArgs = []string{"-upgrade"} }, true},
		{"the first request again", w, func(*terraform.Request) {}, false},
		{"another backend", w, func(r *terraform.Request) {
			r.Backend = terraform.Backend{Type: "local", HCL: `path = "` + filepath.Join(w.Dir, "x.tfstate") + `"`}
		}, true},
		{"another dependency lock file", w, func(r *terraform.Request) { r.LockFile = []byte("# locked\n") }, true},
	}
	for _, step := range steps {
		g := NewWithT(t)
		request := base()
		step.change(request)
		session, err := Prepare(ctx, step.w, request)
		g.Expect(err).NotTo(HaveOccurred(), step.name)
		g.Expect(session.initRan).To(Equal(step.initRan), step.name)
		_, err = session.Plan(ctx, PlanOptions{})
		g.Expect(err).NotTo(HaveOccurred(), step.name)
	}
	// Credentials and values are not shared, and are removed.
	expectNowhere(t, w.Cache, "s3cr3t")
	NewWithT(t).Expect(w.Scrub()).To(Succeed())
	expectNowhere(t, w.Dir, "s3cr3t")
}

func TestPrepare_removesFilesOfThePreviousRequest(t *testing.T) {
	g := NewWithT(t)
	w, _ := workdir(t, tofu(t))
	request := inline(echo)
	request.Files = map[string][]byte{"sub/old.json": []byte("x")}
	session, err := Prepare(context.Background(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Join(session.Root, "sub/old.json")).To(BeARegularFile())
	info, err := os.Stat(filepath.Join(session.Root, "sub/old.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	request.Files = nil
	session, err = Prepare(context.Background(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Join(session.Root, "sub/old.json")).NotTo(BeAnExistingFile())
}

// repository creates a git repository with a module in modules/m that calls
// another module of the repository and has its own variable file.
func repository(t *testing.T) (dir, commit string) {
	t.Helper()
	b := &branch{NewWithT(t), t.TempDir()}
	for name, content := range map[string]string{
		"modules/m/main.tf":          echo + "\nmodule \"n\" {\n  source = \"../n\"\n}\noutput \"n\" { value = module.n.n }\nvariable \"w\" {}\noutput \"w\" { value = var.w }\n",
		"modules/m/terraform.tfvars": "v = \"from the file\"\nw = \"from the first file\"\n",
		"modules/m/zz_w.auto.tfvars": "v = \"from the file\"\nw = \"from the file\"\n",
		"modules/n/main.tf":          `output "n" { value = "neighbour" }`,
		"README.md":                  "not a module",
	} {
		b.Expect(writeFile(filepath.Join(b.dir, name), []byte(content))).To(Succeed())
	}
	b.git("init", "-q")
	b.git("add", ".")
	b.git("commit", "-q", "-m", "m")
	return b.dir, b.git("rev-parse", "HEAD")
}

func TestPrepare_fetchesRemoteModules(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		dir, commit := repository(t)
		cache := t.TempDir()
		tests := []struct {
			name   string
			module terraform.Module
			shared bool
		}{
			{"local directory", terraform.Module{Address: dir, Entrypoint: "modules/m"}, false},
			{"subdirectory of a local directory", terraform.Module{Address: dir + "//modules/m"}, false},
			{"git branch", terraform.Module{Address: "git::file://" + dir + "//modules", Entrypoint: "m"}, false},
			{"git commit", terraform.Module{Address: "git::file://" + dir + "//modules/m?ref=" + commit}, true},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				g := NewWithT(t)
				request := inline("")
				request.Module = test.module
				request.Module.Source = terraform.SourceRemote
				request.Variables = values(map[string]string{"v": "from the request"})
				w, _ := workdir(t, tool)
				w.Cache = cache
				session, applied := apply(t, w, request)
				g.Expect(session.initRan).To(BeTrue())
				g.Expect(string(applied.Outputs["n"].Value)).To(Equal(`"neighbour"`))
				g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"from the request"`), "a value of the request overrides that of the module's file")
				g.Expect(string(applied.Outputs["w"].Value)).To(Equal(`"from the file"`))

				request.Variables = nil
				session, applied = apply(t, w, request)
				g.Expect(session.initRan).To(BeFalse())
				g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"from the file"`))

				other, _ := workdir(t, tool)
				other.Dir += "-other"
				other.Cache = cache
				session, applied = apply(t, other, request)
				g.Expect(session.initRan).To(Equal(!test.shared))
				g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"from the file"`))
			})
		}
	})
}

func TestPrepare_refetchesTheModuleOnRequest(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(writeFile(filepath.Join(dir, "main.tf"), []byte(`output "v" { value = 1 }`))).To(Succeed())
	w, _ := workdir(t, tofu(t))
	request := inline("")
	request.Module = terraform.Module{Source: terraform.SourceRemote, Address: dir}
	apply(t, w, request)
	g.Expect(writeFile(filepath.Join(dir, "main.tf"), []byte(`output "v" { value = 2 }`))).To(Succeed())
	session, err := Prepare(context.Background(), w, request)
	g.Expect(err).NotTo(HaveOccurred())
	plan, err := session.Plan(context.Background(), PlanOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.HasChanges).To(BeFalse())
	request.Module.Refetch = true
	_, applied := apply(t, w, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal("2"))
}

func TestPrepare_reportsModulesThatCannotBeFetched(t *testing.T) {
	dir, _ := repository(t)
	tests := []struct {
		name    string
		module  terraform.Module
		message string
		class   terraform.Class
	}{
		{"missing directory", terraform.Module{Address: "/does/not/exist"}, "get failed: ", terraform.ClassTerminal},
		{"missing revision", terraform.Module{Address: "git::file://" + dir + "?ref=nope"}, "get failed: ", terraform.ClassTerminal},
		{"directory without a module", terraform.Module{Address: dir}, "Module has no configuration files", terraform.ClassTerminal},
		{"missing entrypoint", terraform.Module{Address: dir, Entrypoint: "nope"}, "Module has no configuration files", terraform.ClassTerminal},
		{"unknown host", terraform.Module{Address: "git::https://nowhere.invalid/x.git"}, "Could not resolve host", terraform.ClassTransient},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w, _ := workdir(t, tofu(t))
			request := inline("")
			request.Module = test.module
			request.Module.Source = terraform.SourceRemote
			_, err := Prepare(context.Background(), w, request)
			g.Expect(err).To(MatchError(ContainSubstring(test.message)))
			g.Expect(AsFailure(err).Class).To(Equal(test.class), err.Error())
		})
	}
}

func TestPrepare_overridesCloudAndBackendBlocks(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		for name, block := range map[string]string{
			"backend": "terraform {\n  backend \"s3\" {\n    bucket = \"x\"\n    key = \"y\"\n    region = \"z\"\n  }\n}\n",
			"cloud":   "terraform {\n  cloud {\n    organization = \"x\"\n    workspaces {\n      name = \"y\"\n    }\n  }\n}\n",
		} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				w, _ := workdir(t, tool)
				_, applied := apply(t, w, inline(echo+block))
				g.Expect(applied.Resources).To(Equal(1))
				g.Expect(filepath.Join(w.Dir, localState)).To(BeARegularFile())
			})
		}
	})
}

func TestTool_Version(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		version, err := tool.Version(context.Background())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(version.Product).To(Equal(strings.TrimPrefix(t.Name(), "TestTool_Version/")))
		g.Expect(version.Version).To(MatchRegexp(`^\d+\.\d+\.\d+`))
	})
	_, err := binary.Find("/does/not/exist")
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
}

func TestPrepare_placesTheFilesOfAnInlineModule(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		w, _ := workdir(t, tool)
		w.Cache = t.TempDir()
		request := inline(`module "a" { source = "./modules/a" }
output "text" { value = module.a.text }`)
		request.Module.Files = map[string]string{
			"modules/a/main.tf":      `module "b" { source = "../b" }` + "\noutput \"text\" { value = module.b.text }",
			"modules/b/main.tf":      `output "text" { value = templatefile("${path.module}/text.tftpl", { n = 1 }) }`,
			"modules/b/text.tftpl":   "first ${n}",
			"modules/unused/a.tf":    "",
			"outputs_of_the_root.tf": `output "root" { value = true }`,
		}
		_, result := apply(t, w, request)
		g.Expect(result.Outputs["text"].Value).To(MatchJSON(`"first 1"`))
		g.Expect(result.Outputs).To(HaveKey("root"))

		delete(request.Module.Files, "outputs_of_the_root.tf")
		request.Module.Files["modules/b/text.tftpl"] = "second ${n}"
		_, result = apply(t, w, request)
		g.Expect(result.Outputs["text"].Value).To(MatchJSON(`"second 1"`), "a changed file is a changed module")
		g.Expect(result.Outputs).NotTo(HaveKey("root"))
	})
}
