package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/statefile"
	"github.com/appthrust/capt/internal/testenv/objecttest"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// state returns the state of a workspace.
func (w *harness) state(name string) map[string]any {
	w.t.Helper()
	secret := &corev1.Secret{}
	err := env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "tfstate-default-" + name + "-ws"}, secret)
	w.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if len(secret.Data["tfstate"]) == 0 {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	w.Expect(err).NotTo(HaveOccurred())
	text, err := io.ReadAll(r)
	w.Expect(err).NotTo(HaveOccurred())
	var state map[string]any
	w.Expect(json.Unmarshal(text, &state)).To(Succeed())
	return state
}

// addresses returns the resources of a workspace's state.
func (w *harness) addresses(name string) []string {
	w.t.Helper()
	var all []string
	resources, _ := w.state(name)["resources"].([]any)
	for _, r := range resources {
		resource := r.(map[string]any)
		for range resource["instances"].([]any) {
			all = append(all, resource["type"].(string)+"."+resource["name"].(string))
		}
	}
	return all
}

// bumpState increments the serial of the state, as another tool would.
func (w *harness) bumpState(name string) {
	w.t.Helper()
	state := w.state(name)
	state["serial"] = state["serial"].(float64) + 1
	text, err := json.Marshal(state)
	w.Expect(err).NotTo(HaveOccurred())
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w.Expect(z.Write(text)).Error().NotTo(HaveOccurred())
	w.Expect(z.Close()).To(Succeed())
	secret := w.secret("tfstate-default-" + name + "-ws")
	secret.Data["tfstate"] = packed.Bytes()
	w.Expect(env.Client.Update(w.ctx, secret)).To(Succeed())
}

func (w *harness) lease(name string) *coordinationv1.Lease {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "lock-tfstate-default-" + name + "-ws"}, lease)).To(Succeed())
	return lease
}

func TestState_snapshotsAreKeptAndRestored(t *testing.T) {
	w := newHarness(t)
	first := w.hello("greeting", greeting, variables(map[string]string{"name": "v1"}), func(s *infrav1.WorkspaceTemplateApplySpec) { s.SnapshotLimit = new(int32(2)) })
	secret := w.secret(first.Status.State.SecretName)
	w.Expect(secret.Labels).To(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	w.Expect(secret.OwnerReferences).To(BeEmpty(), "the garbage collector keeps a state")
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil(), "no lock remains")
	for _, name := range []string{"v2", "v3", "v4"} {
		w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue(name) })
		w.waitReady("hello")
	}
	snapshots := func() []string { return w.secretsWith("capt-snapshot-") }
	w.Eventually(snapshots, testTimeout).Should(HaveLen(2), "the limit")

	// The state before v4 contains v3. With manual approval, a plan from v3 to v4
	// waits after the restore.
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalManual })
	w.waitReady("hello")
	newest := snapshots()[1]
	restored := w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Restore: &infrav1.RestoreOptions{Snapshot: newest}})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.waitPhase(restored, infrav1.OperationSucceeded)
	a := w.get("hello")
	w.Expect(a.Status.Plan.Change).To(BeEquivalentTo(1))
	w.Expect(json.Marshal(w.state("hello"))).To(ContainSubstring("hello v3"))
}

func TestState_aForeignLockIsOnlyBrokenOnRequest(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	holder := "5a3b1c9e-0000-0000-0000-000000000000"
	w.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "lock-tfstate-default-hello-ws",
			Annotations: map[string]string{"app.terraform.io/lock-info": `{"ID":"` + holder + `","Who":"ada@laptop","Operation":"OperationTypeApply","Created":"2026-01-01T00:00:00Z"}`},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
	w.apply("hello", "greeting", variables(map[string]string{"name": "world"}))

	held := w.waitReason("hello", infrav1.AppliedCondition, infrav1.LockHeldReason)
	w.Expect(held.Message).To(ContainSubstring("ada@laptop"))
	w.Expect(held.Message).To(ContainSubstring(holder))
	w.Expect(*w.lease("hello").Spec.HolderIdentity).To(Equal(holder))

	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationUnlock, Unlock: &infrav1.UnlockOptions{Lock: holder}})
	w.waitReady("hello")
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil())
}

