package clusterctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// A shell continues after errors, so a block has to end itself: the file of a backup would be
// overwritten with nothing, or a restore would continue without the hold.
func TestBackup_blocksEndAtErrors(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	for _, scenario := range []string{"backup", "backup-clusterctl", "backup-etcd", "backup-fence", "backup-hold", "backup-hold-namespace", "backup-release", "backup-states"} {
		for _, block := range testenv.Blocks(o.page, scenario) {
			if block = strings.TrimSpace(block); strings.Contains(block, "\n") {
				NewWithT(t).Expect(block).To(HavePrefix("( set -eo pipefail\n"))
			}
		}
	}
}

// kubeadmManifest has the shape of the manifest that kubeadm writes.
const kubeadmManifest = `
apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system, labels: {component: kube-apiserver}}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
  - name: kube-apiserver
    image: registry.k8s.io/kube-apiserver:v1.37.1
    command: [kube-apiserver, --advertise-address=192.0.2.1, --secure-port=6443, --tls-cert-file=/etc/kubernetes/pki/apiserver.crt]
    ports: [{containerPort: 6443, name: probe-port, protocol: TCP}]
    livenessProbe: {failureThreshold: 8, httpGet: {host: 192.0.2.1, path: /livez, port: probe-port, scheme: HTTPS}}
    readinessProbe: {failureThreshold: 3, httpGet: {host: 192.0.2.1, path: /readyz, port: probe-port, scheme: HTTPS}}
    startupProbe: {failureThreshold: 24, httpGet: {host: 192.0.2.1, path: /livez, port: probe-port, scheme: HTTPS}}
`

// The probes use the address of the node, on which the API server does not listen.
func TestBackup_fencesKubeadm(t *testing.T) {
	if os.Getenv("CAPT_TEST_CLUSTERCTL") == "" {
		t.Skip("run `make test-clusterctl`")
	}
	t.Parallel()
	g, o := NewWithT(t), newOperator(t)
	g.Expect(os.WriteFile(filepath.Join(o.dir, "kube-apiserver.yaml"), []byte(kubeadmManifest), 0o600)).To(Succeed())
	o.runLocally(o.block("backup-fence", 0))

	var want, fenced corev1.Pod
	g.Expect(yaml.UnmarshalStrict([]byte(kubeadmManifest), &want)).To(Succeed())
	g.Expect(yaml.UnmarshalStrict([]byte(o.readFile("fenced.json")), &fenced)).To(Succeed())
	server := &want.Spec.Containers[0]
	server.LivenessProbe, server.ReadinessProbe, server.StartupProbe = nil, nil, nil
	// The last value of a flag counts.
	server.Command = append(server.Command, "--bind-address=127.0.0.1", "--secure-port=16443")
	g.Expect(fenced.Spec).To(Equal(want.Spec))
}

