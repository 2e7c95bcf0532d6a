package clusterctl

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// surroundings are what decides about workspaces, in another namespace than the cluster,
// and an add-on of the cluster.
const surroundings = `---
apiVersion: v1
kind: Namespace
metadata: {name: platform, labels: {stage: production}}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: platform}
stringData: {token: t0ken, address: "https://chat.example.com/hook"}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTReferenceGrant
metadata: {name: templates, namespace: default}
spec:
  from: [{namespaceSelector: {matchLabels: {stage: production}}}]
  to: [{kind: WorkspaceTemplate}]
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: ClusterWorkspacePolicy
metadata: {name: production}
spec:
  namespaceSelector: {matchLabels: {stage: production}}
  rules:
  - {name: keep, action: Deny, expression: '"delete" in resource.actions', message: Nothing is destroyed}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspacePolicy
metadata: {name: report, namespace: platform}
spec:
  rules:
  - {name: creates, action: Warn, expression: '"create" in resource.actions', message: Something is created}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceProviderConfig
metadata: {name: default, namespace: platform}
spec:
  templateNamespaces: [default]
  credentials: [{env: TOKEN, secretRef: {name: credentials, key: token}}]
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceNotification
metadata: {name: chat, namespace: platform}
spec:
  secretRef: {name: credentials}
---
apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata: {name: hello, namespace: default}
spec:
  clusterSelector: {matchLabels: {hello: "true"}}
  manifests:
  - name: all
    inline: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: hello, namespace: default}
`

// The management cluster is lost after a change that the last backup does not have.
func TestBackup_restoresDirectory(t *testing.T) {
	if os.Getenv("CAPT_TEST_CLUSTERCTL") == "" {
		t.Skip("run `make test-clusterctl`")
	}
	t.Parallel()
	config, o := newRepository(t), newOperator(t)
	source, workload := newServer(t, config), newServer(t, config)
	commands := readCommands(t)
	source.init(commands.init, current)
	source.startClusterAPI()
	trace := source.createCluster(workload)
	// "app" has no newer copy of its state, "kept" has one, and "lost" has none at all.
	o.apply(source, surroundings+o.fileTemplate()+filesWorkspace("platform", "app", "a")+filesWorkspace("platform", "kept", "a")+filesWorkspace("platform", "lost", "a"))
	source.waitReady("demo", "demo-vpc")
	for _, name := range []string{"app", "kept", "lost"} {
		source.waitReason("platform", name, "Ready")
	}
	installed := source.waitAddon(workload)

	o.runLocally(o.block("backup-hold", 0))
	// As after an installation with Helm.
	o.run(source, unlabel)
	for i := range 2 {
		o.run(source, o.block("backup-clusterctl", i))
	}
	o.failBackups(source)
	o.backUpWhileRunning(source)
	o.run(source, "captctl -n platform state pull lost --out lost.tfstate && rm backup/platform/Secret_platform_tfstate-default-lost-ws.yaml")
	newer := filesWorkspace("platform", "app", "a", "b") + filesWorkspace("platform", "kept", "a", "b")
	o.apply(source, newer)
	source.waitReason("platform", "app", "Ready")
	source.waitReason("platform", "kept", "Ready")
	o.run(source, o.block("backup-states", 0))
	o.run(source, o.block("backup", 0))
	o.run(source, `jq -e '.items |= map(select(.metadata.labels["capt.appthrust.io/workspace"] == "kept"))' states.json > some.json && mv some.json states.json`)
	before := o.files()
	source.Expect(o.fileNames()).To(Equal([]string{"app.a", "app.b", "kept.a", "kept.b", "lost.a"}))
	source.crash()

	target := newServer(t, config)
	o.keepsLastCopies(source, target)
	target.init(commands.init, current)
	target.startClusterAPI()
	o.run(target, unlabel)
	o.run(target, o.block("backup-clusterctl", 0))
	o.run(target, o.block("backup-clusterctl", 3))
	o.run(target, o.block("backup-states", 1))
	o.run(target, o.block("backup-clusterctl", 4))
	target.waitReady("demo", "demo-vpc")
	target.expectOwned()
	target.Expect(target.waitAddon(workload)).To(Equal(installed), "the add-on is not installed again")
	target.expectSurroundings()
	target.Expect(trace()).To(ConsistOf("create vpc", "create cluster"), "nothing was created or destroyed again")
	target.Expect(o.files()).To(Equal(before), "nothing was created or destroyed again")

	target.expectHistory("app", "kept", "lost")

	// The restored state does not have b, and no plan shows it.
	o.run(target, "captctl -n platform run app --plan-only")
	target.Expect(o.run(target, "captctl -n platform plan app")).To(ContainSubstring("No changes"))
	// A lost state is missed.
	o.run(target, "captctl -n platform retry lost")
	target.waitReason("platform", "lost", infrav1.StateMissingReason)
	o.run(target, "captctl -n platform state push lost lost.tfstate --yes --wait")
	target.waitReason("platform", "lost", "Ready")
	// The policies and the grant decide as before.
	o.apply(target, filesWorkspace("platform", "app"))
	target.waitReason("platform", "app", infrav1.PolicyDeniedReason)
	// The newer inputs come back: the plan would create b a second time.
	o.apply(target, newer)
	target.waitReason("platform", "app", infrav1.WaitingForApprovalReason)
	target.waitReason("platform", "kept", "Ready")
	target.Expect(o.files()).To(Equal(before), "nothing is created without approval")
	o.refused(target, o.block("backup-release", 1))
	target.expectHold("hold-restore")
	o.run(target, "captctl -n platform approve app --yes --wait")
	target.Expect(o.fileNames()).To(Equal([]string{"app.a", "app.b", "app.b", "kept.a", "kept.b", "lost.a"}), "an approved plan is applied, although b existed")

	target.waitReason("platform", "app", "Ready")
	o.run(target, o.block("backup-release", 1))
	target.Expect(trace()).To(ConsistOf("create vpc", "create cluster"))
	target.Expect(target.forbidden()).To(BeEmpty())
}