func TestState_tooLargeIsRefusedBeforeAnythingIsApplied(t *testing.T) {
	w := newHarness(t)
	w.template("large", `
resource "terraform_data" "large" { input = flatten([for i in range(30) : [for j in range(1000) : sha512("${i} ${j}")]]) }
output "x" { value = 1 }`)
	w.apply("hello", "large")

	tooLarge := w.waitReason("hello", infrav1.AppliedCondition, infrav1.StateTooLargeReason)
	w.Expect(tooLarge.Message).To(ContainSubstring("nothing was applied"))
	w.Expect(tooLarge.Message).To(ContainSubstring("backend such as s3"))
	w.Expect(w.addresses("hello")).To(BeEmpty())
}

func TestState_encryptedByOpenTofu(t *testing.T) {
	w := newHarness(t)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "key"}, StringData: map[string]string{"passphrase": "correct horse battery staple"}})
	w.create(&infrav1.WorkspaceProviderConfig{
		ObjectMeta: w.meta("encrypted"),
		Spec: infrav1.WorkspaceProviderConfigSpec{StateEncryption: &infrav1.StateEncryption{
			PassphraseSecretRef: &infrav1.KeyReference{Name: "key", Key: "passphrase"},
		}},
	})
	w.template("greeting", greeting, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "encrypted"} })
	w.apply("hello", "greeting", variables(map[string]string{"name": "world"}))

	a := w.waitReady("hello")
	w.Expect(a.Status.Outputs["greeting"].String()).To(Equal("hello world"))
	w.Expect(w.state("hello")).To(HaveKey("encrypted_data"))

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("again") })
	w.Expect(w.waitReady("hello").Status.Outputs["greeting"].String()).To(Equal("hello again"))
	w.destroy("hello")
}

func TestState_inAnotherBackend(t *testing.T) {
	w := newHarness(t)
	server := statetest.New(t)
	key := w.namespace + "/hello"
	w.create(&infrav1.WorkspaceProviderConfig{
		ObjectMeta: w.meta("elsewhere"),
		Spec: infrav1.WorkspaceProviderConfigSpec{Backend: &infrav1.BackendConfig{
			Type: "http", Configuration: server.Configuration("${WORKSPACE_NAMESPACE}/${WORKSPACE_NAME}"),
		}},
	})
	w.template("greeting", greeting, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "elsewhere"} })
	w.apply("hello", "greeting", variables(map[string]string{"name": "world"}))

	a := w.waitReady("hello")
	w.Expect(a.Status.State.Backend).To(Equal("http"))
	w.Expect(a.Status.State.Lineage).NotTo(BeEmpty())
	w.Expect(a.Status.Outputs["greeting"].String()).To(Equal("hello world"))
	w.Expect(string(server.State(key))).To(ContainSubstring("terraform_data"))
	w.Expect(server.Lock(key)).To(BeEmpty())
	w.Expect(w.secrets()).NotTo(ContainElement(HavePrefix("tfstate-")))
	w.destroy("hello")
	w.Expect(string(server.State(key))).NotTo(ContainSubstring(`"type": "terraform_data"`))
}

func TestState_aMissingStateIsNotReplaced(t *testing.T) {
	w := newHarness(t)
	w.hello("several", several, variables(map[string]string{"dir": w.dir}))
	w.waitPhase(w.requestRun("hello"), infrav1.OperationSucceeded)
	kept, empty := w.secret("tfstate-default-hello-ws"), &corev1.Secret{}
	w.lose(kept)

	w.requestRun("hello")
	missing := w.waitReason("hello", infrav1.AppliedCondition, infrav1.StateMissingReason)
	w.Expect(missing.Message).To(ContainSubstring("tfstate-default-hello-ws"))

	// A deletion waits for the state as well, because resources exist.
	w.delete("hello")
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.StateMissingReason)
	// The runs that found it missing have created an empty one.
	w.Expect(env.Client.Get(w.ctx, client.ObjectKeyFromObject(kept), empty)).To(Succeed())
	empty.Data, empty.Labels, empty.Annotations = kept.Data, kept.Labels, kept.Annotations
	w.Expect(env.Client.Update(w.ctx, empty)).To(Succeed())
	w.waitDeleted("hello")
	w.Expect(w.directories()).To(BeZero())
}

