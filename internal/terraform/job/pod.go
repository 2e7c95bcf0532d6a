package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/record"
)

const (
	container = "runner"
	// program is the path of the runner in its image.
	program = "/runner"
	workDir = "/work"
	tempDir = "/tmp"
	// apiName is the volume with the token of the run, and apiDir where it is mounted.
	apiName = "capt-api"
	apiDir  = "/var/run/secrets/capt"
	// providersDir has the providers of the image, or of a volume that is mounted
	// there.
	providersDir = "/providers"
	// user is an unprivileged user ID, which need not exist in the image.
	user = 65532
	// defaultGrace is how long a run may take to stop if its request sets no
	// grace period.
	defaultGrace = 10 * time.Minute
	// saveTimeout is how long the runner may take after its command has exited,
	// to save the state and write the result.
	saveTimeout = 5 * time.Minute
	// startTimeout is how long a pod may take to start. It may need a new node.
	startTimeout = 30 * time.Minute
)

// job returns the Job of a run. The Job never retries: the controller decides
// about retries, because it knows what the run has changed.
func (e *Executor) job(run terraform.Run, request *terraform.Request) (*batchv1.Job, error) {
	meta := record.LocalMeta(request.Workspace, record.ComponentRun, run.ID)
	pod, err := e.pod(run, request)
	if err != nil {
		return nil, err
	}
	pod.Labels = meta.Labels
	pod.Annotations = map[string]string{
		// Neither autoscaler may evict a run.
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
	if err := customize(pod, request.Pod.Template); err != nil {
		return nil, err
	}
	meta.Name = name(run.ID)
	once, never := int32(1), int32(0)
	// A terminating pod is not replaced before it has terminated.
	replace := batchv1.Failed
	job := &batchv1.Job{ObjectMeta: *meta.DeepCopy(), Spec: batchv1.JobSpec{
		Parallelism: &once, Completions: &once, BackoffLimit: &never, PodReplacementPolicy: &replace, Template: *pod,
	}}
	if request.Timeout > 0 {
		// The runner enforces its timeout. The deadline is for a runner that never
		// starts, or hangs.
		deadline := int64((lastStop(request) + startTimeout).Seconds())
		job.Spec.ActiveDeadlineSeconds = &deadline
	}
	return job, nil
}

// lastStop is how long after its start a pod has ended, whenever it is stopped: an apply may
// continue until the limit of the run, is then interrupted, and its state is saved.
func lastStop(request *terraform.Request) time.Duration {
	grace := defaultGrace
	if request.Grace > 0 {
		grace = request.Grace
	}
	return request.Limit() + grace + saveTimeout
}

func (e *Executor) pod(run terraform.Run, request *terraform.Request) (*corev1.PodTemplateSpec, error) {
	runner, err := e.container(run, request)
	if err != nil {
		return nil, err
	}
	// The token of the run's own account is in a volume, which the module does not need.
	// An account of the user has its token at the usual path, for the module, unless the account
	// itself says that its pods have none.
	account, automount, api := name(run.ID), new(false), ownToken(request)
	if request.Pod.ServiceAccountName != "" {
		account, automount, api = request.Pod.ServiceAccountName, nil, storedToken(run)
	}
	var (
		id          = int64(user)
		yes, no     = true, false
		gracePeriod = int64(lastStop(request).Seconds())
		// Without it, each run would change the owner of all files of a volume.
		onMismatch = corev1.FSGroupChangeOnRootMismatch
	)
	pod := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		ServiceAccountName:            account,
		AutomountServiceAccountToken:  automount,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &gracePeriod,
		NodeSelector:                  request.Pod.NodeSelector,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, FSGroupChangePolicy: &onMismatch,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{*runner},
		Volumes:    []corev1.Volume{emptyDir("work"), emptyDir("tmp"), apiVolume(api)},
	}}
	if len(request.Pod.Tolerations) > 0 {
		if err := json.Unmarshal(request.Pod.Tolerations, &pod.Spec.Tolerations); err != nil {
			return nil, fmt.Errorf("decoding tolerations: %w", err)
		}
	}
	return pod, nil
}

// shortestToken is the shortest lifetime of a projected token. It ends with the pod. A shorter
// one would end while the API server is not available for some minutes.
const shortestToken = time.Hour

// ownToken is the token of the pod's account, which is that of the run. It names no audience:
// Kubernetes then issues it for the API server, which is the only one that the runner calls, and
// whose audiences only its administrator knows. Others must refuse it.
//
// It is valid as long as the pod: the kubelet does not renew the token of a pod that is
// terminating (kubernetes/kubernetes#116481).
func ownToken(request *terraform.Request) corev1.VolumeProjection {
	needed := shortestToken
	if request.Timeout > 0 {
		needed = max(needed, lastStop(request)+startTimeout)
	}
	seconds := int64(needed.Seconds())
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: access.TokenKey, ExpirationSeconds: &seconds}}
}

// storedToken is the token of the run's account in a pod of another account.
func storedToken(run terraform.Run) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: access.TokenSecretName(run.ID)},
		Items:                []corev1.KeyToPath{{Key: access.TokenKey, Path: access.TokenKey}},
	}}
}

// apiVolume has what the runner needs to access the API server.
func apiVolume(token corev1.VolumeProjection) corev1.Volume {
	const ca = "ca.crt"
	// Only the user of the container and its group read the files.
	mode := int32(0o440)
	return corev1.Volume{Name: apiName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{token, {ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: ca, Path: ca}},
		}}},
	}}}
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func (e *Executor) container(run terraform.Run, request *terraform.Request) (*corev1.Container, error) {
	image := e.Image
	if request.Pod.Image != "" {
		image = request.Pod.Image
	}
	if image == "" {
		return nil, errors.New("creating Job: no runner image: set --runner-image of the manager, or spec.runner.image of the WorkspaceProviderConfig")
	}
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		// The runner needs little; a provider needs several hundred MiB.
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("512Mi"),
		// Without it, the limit would be requested.
		corev1.ResourceEphemeralStorage: resource.MustParse("0"),
	}, Limits: corev1.ResourceList{
		// A module must not exhaust its node.
		corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
	}}
	if len(request.Pod.Resources) > 0 {
		resources = corev1.ResourceRequirements{}
		if err := json.Unmarshal(request.Pod.Resources, &resources); err != nil {
			return nil, fmt.Errorf("decoding resources: %w", err)
		}
	}
	yes, no := true, false
	return &corev1.Container{
		Name: container, Image: image,
		Command: []string{program},
		Args: []string{
			"--namespace=" + run.Namespace, "--run=" + run.ID, "--work-dir=" + workDir, "--api-dir=" + apiDir,
			// With the token of the run, a module could write the result.
			"--hide=" + apiDir,
			// The environment of the pod is intended for the run, for example the
			// cloud identity of its service account.
			"--inherit-env=*",
		},
		Env: slices.Concat([]corev1.EnvVar{
			field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_UID", "metadata.uid"),
			{Name: "HOME", Value: tempDir},
			{Name: "TMPDIR", Value: tempDir},
			{Name: terraform.ProvidersEnv, Value: providersDir},
			{Name: terraform.DigestEnv, Value: run.Digest},
		}, e.Env),
		Resources:    resources,
		VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: workDir}, {Name: "tmp", MountPath: tempDir}, {Name: apiName, MountPath: apiDir, ReadOnly: true}},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: &yes, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		// Shows the output of a runner that could not start.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}, nil
}

// field returns a variable with a field of the pod.
func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}
