package engine

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// once creates each directory only once: creating it again fails.
var once = replaceAll(several, "mkdir -p", "mkdir")

// renamed is once with another name of its resource.
var renamed = replaceAll(once, `"terraform_data" "thing"`, `"terraform_data" "item"`, "terraform_data.thing", "terraform_data.item")

func TestStateCommands(t *testing.T) {
	for backend, change := range map[string]func(*infrav1.WorkspaceSpec){
		"kubernetes": func(*infrav1.WorkspaceSpec) {},
		"http":       usesElsewhere,
	} {
		t.Run(backend, func(t *testing.T) {
			h := newHarness(t)
			h.elsewhere("key")
			h.template("once", once, change)
			h.apply("hello", "once", variables(map[string]string{"dir": h.dir}))
			h.waitReady("hello")

			list := h.captctl("state", "list", "hello")
			h.Expect(list.code).To(Equal(0), list.err)
			h.Expect(strings.Fields(list.out)).To(Equal([]string{"terraform_data.thing[0]", "terraform_data.thing[1]", "terraform_data.thing[2]", "terraform_data.thing[3]"}))
			list = h.captctl("state", "list", "hello", "-o", "json", "terraform_data.thing[2]")
			var addresses []string
			h.Expect(json.Unmarshal([]byte(list.out), &addresses)).To(Succeed())
			h.Expect(addresses).To(Equal([]string{"terraform_data.thing[2]"}))
			h.Expect(objecttest.Condition(h.get("hello"), infrav1.AppliedCondition).Status).To(BeEquivalentTo("True"), "reading changes nothing")

			show := h.captctl("state", "show", "hello", "terraform_data.thing[1]")
			h.Expect(show.out).To(ContainSubstring(h.dir+"/thing-1"), show.err)
			show = h.captctl("state", "show", "hello", "terraform_data.thing[1]", "-o", "json")
			h.Expect(show.out).To(ContainSubstring(`"address": "terraform_data.thing[1]"`), show.err)
			missing := h.captctl("state", "show", "hello", "terraform_data.nothing")
			h.Expect(missing.code).To(Equal(1))
			h.Expect(missing.err).To(ContainSubstring("No instance found"))
			h.waitReady("hello")

			h.expectPullAndPush()
			h.expectMvAndRm()

			h.destroy("hello")
			h.Expect(h.secrets()).To(BeEmpty())
		})
	}
}

// expectPullAndPush pulls the state, and pushes it, an older and a foreign one.
func (w *harness) expectPullAndPush() {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "state")
	w.Expect(os.WriteFile(file, nil, 0o644)).To(Succeed())
	w.succeed("state", "pull", "hello", "--out", file)
	info, err := os.Stat(file)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
	text, err := os.ReadFile(file)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(text)).To(ContainSubstring("thing-3"))
	w.Expect(w.secrets()).NotTo(ContainElement(HavePrefix("capt-output-")), "captctl deletes it")

	var state map[string]any
	w.Expect(json.Unmarshal(text, &state)).To(Succeed())
	serial, lineage := state["serial"].(float64), state["lineage"]
	push := func(args ...string) result {
		text, err := json.Marshal(state)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
		return w.captctl(append([]string{"state", "push", "hello", file, "--yes", "--wait"}, args...)...)
	}
	state["lineage"] = "11111111-2222-3333-4444-555555555555"
	refused := push()
	w.Expect(refused.code).To(Equal(1))
	w.Expect(refused.err).To(ContainSubstring("Push refused"))
	w.Expect(refused.err).To(ContainSubstring("lineage"))
	state["lineage"], state["serial"] = lineage, serial-1
	refused = push()
	w.Expect(refused.err).To(ContainSubstring("serial"))
	w.Expect(w.get("hello").Status.State.Lineage).To(Equal(lineage))
	w.waitReady("hello")

	state["serial"] = serial + 10
	pushed := push()
	w.Expect(pushed.code).To(Equal(0), pushed.err)
	w.Expect(pushed.out).To(ContainSubstring("The previous state is in snapshot capt-snapshot-hello-r"))
	w.Expect(pushed.out).To(ContainSubstring("hello is applied: 4 resources in the state"))
	a := w.waitReady("hello")
	w.Expect(a.Status.State.Serial).To(BeNumerically(">=", serial+10))
	w.Expect(w.directories()).To(Equal(4))
	w.Expect(w.secrets()).NotTo(ContainElement(HavePrefix("capt-input-")), "captctl deletes it")

	state["serial"] = serial
	forced := push("--force")
	w.Expect(forced.code).To(Equal(0), forced.err)
	w.waitReady("hello")
}