// A hold has the name of the procedure that removes it. A manager for one namespace refuses
// policies of the cluster.
func TestBackup_holdsByOwnName(t *testing.T) {
	if os.Getenv("CAPT_TEST_CLUSTERCTL") == "" {
		t.Skip("run `make test-clusterctl`")
	}
	t.Parallel()
	g, o := NewWithT(t), newOperator(t)
	var hold infrav1.ClusterWorkspacePolicy
	text, err := os.ReadFile(filepath.Join(o.root, "policies", "hold.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.UnmarshalStrict(text, &hold)).To(Succeed())
	for _, use := range []string{"backup", "restore"} {
		o.runLocally(o.block("backup-hold", 0))
		var ofCluster infrav1.ClusterWorkspacePolicy
		g.Expect(yaml.UnmarshalStrict([]byte(o.readFile("hold-"+use+".yaml")), &ofCluster)).To(Succeed())
		g.Expect(ofCluster.TypeMeta).To(Equal(hold.TypeMeta))
		g.Expect(ofCluster.Name).To(Equal("hold-" + use))
		g.Expect(ofCluster.Spec).To(Equal(hold.Spec))

		o.runLocally(o.block("backup-hold-namespace", 0))
		var ofNamespace infrav1.WorkspacePolicy
		g.Expect(yaml.UnmarshalStrict([]byte(o.readFile("hold-"+use+".yaml")), &ofNamespace)).To(Succeed())
		g.Expect(ofNamespace.Kind).To(Equal("WorkspacePolicy"))
		g.Expect(client.ObjectKeyFromObject(&ofNamespace)).To(Equal(client.ObjectKey{Namespace: "team-a", Name: "hold-" + use}))
		g.Expect(ofNamespace.Spec.Rules).To(Equal(hold.Spec.Rules))
	}
}

// failBackups makes backups with clusterctl that do not succeed. None leaves anything paused or
// held that was not before.
func (o *operator) failBackups(s *server) {
	o.t.Helper()
	block := o.block("backup-clusterctl", 2)

	// A file cannot be written when the clusters are paused.
	out := o.refused(s, `clusterctl() {
  test $namespace != default || mkdir -p backup.new/default/WorkspaceTemplateApply_default_demo.yaml/file
  command clusterctl "$@"
}
`+block)
	s.Expect(out).To(And(ContainSubstring("directory not empty"), ContainSubstring("\nnot saved: default\n")))
	s.expectResumed(false)
	s.Expect(filepath.Join(o.dir, "backup", "platform")).To(BeADirectory(), "the other namespace is saved")
	s.Expect(filepath.Join(o.dir, "backup", "default")).NotTo(BeADirectory(), "there is no half copy")

	// The user ends it when the clusters are paused.
	o.refused(s, `clusterctl() {
  kubectl -n $namespace patch clusters.cluster.x-k8s.io demo --type=merge -p '{"spec":{"paused":true}}'
  sh -c 'kill -TERM 0; sleep 60'
}
`+block)
	s.expectResumed(false)
	s.Expect(filepath.Join(o.dir, "backup", "platform")).To(BeADirectory(), "the last copy is kept")

	// A user has paused a cluster.
	o.run(s, `kubectl patch clusters.cluster.x-k8s.io demo --type=merge -p '{"spec":{"paused":true}}' && rm -r backup && mkdir -p backup/default && touch backup/default/earlier`)
	s.Expect(o.refused(s, block)).To(ContainSubstring("\nnot saved: default\n"))
	s.expectResumed(true)
	s.Expect(filepath.Join(o.dir, "backup", "platform")).To(BeADirectory(), "the other namespace is saved")
	s.Expect(filepath.Join(o.dir, "backup", "default", "earlier")).To(BeARegularFile(), "the earlier copy is kept")
	o.run(s, `kubectl patch clusters.cluster.x-k8s.io demo --type=merge -p '{"spec":{"paused":null}}'`)

	// A restore is in progress.
	o.run(s, "kubectl apply -f hold-restore.yaml")
	s.Expect(o.refused(s, block)).To(ContainSubstring("a restore is in progress"))
	s.expectHold("hold-restore")
	o.run(s, "kubectl delete -f hold-restore.yaml")

	// Another backup is in progress.
	o.run(s, "kubectl apply -f hold-backup.yaml")
	s.Expect(o.refused(s, block)).To(ContainSubstring("already exists"))
	s.expectHold("hold-backup")
	o.run(s, "kubectl delete -f hold-backup.yaml")
}

// backUpWhileRunning makes backups while a workspace is applied. The run ends when the plans are
// held and the second backup waits for it.
func (o *operator) backUpWhileRunning(s *server) {
	o.t.Helper()
	o.apply(s, fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: slow, namespace: default}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "slow" {
            provisioner "local-exec" {
              command = "until test -e %s/released; do sleep 0.1; done"
            }
          }
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: slow, namespace: default}
spec: {templateRef: {name: slow}}
`, o.dir))
	s.Eventually(func(g Gomega) {
		var apply infrav1.WorkspaceTemplateApply
		g.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "slow"}, &apply)).To(Succeed())
		g.Expect(apply.Status.Run).NotTo(BeNil())
	}, testTimeout, 200*time.Millisecond).Should(Succeed())
	// It does not end in time. The earlier copy is that of failBackups.
	out := o.refused(s, `sleep() { test $1 != 10 || command sleep 10; SECONDS=3600; }
rm -r backup/platform
`+o.block("backup-clusterctl", 2))
	s.Expect(out).To(And(ContainSubstring("\ndefault: a run has not ended\n"), ContainSubstring("\nnot saved: default\n")))
	s.expectResumed(false)
	s.Expect(filepath.Join(o.dir, "backup", "platform")).To(BeADirectory(), "the other namespace is saved")
	s.Expect(filepath.Join(o.dir, "backup", "default", "earlier")).To(BeARegularFile(), "the earlier copy is kept")
	// A user holds plans for another reason.
	o.run(s, `kubectl apply -f "$CAPT_ROOT"/policies/hold.yaml`)
	o.run(s, `clusterctl() { test -e released && command clusterctl "$@"; }
( until kubectl get -f hold-backup.yaml; do sleep 1; done; sleep 20; touch released ) > /dev/null 2>&1 &
`+o.block("backup-clusterctl", 2))
	s.expectResumed(false)
	s.Expect(filepath.Join(o.dir, "backup", "default", "earlier")).NotTo(BeAnExistingFile(), "what does not exist any more is not kept")
	s.expectHold("hold")
	o.run(s, `kubectl delete -f "$CAPT_ROOT"/policies/hold.yaml`)
}

// expectResumed checks that the cluster is paused only if a user has paused it, and that the
// backup holds no plans.
func (s *server) expectResumed(paused bool) {
	s.t.Helper()
	var cluster clusterv1.Cluster
	s.Expect(s.client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, &cluster)).To(Succeed())
	s.Expect(ptr.Deref(cluster.Spec.Paused, false)).To(Equal(paused))
	err := s.client.Get(s.ctx, client.ObjectKey{Name: "hold-backup"}, &infrav1.ClusterWorkspacePolicy{})
	s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// keepsLastCopies checks that the copies of a management cluster stay when it is lost, or has
// nothing.
func (o *operator) keepsLastCopies(lost, empty *server) {
	o.t.Helper()
	files := []string{"states.json", "copies/namespaces.json", "copies/states.json", "copies/rules.json", "copies/workspaces.json", "namespaces.json"}
	before := map[string]string{}
	for _, file := range files {
		before[file] = o.readFile(file)
		lost.Expect(before[file]).NotTo(BeEmpty(), file)
	}
	o.refused(lost, o.block("backup-states", 0))
	o.refused(lost, o.block("backup", 0))
	o.refused(lost, o.block("backup-clusterctl", 2))
	lost.Expect(o.refused(empty, o.block("backup-states", 0))).To(ContainSubstring("there are no states"))
	for _, file := range files {
		lost.Expect(o.readFile(file)).To(Equal(before[file]), file)
	}
	lost.Expect(filepath.Join(o.dir, "backup", "default")).To(BeADirectory())
}

func (o *operator) readFile(name string) string {
	o.t.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, name))
	NewWithT(o.t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func (o *operator) writeStopped(text string) {
	o.t.Helper()
	NewWithT(o.t).Expect(os.WriteFile(filepath.Join(o.dir, "stopped.txt"), []byte(text), 0o600)).To(Succeed())
}
