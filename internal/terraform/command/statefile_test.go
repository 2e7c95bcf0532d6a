package command

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

func kubernetesRequest(hcl string) *terraform.Request {
	request := inline(hcl)
	request.Backend = terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "default", SecretSuffix: "s"}
	return request
}

const sensitiveModule = `
resource "terraform_data" "a" { input = "in the state" }
output "a" {
  value     = terraform_data.a.output
  sensitive = true
}`

func TestStateFile_requiresNoInitOfItsOwn(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		cache := t.TempDir()
		for i, name := range []string{"first", "second", "third"} {
			g := NewWithT(t)
			request := kubernetesRequest(sensitiveModule)
			// The settings of providers must not affect the backend.
			request.Env = map[string]string{"KUBE_NAMESPACE": "elsewhere", "KUBE_CONFIG_PATH": "/elsewhere", "KUBE_HOST": "https://elsewhere.invalid"}
			w, _ := workdir(t, tool)
			w.Dir += name
			w.Cache = cache

			session, result := apply(t, w, request)
			g.Expect(session.initRan).To(Equal(i == 0), "only the first workspace of a module runs an init")
			g.Expect(result.Resources).To(Equal(1))
			state := parsed(g, session)
			g.Expect(string(state.Outputs["a"].Value)).To(Equal(`"in the state"`))

			// Destroying the same workspace needs no init either.
			session, err := Prepare(context.Background(), w, request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(session.initRan).To(BeFalse())
			plan, err := session.Plan(context.Background(), PlanOptions{Out: w.PlanFile(), Destroy: true})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(plan.Summary.Destroy).To(Equal(1))
			_, err = session.Apply(context.Background(), w.PlanFile(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(session.initRan).To(BeFalse())
			g.Expect(parsed(g, session).Serial).To(BeNumerically(">", state.Serial))
			g.Expect(parsed(g, session).Lineage).To(Equal(state.Lineage))
		}
	})
}

func parsed(g Gomega, session *Session) *statefile.State {
	content, err := os.ReadFile(session.StateFile())
	g.Expect(err).NotTo(HaveOccurred())
	state, err := statefile.Parse(content)
	g.Expect(err).NotTo(HaveOccurred())
	return state
}

func TestStateFile_isThatOfASavedPlanInAnotherDirectory(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx := context.Background()
		request := kubernetesRequest(sensitiveModule)
		first, _ := workdir(t, tool)
		session, err := Prepare(ctx, first, request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.WriteState(statefile.New("l", "o"))).To(Succeed())
		_, err = session.Plan(ctx, PlanOptions{Out: first.PlanFile()})
		g.Expect(err).NotTo(HaveOccurred())

		second, _ := workdir(t, tool)
		session, err = Prepare(ctx, second, request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.WriteState(statefile.New("l", "o"))).To(Succeed())
		_, err = session.Apply(ctx, first.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		state := parsed(g, session)
		g.Expect(state.Lineage).To(Equal("l"))
		g.Expect(state.Serial).To(BeNumerically(">", 1))
		g.Expect(state.Resources).To(Equal(1))
	})
}

func TestStateFile_initialisesIfTheRecordDoesNotMatch(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx := context.Background()
		w, log := workdir(t, tool)
		session, err := Prepare(ctx, w, kubernetesRequest(`resource "terraform_data" "a" {}`))
		g.Expect(err).NotTo(HaveOccurred())
		session.initRan = false
		record := `{"version":3,"backend":{"type":"local","config":{"path":"elsewhere.tfstate"},"hash":1}}`
		g.Expect(writeFile(filepath.Join(session.Root, backendRecord), []byte(record))).To(Succeed())
		_, err = session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.initRan).To(BeTrue())
		g.Expect(log.String()).To(ContainSubstring("is outdated, initialising it"))
		_, err = session.Apply(ctx, w.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parsed(g, session).Resources).To(Equal(1))
		g.Expect(filepath.Join(session.Root, "elsewhere.tfstate")).NotTo(BeAnExistingFile())
	})
}

const encryption = `
key_provider "pbkdf2" "p" {
  passphrase    = "a passphrase of sixteen"
  iterations    = 200000
  hash_function = "sha256"
}
method "aes_gcm" "m" {
  keys = key_provider.pbkdf2.p
}
state {
  method   = method.aes_gcm.m
  enforced = true
}
plan {
  method   = method.aes_gcm.m
  enforced = true
}
`

