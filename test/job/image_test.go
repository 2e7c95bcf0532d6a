package job

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// script uses what modules need: git with submodules and over https, ssh, sh and the CA
// certificates.
const script = `set -eu
test "$(id -u)" = 65532
! touch /file 2>/dev/null
git init -q /work/module
cd /work/module
echo 'output "greeting" { value = "hello" }' > main.tf
git add main.tf
git -c user.name=test -c user.email=test@example.com commit -q -m module
mkdir /work/root
cd /work/root
cat > main.tf <<'TF'
module "greeting" { source = "git::file:///work/module" }
resource "terraform_data" "shell" {
  provisioner "local-exec" { command = "echo ${module.greeting.greeting} | sed s/hello/HELLO/ > /work/out" }
}
TF
tofu init -no-color
tofu apply -no-color -auto-approve
test "$(cat /work/out)" = HELLO
ssh -V
test "$(grep -c 'BEGIN CERTIFICATE' /etc/ssl/certs/ca-certificates.crt)" -gt 100
git ls-remote https://127.0.0.1:1/repository 2>/work/error && exit 1
cat /work/error
grep -q 'Failed to connect\|Could not connect' /work/error
`

// TestRunnerImage_hasWhatModulesNeed runs the image as Jobs do: as an unprivileged user
// with a read-only root file system.
func TestRunnerImage_hasWhatModulesNeed(t *testing.T) {
	h := newHarness(t)
	yes, no := true, false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "image"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "runner", Image: image, ImagePullPolicy: corev1.PullNever, Command: []string{"sh", "-c", script},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: &yes, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: "/work"}, {Name: "tmp", MountPath: "/tmp"}},
			}},
			SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(65532))},
			Volumes: []corev1.Volume{
				{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	pod.Namespace = h.namespace
	h.Eventually(func() error { return h.env.Client.Create(h.ctx, pod) }, testTimeout, 100*time.Millisecond).
		Should(Succeed(), "the service account of the namespace is created")
	h.Eventually(func(g Gomega) {
		g.Expect(h.env.Client.Get(h.ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Phase).To(BeElementOf(corev1.PodSucceeded, corev1.PodFailed), "%+v", pod.Status)
	}, testTimeout, 100*time.Millisecond).Should(Succeed())
	h.Expect(pod.Status.Phase).To(Equal(corev1.PodSucceeded), "%+v", pod.Status.ContainerStatuses)
}