func TestState_waitsWhenTheBackendChanges(t *testing.T) {
	w := newHarness(t)
	server := statetest.New(t)
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("config")}
	w.create(config)
	w.template("several", several, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "config"} })
	w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	w.waitReady("hello")

	objecttest.New(t, env.Client).Update(config, func() {
		config.Spec.Backend = &infrav1.BackendConfig{Type: "http", Configuration: server.Configuration("moved")}
	})
	changed := w.waitReason("hello", infrav1.AppliedCondition, infrav1.BackendChangedReason)
	w.Expect(changed.Message).To(ContainSubstring("create all resources again"))

	// A user moves the state and confirms it.
	text, err := json.Marshal(w.state("hello"))
	w.Expect(err).NotTo(HaveOccurred())
	server.SetState("moved", text)
	w.Expect(env.Client.Get(w.ctx, client.ObjectKeyFromObject(w.get("hello")), &infrav1.WorkspaceTemplateApply{})).To(Succeed())
	accept := regexp.MustCompile(`--backend (http-[0-9a-f]{8})$`).FindStringSubmatch(changed.Message)
	w.Expect(accept).To(HaveLen(2))
	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationAdopt, Adopt: &infrav1.AdoptOptions{Backend: accept[1]}})
	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	w.Expect(a.Status.State.Backend).To(Equal("http"))
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
}

// A change of the configuration that leaves the state where it is, such as another way to
// lock, needs no decision of a user. One that names another place creates nothing there.
func TestState_elsewhereIsProvenByItsLineage(t *testing.T) {
	w := newHarness(t)
	server := w.elsewhere("key")
	w.template("several", several, usesElsewhere)
	w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	before := w.waitReady("hello").Status.State
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("elsewhere")}
	configure := func(text string) {
		objecttest.New(t, env.Client).Update(config, func() { config.Spec.Backend.Configuration = text })
	}

	configure(server.Configuration("key") + "\n# The same place.\n")
	w.Eventually(func() *infrav1.StateStatus { return w.get("hello").Status.State }, testTimeout).Should(And(
		HaveField("Configuration", Not(Equal(before.Configuration))), HaveField("Lineage", before.Lineage), HaveField("Resources", before.Resources)))
	w.Expect(w.waitReady("hello").Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))

	configure(server.Configuration("another"))
	missing := w.waitReason("hello", infrav1.AppliedCondition, infrav1.StateMissingReason)
	w.Expect(missing.Message).To(ContainSubstring("Change the configuration of the backend back"))
	w.Expect(server.State("another")).To(BeNil(), "nothing was written")
	w.Expect(w.directories()).To(Equal(4))

	configure(server.Configuration("key"))
	w.waitReady("hello")
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
}

// elsewhere creates a provider config whose backend is a server outside the cluster.
func (w *harness) elsewhere(key string) *statetest.Server {
	w.t.Helper()
	server := statetest.New(w.t)
	w.create(&infrav1.WorkspaceProviderConfig{
		ObjectMeta: w.meta("elsewhere"),
		Spec:       infrav1.WorkspaceProviderConfigSpec{Backend: &infrav1.BackendConfig{Type: "http", Configuration: server.Configuration(key)}},
	})
	return server
}

func usesElsewhere(s *infrav1.WorkspaceSpec) {
	s.ProviderConfigRef = &infrav1.LocalReference{Name: "elsewhere"}
}

func TestState_elsewhereIsNotReplacedIfItIsMissing(t *testing.T) {
	w := newHarness(t)
	server := w.elsewhere("key")
	w.template("several", several, usesElsewhere)
	w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	w.waitReady("hello")
	kept := server.State("key")
	server.SetState("key", nil)

	w.requestRun("hello")
	missing := w.waitReason("hello", infrav1.AppliedCondition, infrav1.StateMissingReason)
	w.Expect(missing.Message).To(ContainSubstring("backend http is missing or empty, but it had 4 resources"))
	w.Expect(server.State("key")).To(BeNil(), "nothing was written")

	server.SetState("key", kept)
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
}

func TestState_elsewhereOfAnotherWorkspaceIsNotTouched(t *testing.T) {
	w := newHarness(t)
	server := w.elsewhere("the-same-key")
	w.template("several", several, usesElsewhere)
	w.template("greeting", greeting, usesElsewhere)
	w.apply("first", "several", variables(map[string]string{"dir": w.dir}))
	w.waitReady("first")
	w.apply("second", "greeting", variables(map[string]string{"name": "world"}))
	foreign := w.waitReason("second", infrav1.AppliedCondition, infrav1.StateForeignReason)
	w.Expect(foreign.Message).To(ContainSubstring("${WORKSPACE_NAMESPACE}"))

	w.destroy("second")
	w.Expect(w.directories()).To(Equal(4), "they belong to the first")
	w.Expect(string(server.State("the-same-key"))).To(ContainSubstring("terraform_data"))
	w.destroy("first")
	w.Expect(w.directories()).To(BeZero())
}