func TestStateFile_isEncrypted(t *testing.T) {
	for name, inModule := range map[string]bool{"environment": false, "module": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx := context.Background()
			request := kubernetesRequest("output \"a\" {\n  value     = \"a secret value\"\n  sensitive = true\n}\nresource \"terraform_data\" \"a\" {}")
			if inModule {
				request.Module.Content += "\nterraform {\n  encryption {\n" + encryption + "\n  }\n}\n"
			} else {
				request.Encryption = encryption
			}
			w, _ := workdir(t, tofu(t))
			session, _ := apply(t, w, request)

			stored, err := os.ReadFile(session.StateFile())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(stored)).NotTo(ContainSubstring("a secret value"))
			_, err = statefile.Parse(stored)
			g.Expect(err).To(MatchError(statefile.ErrEncrypted))
			pulled, err := session.StatePull(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			state, err := statefile.Parse(pulled)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(state.Outputs["a"].Value)).To(Equal(`"a secret value"`))
			info, err := statefile.Identify(stored)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info).To(Equal(terraform.StateInfo{Lineage: state.Lineage, Serial: state.Serial}), "lineage and serial are not encrypted")

			// The tool reads what it wrote.
			g.Expect(session.WriteState(stored)).To(Succeed())
			plan, err := session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(plan.HasChanges).To(BeFalse())
		})
	}
}

func TestUnsavedStates(t *testing.T) {
	one := statefile.New("l", "o")
	two := []byte(`{"version":4,"serial":5,"lineage":"l","resources":[{"mode":"managed","type":"t","name":"a","instances":[{}]}]}`)
	branch := []byte(`{"version":4,"serial":4,"lineage":"l","resources":[]}`)
	prepared := func(g Gomega, dir string) *Session {
		session := &Session{executor: executor{workingDir: workingDir{Root: filepath.Join(dir, "module")}}}
		g.Expect(os.MkdirAll(session.Root, 0o700)).To(Succeed())
		return session
	}
	only := func(g Gomega, dir string) UnsavedState {
		unsaved, err := UnsavedStates(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(unsaved).To(HaveLen(1))
		return unsaved[0]
	}

	t.Run("a state file continues the states that it is based on", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		session := prepared(g, dir)
		g.Expect(UnsavedStates(dir)).To(BeEmpty())
		g.Expect(session.WriteState(one)).To(Succeed())
		g.Expect(os.WriteFile(session.StateFile(), two, 0o600)).To(Succeed())
		g.Expect(only(g, dir).Continues(one)).To(BeTrue())
		g.Expect(only(g, dir).Continues(branch)).To(BeFalse(), "its serial is higher, but another run has saved a branch")

		g.Expect(session.AddBase(branch)).To(Succeed())
		g.Expect(only(g, dir).Continues(branch)).To(BeTrue(), "it was about to be saved")
		g.Expect(only(g, dir).Remove()).To(Succeed())
		g.Expect(UnsavedStates(dir)).To(BeEmpty())
	})
	t.Run("the first state continues none", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		session := prepared(g, dir)
		g.Expect(session.WriteState(nil)).To(Succeed())
		g.Expect(UnsavedStates(dir)).To(BeEmpty())
		g.Expect(os.WriteFile(session.StateFile(), two, 0o600)).To(Succeed())
		g.Expect(only(g, dir).Continues(nil)).To(BeTrue())
		g.Expect(only(g, dir).Continues(one)).To(BeFalse())
	})
	t.Run("a state that the tool could not write has no base", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		session := prepared(g, dir)
		g.Expect(os.WriteFile(filepath.Join(session.Root, erroredState), two, 0o600)).To(Succeed())
		g.Expect(only(g, dir).Continues(nil)).To(BeTrue())
		g.Expect(only(g, dir).Continues(one)).To(BeTrue())
		g.Expect(only(g, dir).Continues(two)).To(BeFalse())
		g.Expect(only(g, dir).Continues([]byte(`{"version":4,"serial":1,"lineage":"other"}`))).To(BeFalse())
		g.Expect(only(g, dir).Continues([]byte(`{`))).To(BeFalse())
	})
	t.Run("both survive another module", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		session := prepared(g, dir)
		g.Expect(session.WriteState(one)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(session.Root, erroredState), two, 0o600)).To(Succeed())
		g.Expect((&Workdir{Dir: dir}).clear(marker{Root: "module"})).To(Succeed())
		unsaved, err := UnsavedStates(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(unsaved).To(HaveLen(2))
		g.Expect(unsaved[0].Continues(one)).To(BeTrue())
		g.Expect(unsaved[0].Continues(branch)).To(BeFalse())
		g.Expect(os.ReadFile(unsaved[1].Path)).To(Equal(two))
	})
}