// expectMvAndRm renames a resource in the module and the state, and removes one that
// the module has no more.
func (w *harness) expectMvAndRm() {
	w.t.Helper()
	held := w.succeed("state", "mv", "hello", "terraform_data.thing", "terraform_data.item", "--yes", "--hold", "--wait")
	w.Expect(held).To(ContainSubstring("Successfully moved 1 object(s)"))
	w.Expect(held).To(ContainSubstring("hello is waiting for approval"), "the module has the old name")
	w.template("renamed", renamed, func(s *infrav1.WorkspaceSpec) {
		if w.get("hello").Status.State.Backend == "http" {
			usesElsewhere(s)
		}
	})
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "renamed" })
	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	w.Expect(w.directories()).To(Equal(4))

	w.succeed("state", "rm", "hello", "terraform_data.item[3]", "--yes", "--hold")
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.get("hello").Status.State.Resources).To(BeEquivalentTo(3))
	w.Expect(w.directories()).To(Equal(4), "the real resource stays")
	w.Expect(os.Remove(filepath.Join(w.dir, "thing-3"))).To(Succeed())
	failed := w.captctl("state", "rm", "hello", "terraform_data.item[3]", "--yes")
	w.Expect(failed.code).To(Equal(1))
	w.Expect(failed.err).To(ContainSubstring("No matching objects found"))
	rejected := w.captctl("state", "rm", "hello", "--yes", "--", "-state=/etc/passwd")
	w.Expect(rejected.err).To(ContainSubstring(`address "-state=/etc/passwd" is invalid`))
}

func TestStateMove_toAnotherBackendAndBack(t *testing.T) {
	h := newHarness(t)
	server := h.elsewhere("${WORKSPACE_NAMESPACE}/${WORKSPACE_NAME}")
	key := h.namespace + "/hello"
	before := h.hello("once", once, variables(map[string]string{"dir": h.dir})).Status.State

	moved := h.succeed("state", "migrate-backend", "hello", "--to", "elsewhere", "--yes", "--wait")
	h.Expect(moved).To(ContainSubstring("Moved the state of hello from backend kubernetes to backend http: lineage " + before.Lineage))
	h.Expect(moved).To(ContainSubstring("The previous state is in snapshot capt-snapshot-hello-r"))
	a := h.waitReady("hello")
	h.Expect(a.Status.State.Backend).To(Equal("http"))
	h.Expect(a.Status.State.Lineage).To(Equal(before.Lineage))
	h.Expect(a.Status.State.Resources).To(BeEquivalentTo(4))
	h.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	h.Expect(a.Status.History[1].Operation).To(BeEquivalentTo("MoveState"))
	h.Expect(string(server.State(key))).To(ContainSubstring("thing-3"))
	h.Expect(server.Lock(key)).To(BeEmpty())
	h.Expect(h.secrets()).To(ContainElement(HavePrefix("capt-snapshot-hello-r")))
	h.Expect(h.secrets()).NotTo(ContainElement(HavePrefix("tfstate-")), "the outdated state is deleted")

	h.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["dir"] = infrav1.StringValue(h.dir + "/.") })
	h.waitReady("hello")

	back := h.succeed("state", "migrate-backend", "hello", "--to-default", "--yes", "--wait")
	h.Expect(back).To(ContainSubstring("The state in backend http is not used any more"))
	a = h.waitReady("hello")
	h.Expect(a.Status.State.Backend).To(Equal("kubernetes"))
	h.Expect(a.Status.State.Lineage).To(Equal(before.Lineage))
	h.Expect(a.Spec.ProviderConfigRef).To(BeNil())
	h.Expect(h.addresses("hello")).To(HaveLen(4))
	h.Expect(h.directories()).To(Equal(4))

	h.destroy("hello")
	h.Expect(h.directories()).To(BeZero())
	h.Expect(h.secrets()).To(BeEmpty())
}

