package job

import (
	"archive/zip"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	providerConstraint = `
terraform {
  required_providers {
    local = {
      source  = "hashicorp/local"
      version = "2.9.0"
    }
  }
}
`
	providerModule = providerConstraint + `
resource "local_file" "f" {
  filename = "/work/f"
  content  = "hello"
}
resource "terraform_data" "providers" {
  provisioner "local-exec" { command = "! touch /providers/file" }
}
output "greeting" { value = local_file.f.content }
`
	// archiveConfig stands for a registry.
	archiveConfig = "provider_installation {\n  filesystem_mirror {\n    path = \"/archives\"\n  }\n}\n"
	// mirrorConfig makes the providers of the volume the only ones.
	mirrorConfig = "provider_installation {\n  filesystem_mirror {\n    path = \"/providers\"\n  }\n}\n"
)

// TestManager_runsJobsWithProvidersOfAVolume uses the manifests of the documentation:
// a Job fills a claim, and runs use it without a registry.
func TestManager_runsJobsWithProvidersOfAVolume(t *testing.T) {
	h := newHarness(t)
	h.provideVolume("archives", h.archives(), corev1.ReadOnlyMany)
	h.provideVolume("providers", h.directory(65532), corev1.ReadWriteMany)
	documented := h.documented("name: providers-aws-6.47.0")
	claim, files, fill, config := documented[0].(*corev1.PersistentVolumeClaim), documented[1].(*corev1.ConfigMap), documented[2].(*batchv1.Job), documented[3].(*infrav1.WorkspaceProviderConfig)
	claim.Spec.StorageClassName, claim.Spec.Resources.Requests = new(""), corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	files.Data["providers.tf"] = providerConstraint
	files.Data["archives.tfrc"], files.Data["mirror.tfrc"] = archiveConfig, mirrorConfig
	pod := &fill.Spec.Template.Spec
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "archives", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "archives", ReadOnly: true}}})
	runner := &pod.Containers[0]
	runner.Image, runner.ImagePullPolicy = image, corev1.PullNever
	runner.Env = append(runner.Env, corev1.EnvVar{Name: "TF_CLI_CONFIG_FILE", Value: "/config/archives.tfrc"})
	runner.VolumeMounts = append(runner.VolumeMounts, corev1.VolumeMount{Name: "archives", MountPath: "/archives"})
	runner.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	h.create(claim, files, fill)
	h.waitForPod(fill)

	config.Spec.Runner.Env = []infrav1.RunnerEnvVar{{Name: "TF_CLI_CONFIG_FILE", Value: "/etc/terraform/mirror.tfrc"}}
	config.Spec.Runner.Volumes = append(config.Spec.Runner.Volumes, infrav1.RunnerVolume{Name: "config", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: files.Name}}})
	config.Spec.Runner.VolumeMounts = append(config.Spec.Runner.VolumeMounts, infrav1.RunnerVolumeMount{Name: "config", MountPath: "/etc/terraform", ReadOnly: true})
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "providers"}}
	template.Spec.Template.Spec = infrav1.WorkspaceSpec{
		ForProvider:       infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: providerModule},
		ProviderConfigRef: &infrav1.LocalReference{Name: config.Name},
	}
	h.create(config, template, apply("providers", func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.TemplateRef.Name, s.Variables = "providers", nil
	}))
	h.waitMessage("providers", infrav1.ReadyCondition, HavePrefix("True"))
	output := h.get("providers").Status.Outputs["greeting"]
	h.Expect(output.String()).To(Equal("hello"))
}

// waitForPod waits until the pod of a Job has succeeded.
func (h *harness) waitForPod(job *batchv1.Job) {
	h.t.Helper()
	h.Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(h.env.Client.List(h.ctx, &pods, client.InNamespace(h.namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
		g.Expect(pods.Items).To(ContainElement(HaveField("Status.Phase", corev1.PodSucceeded)), "%+v", pods.Items)
	}, testTimeout, 100*time.Millisecond).Should(Succeed())
}

// documented returns the objects of the YAML in the documentation that contains a text.
func (h *harness) documented(text string) []client.Object {
	h.t.Helper()
	page, err := os.ReadFile(filepath.Join(h.found(testenv.Root()), "docs", "runners.md"))
	h.Expect(err).NotTo(HaveOccurred())
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, text) {
			return h.decode(block)
		}
	}
	h.t.Fatalf("docs/runners.md has no YAML with %q", text)
	return nil
}

// decode returns the objects of a YAML text.
func (h *harness) decode(text string) []client.Object {
	h.t.Helper()
	parsed, err := manifest.Parse([]byte(text))
	h.Expect(err).NotTo(HaveOccurred())
	var objects []client.Object
	for _, u := range parsed {
		obj, err := h.env.Scheme.New(u.GroupVersionKind())
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, obj, true)).To(Succeed())
		objects = append(objects, obj.(client.Object))
	}
	return objects
}

// directory returns a directory of a user, which pods can access.
func (h *harness) directory(user int) string {
	h.t.Helper()
	dir, err := os.MkdirTemp("", "capt-providers-")
	h.Expect(err).NotTo(HaveOccurred())
	h.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h.Expect(os.Chmod(dir, 0o755)).To(Succeed())
	h.Expect(os.Chown(dir, user, user)).To(Succeed())
	return dir
}

// archives returns a directory with an archive of the provider.
func (h *harness) archives() string {
	h.t.Helper()
	dir := h.directory(0)
	program, err := os.ReadFile(h.found(testenv.Part("terraform-provider-local")))
	h.Expect(err).NotTo(HaveOccurred())
	parent := filepath.Join(dir, "registry.opentofu.org", "hashicorp", "local")
	h.Expect(os.MkdirAll(parent, 0o755)).To(Succeed())
	archive, err := os.Create(filepath.Join(parent, "terraform-provider-local_2.9.0_linux_"+goruntime.GOARCH+".zip"))
	h.Expect(err).NotTo(HaveOccurred())
	z := zip.NewWriter(archive)
	header := &zip.FileHeader{Name: "terraform-provider-local_v2.9.0", Method: zip.Deflate}
	header.SetMode(0o755)
	w, err := z.CreateHeader(header)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(w.Write(program)).Error().NotTo(HaveOccurred())
	h.Expect(z.Close()).To(Succeed())
	h.Expect(archive.Close()).To(Succeed())
	return dir
}

// provideVolume creates a volume that is a directory of the node, and its claim unless
// the documentation has one.
func (h *harness) provideVolume(name, dir string, mode corev1.PersistentVolumeAccessMode) {
	h.t.Helper()
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{mode}
	h.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: storage, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: h.namespace, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
	}})
	if mode == corev1.ReadOnlyMany {
		h.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), VolumeName: name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: storage},
		}})
	}
}
