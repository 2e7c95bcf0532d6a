package clusterctl

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// replicas are the ReplicaSet and the Pod that kube-controller-manager creates for the
// Deployment of the manager, and the same of Flux.
const replicas = `---
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
---
apiVersion: v1
kind: Namespace
metadata: {name: flux-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kustomize-controller, namespace: flux-system}
spec:
  replicas: 3
  selector: {matchLabels: {app: kustomize-controller}}
  template:
    metadata: {labels: {app: kustomize-controller}}
    spec: {containers: [{name: manager, image: manager}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: kustomize-controller-1, namespace: flux-system}
spec:
  replicas: 3
  selector: {matchLabels: {app: kustomize-controller}}
  template:
    metadata: {labels: {app: kustomize-controller}}
    spec: {containers: [{name: manager, image: manager}]}
---
apiVersion: v1
kind: Pod
metadata: {name: kustomize-controller-1-a, namespace: flux-system}
spec: {nodeName: node, containers: [{name: manager, image: manager}]}
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
	o.apply(s, o.fileTemplate()+filesWorkspace("default", "kept", "a")+filesWorkspace("default", "lost", "a")+replicas)
	s.waitReason("default", "kept", "Ready")
	s.waitReason("default", "lost", "Ready")
	s.restartManager("job")
	o.apply(s, filesWorkspace("default", "pending", "a"))
	s.schedule("capt-run-pending-r1")
	o.runLocally(o.block("backup-hold", 0))
	o.run(s, o.block("backup-etcd", 0))
	s.restartManager("process")

	newer := filesWorkspace("default", "kept", "a", "b") + filesWorkspace("default", "lost", "a", "b")
	o.apply(s, newer)
	s.waitReason("default", "kept", "Ready")
	s.waitReason("default", "lost", "Ready")
	o.run(s, o.block("backup-states", 0))
	o.run(s, `jq '.items |= map(select(.metadata.labels["capt.appthrust.io/workspace"] != "lost"))' states.json > kept.json && mv kept.json states.json`)
	before := o.files()
	s.Expect(o.fileNames()).To(Equal([]string{"kept.a", "kept.b", "lost.a", "lost.b"}))

	s.crash()
	o.writeStopped("flux-system Deployment/earlier 2\n")
	o.runAlone(s, o.block("backup-etcd", 1))
	s.startAPI(filepath.Join(o.dir, "restored"))
	// Only the operator reaches the API server.
	o.runAlone(s, o.block("backup-etcd", 2))
	s.expectStopped()
	s.Expect(o.readFile("stopped.txt")).NotTo(ContainSubstring("earlier"), "the file of an earlier restore is not used")
	o.runAlone(s, o.block("backup-states", 1))
	// Everything reaches the API server. At first, the manager does not start in time.
	o.refused(s, strings.Replace(o.block("backup-etcd", 3), "--timeout=5m", "--timeout=1s", 1))
	s.Expect(s.deployment("capt-system").Spec.Template.Spec.Containers[0].Args).To(ContainElement("--watch-filter=nothing"), "nothing is reconciled without the policy")
	o.run(s, o.block("backup-etcd", 3))
	s.waitRollout()
	s.Expect(s.managers).To(HaveLen(len(providers)))
	s.waitReason("default", "kept", "Ready")
	s.waitReason("default", "lost", "Ready")
	s.waitReason("default", "pending", "WaitingForApproval")
	s.Expect(o.files()).To(Equal(before), "the run that had not started is not executed")
	s.Expect(o.run(s, o.block("backup-release", 0))).To(ContainSubstring("\ncaptctl -n default plan pending\n"))
	o.run(s, "captctl -n default approve pending --yes --wait")
	s.waitReason("default", "pending", "Ready")
	before = o.files()

	// The newer inputs come back.
	stopped := o.readFile("stopped.txt")
	o.writeStopped("flux-system Deployment/deleted 2\n" + stopped)
	s.Expect(o.refused(s, o.block("backup-etcd", 4))).To(ContainSubstring("not started: flux-system/Deployment/deleted\n"))
	s.Expect(*s.deployment("flux-system").Spec.Replicas).To(BeEquivalentTo(3), "the others are started")
	o.writeStopped(stopped)
	o.run(s, o.block("backup-etcd", 4))
	s.waitRollout()
	s.Expect(*s.deployment("flux-system").Spec.Replicas).To(BeEquivalentTo(3))
	o.apply(s, newer)
	s.waitReason("default", "lost", "WaitingForApproval")
	s.waitReason("default", "kept", "Ready")
	s.Expect(o.run(s, "captctl show plan lost")).To(ContainSubstring(`terraform_data.file["b"]`))
	s.Expect(o.run(s, "captctl show plan kept")).To(ContainSubstring("No changes"), "its state was restored")
	s.Expect(o.files()).To(Equal(before), "nothing was created or destroyed by the restore")
	s.Expect(o.refused(s, o.block("backup-release", 1))).To(ContainSubstring("\ncaptctl -n default plan lost\n"))
	s.expectHold("hold-restore")

	o.run(s, "captctl reject lost && captctl run lost --yes --hold --import 'terraform_data.file[\"b\"]="+o.idOf("lost.b")+"'")
	o.run(s, "captctl approve lost --yes --wait")
	s.waitReason("default", "lost", "Ready")
	s.Expect(o.files()).To(Equal(before), "an import creates nothing")
	o.run(s, o.block("backup-release", 1))
	o.apply(s, filesWorkspace("default", "lost", "a"))
	s.Eventually(o.fileNames, testTimeout).Should(Equal([]string{"kept.a", "kept.b", "lost.a", "pending.a"}), "the imported resource is managed again")
	s.Expect(s.forbidden()).To(BeEmpty())
}

// restartManager starts the manager of the infrastructure provider with another executor.
func (s *server) restartManager(executor string) {
	s.t.Helper()
	s.executor = executor
	s.Expect(s.managers["capt-system"].stop()).To(BeTrue())
	delete(s.managers, "capt-system")
	s.waitRollout()
}

// schedule does what kube-controller-manager and kube-scheduler do with the Job of a run. The
// image is still being pulled: the run does not start.
func (s *server) schedule(name string) {
	s.t.Helper()
	var job batchv1.Job
	s.Eventually(func() error {
		return s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: name}, &job)
	}, testTimeout, 200*time.Millisecond).Should(Succeed())
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Finalizers, pod.Spec.NodeName = job.Namespace, name+"-a", []string{batchv1.JobTrackingFinalizer}, "node"
	s.Expect(controllerutil.SetControllerReference(&job, pod, s.client.Scheme())).To(Succeed())
	s.Expect(s.client.Create(s.ctx, pod)).To(Succeed())
}

// expectStopped checks that nothing would start a manager, Flux or a run.
func (s *server) expectStopped() {
	s.t.Helper()
	for _, namespace := range append(slices.Collect(maps.Values(providers)), "flux-system") {
		s.Expect(*s.deployment(namespace).Spec.Replicas).To(BeZero(), namespace)
	}
	var replicas appsv1.ReplicaSetList
	s.Expect(s.client.List(s.ctx, &replicas)).To(Succeed())
	s.Expect(replicas.Items).To(HaveLen(2))
	for _, set := range replicas.Items {
		s.Expect(*set.Spec.Replicas).To(BeZero(), set.Name)
	}
	var jobs batchv1.JobList
	s.Expect(s.client.List(s.ctx, &jobs)).To(Succeed())
	s.Expect(jobs.Items).To(BeEmpty())
	var pods corev1.PodList
	s.Expect(s.client.List(s.ctx, &pods)).To(Succeed())
	s.Expect(pods.Items).To(HaveLen(1), "the others are not shut down gracefully: their tokens are invalid now")
	s.Expect(pods.Items[0].Labels).To(HaveKeyWithValue(infrav1.ComponentLabel, "run"))
	s.Expect(pods.Items[0].DeletionTimestamp).NotTo(BeNil(), "a kubelet does not start a Pod that is being deleted")
	var bindings rbacv1.RoleBindingList
	s.Expect(s.client.List(s.ctx, &bindings, client.MatchingLabels{infrav1.RunLabel: "pending-r1"})).To(Succeed())
	s.Expect(bindings.Items).To(BeEmpty(), "a container that was started meanwhile cannot claim the run")
}

// expectHold checks that a policy still holds plans.
func (s *server) expectHold(name string) {
	s.t.Helper()
	s.Expect(s.client.Get(s.ctx, client.ObjectKey{Name: name}, &infrav1.ClusterWorkspacePolicy{})).To(Succeed())
}