func TestStateMove_isRefusedIfTheTargetHasAnotherState(t *testing.T) {
	h := newHarness(t)
	server := h.elsewhere("taken")
	foreign := []byte(`{"version":4,"terraform_version":"1.12.0","serial":3,"lineage":"other","outputs":{},"resources":[{"mode":"managed","type":"terraform_data","name":"a","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{"id":"1"}}]}]}`)
	server.SetState("taken", foreign)
	h.hello("once", once, variables(map[string]string{"dir": h.dir}))

	for _, wrong := range [][]string{{}, {"--to", ""}, {"--to", "elsewhere", "--to-default"}} {
		usage := h.captctl(append([]string{"state", "migrate-backend", "hello", "--yes"}, wrong...)...)
		h.Expect(usage.code).To(Equal(2))
		h.Expect(usage.err).To(ContainSubstring("pass --to with the name of a WorkspaceProviderConfig, or --to-default"))
	}
	unknown := h.captctl("state", "migrate-backend", "hello", "--to", "elsewere", "--yes")
	h.Expect(unknown.err).To(ContainSubstring(`has no WorkspaceProviderConfig elsewere: did you mean "elsewhere"?`))

	refused := h.captctl("state", "migrate-backend", "hello", "--to", "elsewhere", "--yes")
	h.Expect(refused.code).To(Equal(1))
	h.Expect(refused.err).To(ContainSubstring("a state of another lineage with 1 resources"))
	h.Expect(refused.err).To(ContainSubstring("is still in backend kubernetes"))
	h.Expect(refused.err).To(ContainSubstring(" state migrate-backend hello --to-default"))
	h.Expect(server.State("taken")).To(Equal(foreign))
	h.Expect(h.get("hello").Status.State.Backend).To(Equal("kubernetes"))

	back := h.succeed("state", "migrate-backend", "hello", "--to-default", "--yes", "--wait")
	h.Expect(back).To(ContainSubstring("There was nothing to move"))
	h.waitReady("hello")
	h.Expect(h.directories()).To(Equal(4))
}

// The runner or the manager is killed at each point of a move, in both directions. The
// move is repeated and succeeds, and no resource is created again.
func TestStateMove_survivesAKill(t *testing.T) {
	tests := []struct {
		name       string
		there      string
		back       string
		kill, next string
	}{
		{"before the state is read", "before-state-pull.1", "before-state-pull.1", "runner", "manager"},
		{"before the copy is written", "before-state-push.1", "before-state-push.1", "manager", "runner"},
		{"while the copy is empty", "before-state-push.2", "before-state-push.2", "runner", "manager"},
		{"before the copy is verified", "before-state-pull.3", "before-state-pull.4", "manager", "runner"},
		{"before the success is recorded", "after-state-pull.3", "after-state-pull.4", "runner", "manager"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newPausingHarness(t)
			h.elsewhere("key")
			h.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: h.meta("here")})
			before := h.hello("once", once, variables(map[string]string{"dir": h.dir})).Status.State

			h.killMove(tt.there, tt.kill, "elsewhere")
			h.killMove(tt.back, tt.next, "here")

			h.Expect(h.get("hello").Status.State.Lineage).To(Equal(before.Lineage))
			h.destroy("hello")
			h.Expect(h.directories()).To(BeZero())
			h.Expect(h.secrets()).To(BeEmpty())
		})
	}
}

// killMove moves the state and kills a process at the given point.
func (w *harness) killMove(point, target, to string) {
	w.t.Helper()
	w.Expect(os.RemoveAll(filepath.Join(w.control, "count-state-pull"))).To(Succeed())
	w.Expect(os.RemoveAll(filepath.Join(w.control, "count-state-push"))).To(Succeed())
	w.hold(point)
	done := make(chan result, 1)
	go func() { done <- w.captctl("state", "migrate-backend", "hello", "--to", to, "--yes", "--wait") }()
	w.waitReached(point)
	if target == "runner" {
		w.killRunner("hello")
	} else {
		w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed())
	}
	w.release(point)
	if target != "runner" {
		w.Expect(w.Start()).To(Succeed())
	}
	var moved result
	w.Eventually(done, testTimeout).Should(Receive(&moved))
	w.Expect(moved.code).To(Equal(0), moved.err)
	a := w.waitReady("hello")
	w.Expect(a.Spec.ProviderConfigRef.Name).To(Equal(to))
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	w.Expect(w.directories()).To(Equal(4))
}

// confidential has a resource with a sensitive value.
const confidential = `
variable "secret" {
  type      = string
  default   = "hunter2hunter2"
  sensitive = true
}
resource "terraform_data" "key" { triggers_replace = { public = "open", private = var.secret } }
output "x" { value = 1 }`