// unlabel removes what clusterctl has added to CAPT's kinds.
const unlabel = `kubectl get crds -o name | grep -E '/(capt|workspace|clusterworkspace)' | xargs -I{} kubectl label {} clusterctl.cluster.x-k8s.io-`

// waitAddon waits until the add-on is ready, and returns the identity of what it has
// installed.
func (s *server) waitAddon(workload *server) types.UID {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		var addon addonsv1.CAPTAddon
		g.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "hello"}, &addon)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(addon.Status.Conditions, infrav1.ReadyCondition)).To(BeTrue(), "%v", addon.Status.Conditions)
		g.Expect(addon.Status.Clusters).To(HaveLen(1))
	}, testTimeout, 500*time.Millisecond).Should(Succeed())
	var installed corev1.ConfigMap
	s.Expect(workload.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "hello"}, &installed)).To(Succeed())
	return installed.UID
}

// expectOwned checks that the workspaces of a cluster belong to it.
func (s *server) expectOwned() {
	s.t.Helper()
	var plane controlplanev1.CAPTControlPlane
	s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, &plane)).To(Succeed())
	var infra infrav1.CAPTCluster
	s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, &infra)).To(Succeed())
	for name, owner := range map[string]client.Object{"demo": &plane, "demo-vpc": &infra} {
		var apply infrav1.WorkspaceTemplateApply
		s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: name}, &apply)).To(Succeed())
		s.Expect(metav1.IsControlledBy(&apply, owner)).To(BeTrue(), "%s: %v", name, apply.OwnerReferences)
	}
}

// expectSurroundings checks that everything was restored that decides about workspaces.
func (s *server) expectSurroundings() {
	s.t.Helper()
	for _, obj := range []client.Object{
		&infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "templates"}},
		&infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: "production"}},
		&infrav1.WorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "report"}},
		&infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "default"}},
		&infrav1.WorkspaceNotification{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "chat"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "credentials"}},
	} {
		s.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed(), "%T", obj)
	}
}

// expectHistory checks that workspaces continue from the runs of the backup.
func (s *server) expectHistory(names ...string) {
	s.t.Helper()
	for _, name := range names {
		var apply infrav1.WorkspaceTemplateApply
		s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "platform", Name: name}, &apply)).To(Succeed())
		s.Expect(apply.Status.Runs).To(BeEquivalentTo(1), "no run was started for %s", name)
		s.Expect(apply.Status.History).To(HaveLen(1), name)
	}
}
