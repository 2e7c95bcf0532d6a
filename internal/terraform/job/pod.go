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
	"github.com/appthrust/capt/internal/terraform/record"
)

const (
	container = "runner"
	// program is the runner in its image.
	program = "/runner"
	workDir = "/work"
	tempDir = "/tmp"
	// user is nobody in particular; every image has it.
	user = 65532
	// grace is how long a run may take to stop when its request does not say.
	grace = 10 * time.Minute
	// margin is what the runner needs after its command has ended, to save the
	// state and write the result.
	margin = 5 * time.Minute
	// startup is how long a pod may take to begin: a node may have to be made
	// for it.
	startup = 30 * time.Minute
)

// job is the Job of a run. It never tries again: that is for the controller to
// decide, who knows what the run has done.
func (e *Executor) job(run terraform.Run, request *terraform.Request) (*batchv1.Job, error) {
	meta := record.LocalMeta(request.Workspace, record.ComponentRun, run.ID)
	pod, err := e.pod(run, request)
	if err != nil {
		return nil, err
	}
	pod.Labels = meta.Labels
	pod.Annotations = map[string]string{
		// Nobody is to move a run to another node.
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
	meta.Name = name(run.ID)
	once, never := int32(1), int32(0)
	// A pod that is ending is not replaced before it has ended.
	replace := batchv1.Failed
	job := &batchv1.Job{ObjectMeta: *meta.DeepCopy(), Spec: batchv1.JobSpec{
		Parallelism: &once, Completions: &once, BackoffLimit: &never, PodReplacementPolicy: &replace, Template: *pod,
	}}
	if run.Pod.TimeoutSeconds > 0 {
		// The runner minds its timeout itself; this is for one that never
		// begins, or hangs.
		deadline := run.Pod.TimeoutSeconds + *pod.Spec.TerminationGracePeriodSeconds + int64(startup.Seconds())
		job.Spec.ActiveDeadlineSeconds = &deadline
	}
	return job, nil
}

func (e *Executor) pod(run terraform.Run, request *terraform.Request) (*corev1.PodTemplateSpec, error) {
	runner, err := e.container(run)
	if err != nil {
		return nil, err
	}
	account := run.Pod.ServiceAccountName
	if account == "" {
		account = name(run.ID)
	}
	patience := grace
	if request.Grace > 0 {
		patience = request.Grace
	}
	var (
		id       = int64(user)
		yes, no  = true, false
		stopping = int64((patience + margin).Seconds())
	)
	pod := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		ServiceAccountName:            account,
		AutomountServiceAccountToken:  &yes,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &stopping,
		NodeSelector:                  run.Pod.NodeSelector,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{*runner},
		Volumes:    []corev1.Volume{emptyDir("work"), emptyDir("tmp")},
	}}
	if len(run.Pod.Tolerations) > 0 {
		if err := json.Unmarshal(run.Pod.Tolerations, &pod.Spec.Tolerations); err != nil {
			return nil, fmt.Errorf("decoding the tolerations: %w", err)
		}
	}
	return pod, nil
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func (e *Executor) container(run terraform.Run) (*corev1.Container, error) {
	image := e.Image
	if run.Pod.Image != "" {
		image = run.Pod.Image
	}
	if image == "" {
		return nil, errors.New("no image for the Job: set --runner-image of the manager, or runner.image of the WorkspaceProviderConfig")
	}
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		// Little for the runner; a provider takes some hundred MiB.
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("512Mi"),
	}}
	if len(run.Pod.Resources) > 0 {
		resources = corev1.ResourceRequirements{}
		if err := json.Unmarshal(run.Pod.Resources, &resources); err != nil {
			return nil, fmt.Errorf("decoding the resources: %w", err)
		}
	}
	yes, no := true, false
	return &corev1.Container{
		Name: container, Image: image,
		Command: []string{program},
		Args: []string{
			"--namespace=" + run.Namespace, "--run=" + run.ID, "--work-dir=" + workDir,
			// Whatever is in the pod's environment was put there for the run, such
			// as the identity that a cloud gives to its account.
			"--inherit-env=*",
		},
		Env: slices.Concat([]corev1.EnvVar{
			field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_UID", "metadata.uid"),
			{Name: "HOME", Value: tempDir},
			{Name: "TMPDIR", Value: tempDir},
		}, e.Env),
		Resources:    resources,
		VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: workDir}, {Name: "tmp", MountPath: tempDir}},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: &yes, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		// What a runner says that could not even begin.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}, nil
}

// field is a variable that tells the runner who it is.
func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}