// encrypted creates a provider config that encrypts the state. A program returns the key:
// deriving it from a passphrase takes most of the time of each command.
func (w *harness) encrypted(name, key string, backend *infrav1.BackendConfig) func(*infrav1.WorkspaceSpec) {
	w.t.Helper()
	configuration := encryption(key)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: map[string]string{"hcl": configuration}})
	w.create(&infrav1.WorkspaceProviderConfig{
		ObjectMeta: w.meta(name),
		Spec: infrav1.WorkspaceProviderConfigSpec{Backend: backend, StateEncryption: &infrav1.StateEncryption{
			ConfigurationSecretRef: &infrav1.KeyReference{Name: name, Key: "hcl"},
		}},
	})
	return func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: name} }
}

// succeed runs captctl and expects success.
func (w *harness) succeed(args ...string) string {
	w.t.Helper()
	done := w.captctl(args...)
	w.Expect(done.code).To(Equal(0), done.err)
	return done.out
}

// expectEncryptedSnapshot removes the only resource from an encrypted state, and restores it.
func (w *harness) expectEncryptedSnapshot(address string) {
	w.t.Helper()
	removed := w.succeed("state", "rm", "hello", address, "--yes", "--wait")
	snapshot := regexp.MustCompile(`capt-snapshot-\S+`).FindString(removed)
	w.Expect(snapshot).NotTo(BeEmpty(), removed)
	text, err := record.Join([]*corev1.Secret{w.secret(snapshot)})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(text)).To(And(ContainSubstring("encrypted_data"), Not(ContainSubstring("hunter2"))))
	w.succeed("state", "restore", "hello", snapshot, "--yes", "--wait")
	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	w.Expect(a.Status.State.Resources).To(BeEquivalentTo(1))
}

// TestStateMove_ofAnEncryptedState has the other backends.
func TestStateCommands_ofAnEncryptedState(t *testing.T) {
	h := newHarness(t)
	stored := func() string {
		text, err := json.Marshal(h.state("hello"))
		h.Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
	uses := h.encrypted("encrypted", "first", nil)
	h.template("confidential", confidential, uses)
	h.template("renamed", replaceAll(confidential, `"terraform_data" "key"`, `"terraform_data" "renamed"`), uses)
	h.apply("hello", "confidential")
	h.waitReady("hello")

	h.Expect(h.succeed("state", "list", "hello")).To(Equal("terraform_data.key\n"))
	h.Expect(h.succeed("state", "show", "hello", "terraform_data.key")).NotTo(ContainSubstring("hunter2"))
	h.Expect(h.succeed("state", "show", "hello", "terraform_data.key", "--show-sensitive")).To(ContainSubstring("hunter2"))
	h.Expect(h.succeed("state", "show", "hello", "terraform_data.key", "-o", "json")).To(And(ContainSubstring("open"), ContainSubstring("(sensitive value)"), Not(ContainSubstring("hunter2"))))
	h.Expect(h.succeed("state", "show", "hello", "terraform_data.key", "-o", "yaml", "--show-sensitive")).To(ContainSubstring("private: hunter2hunter2"))
	h.Expect(h.secrets()).NotTo(ContainElement(HavePrefix("capt-output-")))

	file := filepath.Join(t.TempDir(), "state")
	h.Expect(os.WriteFile(file, []byte(h.succeed("state", "pull", "hello")), 0o600)).To(Succeed())
	h.Expect(h.succeed("state", "push", "hello", file, "--yes", "--wait")).To(ContainSubstring("hello is applied"))
	h.succeed("state", "mv", "hello", "terraform_data.key", "terraform_data.renamed", "--yes", "--hold", "--wait")
	h.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "renamed" })
	a := h.waitReady("hello")
	h.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	h.Expect(stored()).To(And(ContainSubstring("encrypted_data"), Not(ContainSubstring("hunter2"))))

	h.expectEncryptedSnapshot("terraform_data.renamed")
	h.destroy("hello")
}