// A workspace that is deleted before its first apply leaves an empty state, which the
// next one of its name uses.
func TestState_elsewhereOfADeletedWorkspaceIsFree(t *testing.T) {
	w := newHarness(t)
	server := w.elsewhere("key")
	w.template("several", several, usesElsewhere)
	for _, name := range []string{"never applied", "applied and destroyed"} {
		w.apply("hello", "several", variables(map[string]string{"dir": w.dir}), manual)
		w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
		if name == "applied and destroyed" {
			w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
			w.waitReady("hello")
		}
		w.destroy("hello")
		state, err := statefile.Parse(server.State("key"))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(state.Owner).To(Equal(terraform.NoOwner), name)
	}
	w.Expect(w.directories()).To(BeZero())
}

func TestState_elsewhereThatIsOutdatedIsUsedOnlyOnRequest(t *testing.T) {
	w := newHarness(t)
	server := w.elsewhere("key")
	w.template("greeting", greeting, usesElsewhere)
	w.apply("hello", "greeting", variables(map[string]string{"name": "one"}))
	w.waitReady("hello")
	old := server.State("key")
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("two") })
	w.waitReady("hello")
	server.SetState("key", old)

	w.requestRun("hello")
	outdated := w.waitReason("hello", infrav1.AppliedCondition, infrav1.StateOutdatedReason)
	version := regexp.MustCompile(`--version (\S+)$`).FindStringSubmatch(outdated.Message)
	w.Expect(version).To(HaveLen(2))
	w.adopt("hello", version[1])
	w.Expect(w.waitReady("hello").Status.Outputs["greeting"].String()).To(Equal("hello two"))
}

func TestState_thatFailsToBeSavedElsewhereIsRescued(t *testing.T) {
	w := newHarness(t)
	server := w.elsewhere("key")
	// Creating the same directory twice would fail.
	w.template("once", replaceAll(several, "mkdir -p", "mkdir"), usesElsewhere)
	w.apply("hello", "once", variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) { s.Approval = infrav1.ApprovalManual })
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	server.Reject(403)
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
	w.Eventually(w.secrets, testTimeout).Should(ContainElement(HavePrefix("capt-rescue-")), "the credentials may never work again")
	w.Expect(w.directories()).To(Equal(4))

	server.Reject(0)
	w.waitReady("hello")
	w.Expect(string(server.State("key"))).To(ContainSubstring("terraform_data"))
	w.Eventually(w.secrets, testTimeout).ShouldNot(ContainElement(HavePrefix("capt-rescue-")))
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
}

// A first run that fails leaves an empty state Secret. The resources that are then
// created with another backend must be destroyed with it.
func TestState_afterAFailedFirstRunIsDestroyedWhereItIs(t *testing.T) {
	w := newHarness(t)
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("config")}
	w.create(config)
	checked := replaceAll(several, `variable "dir" { type = string }`, "variable \"dir\" {\n  type = string\n  validation {\n    condition     = var.dir != \"\"\n    error_message = \"No directory.\"\n  }\n}")
	w.template("several", checked, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "config"} })
	w.apply("hello", "several", variables(map[string]string{"dir": ""}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunFailedReason)
	w.Expect(w.secrets()).To(ContainElement("tfstate-default-hello-ws"))

	server := statetest.New(t)
	objecttest.New(t, env.Client).Update(config, func() {
		config.Spec.Backend = &infrav1.BackendConfig{Type: "http", Configuration: server.Configuration("key")}
	})
	w.reconsider("hello", infrav1.AppliedCondition)
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["dir"] = infrav1.StringValue(w.dir) })
	w.waitReady("hello")
	w.Expect(w.directories()).To(Equal(4))
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
}

// The credentials expire after the first state was written: it cannot be read again, and
// its lock cannot be released. Neither may be left to the next workspace of the name.
func TestState_thatCannotBeReadAfterItWasCreatedIsFreed(t *testing.T) {
	w := newHarness(t)
	server := statetest.New(t)
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("config")}
	config.Spec.Backend = &infrav1.BackendConfig{Type: "http", Configuration: server.Configuration("key")}
	w.create(config)
	w.template("several", several, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "config"} })
	renew := server.ExpireAfterWrite()
	w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	w.Eventually(func() *infrav1.FailureStatus { return w.get("hello").Status.Failure }, testTimeout).ShouldNot(BeNil())
	w.Expect(server.Lock("key")).NotTo(BeNil())
	renew()
	w.destroy("hello")
	w.Expect(server.Lock("key")).To(BeNil())

	w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	w.waitReady("hello")
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
}
