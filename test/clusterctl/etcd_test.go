package clusterctl

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replica are the ReplicaSet and the Pod that kube-controller-manager creates for the
// Deployment of the manager.
const replica = `---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: capt-controller-manager-1, namespace: capt-system, labels: {control-plane: controller-manager}}
spec:
  replicas: 1
  selector: {matchLabels: {control-plane: controller-manager}}
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec: {containers: [{name: manager, image: manager}]}
---
apiVersion: v1
kind: Pod
metadata: {name: capt-controller-manager-1-a, namespace: capt-system, labels: {control-plane: controller-manager}}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: manager, image: manager, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`

// The management cluster goes back to a snapshot of etcd that is older than the last
// change of two workspaces: "kept" has a newer copy of its state, "lost" has none.
func TestBackup_restoresEtcd(t *testing.T) {
	if os.Getenv("CAPT_TEST_CLUSTERCTL") == "" {
		t.Skip("run `make test-clusterctl`")
	}
	t.Parallel()
	s, o := newServer(t, newRepository(t)), newOperator(t)
	s.init(readCommands(t).init, current)
	o.apply(s, o.fileTemplate()+filesWorkspace("default", "kept", "a")+filesWorkspace("default", "lost", "a")+replica)
	s.waitReason("default", "kept", "Ready")
	s.waitReason("default", "lost", "Ready")
	o.run(s, o.block("backup-etcd", 0))

	newer := filesWorkspace("default", "kept", "a", "b") + filesWorkspace("default", "lost", "a", "b")
	o.apply(s, newer)
	s.waitReason("default", "kept", "Ready")
	s.waitReason("default", "lost", "Ready")
	o.run(s, o.block("backup-states", 0))
	o.run(s, `jq '.items |= map(select(.metadata.labels["capt.appthrust.io/workspace"] != "lost"))' states.json > kept.json; mv kept.json states.json`)
	before := o.files()
	s.Expect(o.fileNames()).To(Equal([]string{"kept.a", "kept.b", "lost.a", "lost.b"}))

	s.crash()
	o.runAlone(s, o.block("backup-etcd", 1))
	s.startAPI(filepath.Join(o.dir, "restored"))
	// Only the operator reaches the API server.
	o.runAlone(s, o.block("backup-etcd", 2))
	s.expectNoManagers()
	o.runAlone(s, o.block("backup-states", 1))
	// Everything reaches the API server.
	o.run(s, o.block("backup-etcd", 3))
	s.waitRollout()
	s.Expect(s.managers).To(HaveLen(len(providers)))
	s.waitReason("default", "kept", "Ready")
	s.waitReason("default", "lost", "Ready")

	// The newer inputs come back.
	o.apply(s, newer)
	s.waitReason("default", "lost", "WaitingForApproval")
	s.waitReason("default", "kept", "Ready")
	s.Expect(o.run(s, "captctl plan lost")).To(ContainSubstring(`terraform_data.file["b"]`))
	s.Expect(o.run(s, "captctl plan kept")).To(ContainSubstring("No changes"), "its state was restored")
	s.Expect(o.files()).To(Equal(before), "nothing was created or destroyed by the restore")

	o.run(s, "captctl reject lost && captctl run lost --yes --hold --import 'terraform_data.file[\"b\"]="+o.idOf("lost.b")+"'")
	o.run(s, "captctl approve lost --yes --wait")
	s.waitReason("default", "lost", "Ready")
	s.Expect(o.files()).To(Equal(before), "an import creates nothing")
	o.run(s, o.block("backup-release", 0))
	o.apply(s, filesWorkspace("default", "lost", "a"))
	s.Eventually(o.fileNames, testTimeout).Should(Equal([]string{"kept.a", "kept.b", "lost.a"}), "the imported resource is managed again")
	s.Expect(s.forbidden()).To(BeEmpty())
}

// expectNoManagers checks that nothing would start a manager.
func (s *server) expectNoManagers() {
	s.t.Helper()
	for _, namespace := range providers {
		s.Expect(*s.deployment(namespace).Spec.Replicas).To(BeZero(), namespace)
	}
	var replicas appsv1.ReplicaSetList
	s.Expect(s.client.List(s.ctx, &replicas, client.InNamespace("capt-system"))).To(Succeed())
	s.Expect(replicas.Items).To(HaveLen(1))
	s.Expect(*replicas.Items[0].Spec.Replicas).To(BeZero())
	var pods corev1.PodList
	s.Expect(s.client.List(s.ctx, &pods, client.InNamespace("capt-system"))).To(Succeed())
	s.Expect(pods.Items).To(BeEmpty())
}