func TestStateMove_ofAnEncryptedState(t *testing.T) {
	h := newHarness(t)
	server := h.elsewhere("plain")
	uses := h.encrypted("here", "first", nil)
	h.encrypted("there", "second", &infrav1.BackendConfig{Type: "http", Configuration: server.Configuration("there")})
	h.template("confidential", confidential, uses)
	h.apply("hello", "confidential")
	lineage := h.waitReady("hello").Status.State.Lineage
	for _, move := range []struct{ to, backend, key string }{
		{"there", "http", "there"}, {"elsewhere", "http", "plain"}, {"here", "kubernetes", ""},
	} {
		h.Expect(h.succeed("state", "migrate-backend", "hello", "--to", move.to, "--yes", "--wait")).To(ContainSubstring("to backend " + move.backend))
		a := h.waitReady("hello")
		h.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
		h.Expect(a.Status.State.Lineage).To(Equal(lineage))
		h.Expect(a.Status.State.Resources).To(BeEquivalentTo(1))
		if move.to == "there" {
			h.expectEncryptedSnapshot("terraform_data.key")
		}
		if move.key != "" {
			h.Expect(strings.Contains(string(server.State(move.key)), "hunter2")).To(Equal(move.to == "elsewhere"))
		}
	}
	h.Expect(h.state("hello")).To(HaveKey("encrypted_data"))
	h.destroy("hello")
}

// A user copies the state with the tool, which gives it a new lineage.
func TestState_movedByTheUser(t *testing.T) {
	h := newHarness(t)
	server := h.elsewhere("key")
	h.hello("once", once, variables(map[string]string{"dir": h.dir}))
	var state map[string]any
	h.Expect(json.Unmarshal([]byte(h.succeed("state", "pull", "hello")), &state)).To(Succeed())
	state["lineage"], state["serial"] = "11111111-2222-3333-4444-555555555555", 1
	text, err := json.Marshal(state)
	h.Expect(err).NotTo(HaveOccurred())
	server.SetState("key", text)

	h.change("hello", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "elsewhere"}
	})
	changed := h.waitReason("hello", infrav1.AppliedCondition, infrav1.BackendChangedReason)
	h.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationAdopt, Adopt: &infrav1.AdoptOptions{Backend: regexp.MustCompile(`http-[0-9a-f]{8}$`).FindString(changed.Message)}})
	foreign := h.waitReason("hello", infrav1.AppliedCondition, infrav1.StateForeignReason)
	h.Expect(foreign.Message).To(ContainSubstring("if this is the copy"))
	h.adopt("hello", regexp.MustCompile(`[^ ]+$`).FindString(foreign.Message))
	a := h.waitReady("hello")
	h.Expect(a.Status.State.Backend).To(Equal("http"))
	h.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	h.Expect(h.directories()).To(Equal(4))
}

// A state that is lost without a snapshot can be given up.
func TestState_missingIsGivenUp(t *testing.T) {
	for _, backend := range []string{"kubernetes", "http"} {
		t.Run(backend, func(t *testing.T) {
			h := newHarness(t)
			server := h.elsewhere("key")
			lose := func() { server.SetState("key", nil) }
			if backend == "kubernetes" {
				h.template("several", several)
				lose = func() { h.lose(h.secret("tfstate-default-hello-ws")) }
			} else {
				h.template("several", several, usesElsewhere)
			}
			h.apply("hello", "several", variables(map[string]string{"dir": h.dir}))
			h.waitReady("hello")
			lose()
			h.requestRun("hello")
			missing := h.waitReason("hello", infrav1.AppliedCondition, infrav1.StateMissingReason)
			value := regexp.MustCompile(`--version (none/\S+)$`).FindStringSubmatch(missing.Message)
			h.Expect(value).To(HaveLen(2), missing.Message)
			h.adopt("hello", value[1])
			a := h.waitReady("hello")
			h.Expect(a.Status.State.Resources).To(BeEquivalentTo(4))

			// The next state is not given up.
			lose()
			h.requestRun("hello")
			missing = h.waitReason("hello", infrav1.AppliedCondition, infrav1.StateMissingReason)
			h.adopt("hello", regexp.MustCompile(`none/\S+$`).FindString(missing.Message))
			h.destroy("hello")
			h.Expect(h.directories()).To(Equal(4), "the resources of a lost state are left to the user")
		})
	}
}

