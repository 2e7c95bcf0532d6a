package job_test

import (
	"encoding/json"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
)

// started starts a run with a pod template, and returns its Job.
func (f *fixture) started(name, template string) *batchv1.Job {
	f.t.Helper()
	f.start(name, func(r *terraform.Request) { r.Pod.Template = []byte(template) })
	return f.job("capt-run-" + name + "-r1")
}

func TestStart_usesThePodTemplate(t *testing.T) {
	f := newFixture(t)
	f.executor = job.New(job.Options{
		Client: f.manager().Client, Reader: f.manager().Client, Image: "example.com/runner:v1",
		Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://manager"}, {Name: "NO_PROXY", Value: "manager"}},
	})
	template := f.started("template", `{
		"metadata": {"labels": {"team": "a"}, "annotations": {"sidecar.istio.io/inject": "false"}},
		"spec": {
			"imagePullSecrets": [{"name": "registry"}],
			"priorityClassName": "runs",
			"runtimeClassName": "gvisor",
			"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]}},
			"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
			"volumes": [
				{"name": "config", "configMap": {"name": "terraform"}},
				{"name": "ssh", "secret": {"secretName": "ssh"}},
				{"name": "cache", "persistentVolumeClaim": {"claimName": "providers", "readOnly": true}},
				{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}
			],
			"containers": [{
				"name": "", "imagePullPolicy": "Always",
				"env": [{"name": "AWS_REGION", "value": "eu-central-1"}, {"name": "HTTPS_PROXY", "value": "http://mine"}],
				"volumeMounts": [{"name": "config", "mountPath": "/etc/terraform", "readOnly": true}, {"name": "cache", "mountPath": "/cache", "subPath": "a", "readOnly": true}]
			}]
		}
	}`).Spec.Template
	f.Expect(template.Labels).To(And(HaveKeyWithValue("team", "a"), HaveKeyWithValue("capt.appthrust.io/run", "template-r1")))
	f.Expect(template.Annotations).To(And(HaveKeyWithValue("sidecar.istio.io/inject", "false"), HaveKeyWithValue("karpenter.sh/do-not-disrupt", "true")))
	spec := template.Spec
	f.Expect(spec.ImagePullSecrets).To(ConsistOf(HaveField("Name", "registry")))
	f.Expect(spec.PriorityClassName).To(Equal("runs"))
	f.Expect(spec.RuntimeClassName).To(HaveValue(Equal("gvisor")))
	f.Expect(spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution).To(HaveLen(1))
	f.Expect(spec.TopologySpreadConstraints).To(ConsistOf(HaveField("TopologyKey", "zone")))
	f.Expect(spec.Volumes).To(ConsistOf(
		HaveField("Name", "work"), HaveField("Name", "tmp"), HaveField("Name", "capt-api"),
		HaveField("ConfigMap.Name", "terraform"), HaveField("Secret.SecretName", "ssh"),
		HaveField("PersistentVolumeClaim.ReadOnly", true), HaveField("EmptyDir.SizeLimit.String()", "1Gi"),
	))
	runner := spec.Containers[0]
	f.Expect(runner.ImagePullPolicy).To(Equal(corev1.PullAlways))
	f.Expect(runner.Image).To(Equal("example.com/runner:v1"))
	f.Expect(runner.VolumeMounts).To(ConsistOf(
		HaveField("MountPath", "/work"), HaveField("MountPath", "/tmp"), HaveField("MountPath", "/var/run/secrets/capt"),
		corev1.VolumeMount{Name: "config", MountPath: "/etc/terraform", ReadOnly: true},
		corev1.VolumeMount{Name: "cache", MountPath: "/cache", SubPath: "a", ReadOnly: true},
	))
	f.Expect(runner.Env).To(ContainElements(
		corev1.EnvVar{Name: "AWS_REGION", Value: "eu-central-1"},
		corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://mine"}, corev1.EnvVar{Name: "NO_PROXY", Value: "manager"},
	))
	f.Expect(runner.Env).NotTo(ContainElement(corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://manager"}))
}

// TestStart_ignoresWhatATemplateMustNotSet uses a template that no schema has checked. A
// run may create the Secret of a later run, and so choose its template.
func TestStart_ignoresWhatATemplateMustNotSet(t *testing.T) {
	f := newFixture(t)
	plain := f.started("plain", "").Spec.Template
	hostile := f.started("hostile", `{
		"metadata": {"labels": {"capt.appthrust.io/run": "other-r1"}, "annotations": {"karpenter.sh/do-not-disrupt": "false"}},
		"spec": {
			"hostNetwork": true, "hostPID": true, "hostIPC": true, "hostUsers": true, "shareProcessNamespace": true,
			"nodeName": "control-plane-0", "serviceAccountName": "admin", "restartPolicy": "Always",
			"securityContext": {"runAsUser": 0, "runAsNonRoot": false, "supplementalGroups": [0], "sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
			"initContainers": [{"name": "init", "image": "example.com/hostile:1"}],
			"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}],
			"containers": [{
				"name": "hostile", "image": "example.com/hostile:1", "command": ["sh"], "args": ["-c", "id"],
				"env": [{"name": "POD_UID", "value": "other"}, {"name": "HOME", "value": "/"}],
				"ports": [{"containerPort": 80, "hostPort": 80}],
				"lifecycle": {"postStart": {"exec": {"command": ["sh"]}}},
				"securityContext": {"privileged": true, "allowPrivilegeEscalation": true, "capabilities": {"add": ["SYS_ADMIN"]}},
				"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]
			}]
		}
	}`).Spec.Template
	f.Expect(hostile.Labels).To(HaveKeyWithValue("capt.appthrust.io/run", "hostile-r1"))
	f.Expect(hostile.Annotations).To(Equal(plain.Annotations))
	volumes, mounts := hostile.Spec.Volumes, hostile.Spec.Containers[0].VolumeMounts
	f.Expect(volumes[len(volumes)-1].VolumeSource).To(Equal(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	f.Expect(mounts[len(mounts)-1]).To(Equal(corev1.VolumeMount{Name: "v", MountPath: "/v"}))
	hostile.Spec.Volumes, hostile.Spec.Containers[0].VolumeMounts = volumes[:len(volumes)-1], mounts[:len(mounts)-1]
	hostile.Spec.ServiceAccountName, hostile.Spec.DeprecatedServiceAccount = plain.Spec.ServiceAccountName, plain.Spec.DeprecatedServiceAccount
	hostile.Spec.Containers[0].Args = plain.Spec.Containers[0].Args
	isDigest := func(v corev1.EnvVar) bool { return v.Name == terraform.DigestEnv }
	for _, pod := range []*corev1.PodTemplateSpec{&plain, &hostile} {
		env := pod.Spec.Containers[0].Env
		f.Expect(env).To(ContainElement(HaveField("Name", terraform.DigestEnv)))
		pod.Spec.Containers[0].Env = slices.DeleteFunc(env, isDigest)
	}
	f.Expect(hostile.Spec).To(Equal(plain.Spec), "everything else is as without a template")
}

func TestStart_finishesARunWithAnInvalidPod(t *testing.T) {
	for name, test := range map[string]struct {
		template string
		want     string
	}{
		"node":     {`{"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}`, "volume v: use emptyDir, configMap, secret or persistentVolumeClaim"},
		"priority": {`{"spec": {"priorityClassName": "system-node-critical"}}`, "use a PriorityClass of your own"},
		"two":      {`{"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}`, "a run has one container"},
		"text":     {`[]`, "decoding the pod template"},
		"affinity": {
			`{"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Equals"}]}]}}}}}`,
			"nodeSelectorTerms[0].matchExpressions[0].operator",
		},
		"mount": {`{"spec": {"containers": [{"volumeMounts": [{"name": "work", "mountPath": "/work"}]}]}}`, "must be unique"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			run := f.run(f.workspace(name), func(r *terraform.Request) { r.Pod.Template = []byte(test.template) })
			for range 2 {
				f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
			}
			f.Expect(apierrors.IsNotFound(f.get(&batchv1.Job{}, "capt-run-"+name+"-r1"))).To(BeTrue())
			result := f.result(run)
			f.Expect(result.Outcome).To(Equal(terraform.OutcomeFailed))
			f.Expect(result.Class).To(Equal(terraform.ClassTerminal))
			text, err := json.Marshal(result.Diagnostics)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(string(text)).To(And(ContainSubstring(test.want), ContainSubstring("Correct spec.runner of the WorkspaceProviderConfig")))
		})
	}
}