// A deletion that finds no usable state has the same ways out as a run.
func TestStateCommands_repairTheStateOfADeletion(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		change func(*infrav1.WorkspaceSpec)
		lose   func(*harness, *statetest.Server)
	}{
		"unreadable": {infrav1.RunFailedReason, func(*infrav1.WorkspaceSpec) {}, func(h *harness, _ *statetest.Server) {
			secret := h.secret("tfstate-default-hello-ws")
			secret.Data["tfstate"] = []byte("x")
			h.Expect(env.Client.Update(h.ctx, secret)).To(Succeed())
		}},
		"missing": {infrav1.StateMissingReason, usesElsewhere, func(_ *harness, server *statetest.Server) { server.SetState("key", nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			server := h.elsewhere("key")
			h.template("several", several, test.change)
			h.apply("hello", "several", variables(map[string]string{"dir": h.dir}))
			h.waitReady("hello")
			file := filepath.Join(t.TempDir(), "state")
			h.succeed("state", "pull", "hello", "--out", file)
			test.lose(h, server)
			h.delete("hello")
			h.waitReason("hello", infrav1.DestroyedCondition, test.reason)
			h.succeed("state", "push", "hello", file, "--yes", "--wait")
			h.waitDeleted("hello")
			h.Expect(h.directories()).To(BeZero())
		})
	}
}

// docs/operations.md lists these permissions.
func TestStateCommands_needOnlyTheDocumentedPermissions(t *testing.T) {
	h := newHarness(t)
	h.elsewhere("key")
	h.hello("once", once, variables(map[string]string{"dir": h.dir}))
	file := filepath.Join(t.TempDir(), "state")
	for _, test := range []struct {
		workspaces, operations, secrets, capt, configs, templates []string
		commands                                                  [][]string
	}{
		{
			operations: []string{"create", "get", "watch", "delete"}, secrets: []string{"get", "delete"},
			commands: [][]string{{"list"}, {"show", "terraform_data.thing[0]"}, {"pull", "--out", file}},
		},
		{
			operations: []string{"create", "get", "watch"}, secrets: []string{"get", "create", "delete"}, capt: []string{"transfer"}, templates: []string{"get"},
			commands: [][]string{{"push", file, "--yes"}},
		},
		{
			workspaces: []string{"patch"}, operations: []string{"create", "get", "watch"}, secrets: []string{"get"}, templates: []string{"get"},
			commands: [][]string{{"mv", "terraform_data.thing[0]", "terraform_data.x", "--yes", "--hold"}},
		},
		{
			operations: []string{"create", "get", "watch"}, secrets: []string{"get"}, templates: []string{"get"},
			commands: [][]string{{"rm", "terraform_data.x", "--yes"}},
		},
		{
			workspaces: []string{"patch"}, operations: []string{"create", "get", "list", "watch", "delete"}, secrets: []string{"get"}, templates: []string{"get"}, configs: []string{"get", "list"},
			commands: [][]string{{"move", "--to", "elsewhere", "--yes"}},
		},
	} {
		user := h.namespace + "-" + test.commands[0][0]
		meta := metav1.ObjectMeta{Namespace: h.namespace, Name: test.commands[0][0]}
		group := []string{infrav1.GroupVersion.Group}
		rules := []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{"workspacetemplateapplies"}, Verbs: append([]string{"get", "list", "watch"}, test.workspaces...)},
			{APIGroups: group, Resources: []string{"workspaceoperations"}, Verbs: test.operations},
			{APIGroups: group, Resources: []string{"workspaceoperations/state"}, Verbs: []string{"create"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: test.secrets},
		}
		if test.capt != nil {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets/capt"}, Verbs: test.capt})
		}
		for resource, verbs := range map[string][]string{"workspacetemplates": test.templates, "workspaceproviderconfigs": test.configs} {
			if verbs != nil {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: group, Resources: []string{resource}, Verbs: verbs})
			}
		}
		h.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
		h.create(&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
		for _, command := range test.commands {
			args := append([]string{"state", command[0], "hello", "--as", user}, command[1:]...)
			// The API server learns about a role a moment later. What is refused changes nothing.
			h.Eventually(func(g Gomega) {
				done := h.captctl(args...)
				g.Expect(done.code).To(BeZero(), done.err)
			}, testTimeout).Should(Succeed())
		}
	}
}

// encryption returns an encryption configuration of OpenTofu. A program returns the key, which
// the name determines: deriving one from a passphrase takes most of the time of a command.
func encryption(name string) string {
	sum := sha256.Sum256([]byte(name))
	key := base64.StdEncoding.EncodeToString(sum[:])
	program := fmt.Sprintf(`echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
cat > /dev/null
echo '{"keys":{"encryption_key":"%[1]s","decryption_key":"%[1]s"},"meta":{"external_data":{}}}'`, key)
	return fmt.Sprintf(`
key_provider "external" "key" { command = ["sh", "-c", %q] }
method "aes_gcm" "method" { keys = key_provider.external.key }
state { method = method.aes_gcm.method }
plan { method = method.aes_gcm.method }
`, program)
}
