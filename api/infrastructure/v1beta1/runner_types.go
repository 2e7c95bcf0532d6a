package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
)

// Executor runs Terraform.
// +kubebuilder:validation:Enum=Process;Job
type Executor string

// The executors.
const (
	// ExecutorProcess runs Terraform as a child of the manager.
	ExecutorProcess Executor = "Process"
	// ExecutorJob runs Terraform as a Kubernetes Job.
	ExecutorJob Executor = "Job"
)

// RunnerConfig configures where and with which identity Terraform runs. All fields
// other than executor are those of the Job's pod.
//
// The author of a config decides about a pod that the manager creates. So the fields
// are those with which a pod complies with the restricted Pod Security
// Standard and has no privilege outside its namespace.
// +kubebuilder:validation:XValidation:rule="!has(self.executor) || self.executor == 'Job' || !(has(self.serviceAccountName) || has(self.image) || has(self.imagePullPolicy) || has(self.imagePullSecrets) || has(self.resources) || has(self.nodeSelector) || has(self.tolerations) || has(self.affinity) || has(self.topologySpreadConstraints) || has(self.priorityClassName) || has(self.runtimeClassName) || has(self.podLabels) || has(self.podAnnotations) || has(self.env) || has(self.volumes) || has(self.volumeMounts))",message="all fields other than executor are those of the Job's pod; set executor: Job, or remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",fieldPath=".volumeMounts",message="each name must be that of an entry of volumes"
type RunnerConfig struct {
	// executor is how Terraform is run. Defaults to the manager's setting.
	// +optional
	Executor Executor `json:"executor,omitempty"`

	// serviceAccountName is the account of the Job's pod, for example one bound
	// to a cloud role. Without it CAPT creates one that can access only its
	// own run and state.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// image is the runner's image. Defaults to the manager's setting.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// imagePullPolicy is when the image is pulled. Defaults to the setting of
	// Kubernetes: Always for the tag latest, else IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets beside the workspace with which the image is
	// pulled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// resources are the requests and limits of the Job's pod: cpu, memory and
	// ephemeral-storage, which modules and downloaded providers use.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// nodeSelector chooses the nodes the Job's pod may run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let the Job's pod run on tainted nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity is the affinity of the Job's pod to nodes and other pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints spread the pods of Jobs over nodes or zones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the Job's pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="runs must not evict the pods of the system; use a PriorityClass of your own"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the RuntimeClass of the Job's pod, for example a sandbox.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// podLabels are labels of the Job's pod, for example for a cloud identity or
	// a NetworkPolicy.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^([a-z0-9.-]*[.-])?(kubernetes[.]io|k8s[.]io|appthrust[.]io)/|^(job-name|controller-uid)$') || key.startsWith('app.kubernetes.io/'))",message="labels of Kubernetes, Cluster API and CAPT must not be set; use app.kubernetes.io/ or a domain of your own"
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// podAnnotations are annotations of the Job's pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^([a-z0-9.-]*[.-])?(kubernetes[.]io|k8s[.]io|appthrust[.]io|cncf[.]io|karpenter[.]sh)/|^(io[.]kubernetes|io[.]katacontainers|dev[.]gvisor)[.]') || key.startsWith('app.kubernetes.io/'))",message="annotations of Kubernetes, CAPT, networks and container runtimes must not be set; use app.kubernetes.io/ or a domain of your own"
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// env are environment variables of the runner and so of Terraform. Variables
	// of a template override them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []RunnerEnvVar `json:"env,omitempty"`

	// volumes are the volumes of the Job's pod, in addition to those of CAPT.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Volumes []RunnerVolume `json:"volumes,omitempty"`

	// volumeMounts are the directories at which the runner has the volumes.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	VolumeMounts []RunnerVolumeMount `json:"volumeMounts,omitempty"`
}

// RunnerEnvVar is an environment variable of the runner.
// +kubebuilder:validation:XValidation:rule="!(has(self.value) && has(self.valueFrom))",message="set only one of value and valueFrom"
type RunnerEnvVar struct {
	// name is the name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="name must be the name of an environment variable such as AWS_REGION"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('TF_VAR_')",message="Terraform variables are inputs of a run: use vars of the template"
	// +kubebuilder:validation:XValidation:rule="!(self in ['POD_NAME', 'POD_NAMESPACE', 'POD_UID', 'HOME', 'TMPDIR', 'CAPT_PROVIDERS', 'TF_DATA_DIR', 'TF_WORKSPACE', 'TF_INPUT', 'TF_IN_AUTOMATION', 'TF_ENCRYPTION', 'TF_PLUGIN_CACHE_DIR', 'TF_REATTACH_PROVIDERS', 'TF_STATE_PERSIST_INTERVAL', 'TF_TEMP_LOG_PATH']) && !self.matches('^TF_(CLI_ARGS|LOG)')",message="CAPT sets this environment variable itself; remove it"
	Name string `json:"name"`

	// value is the value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`

	// valueFrom is the source of the value: a key of a Secret or ConfigMap beside
	// the workspace, a field of the pod or a resource of the container.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}

// RunnerVolume is a volume of a Job's pod. It has no volumes of the node (hostPath)
// and no tokens of other audiences (projected), which would give a run more than its
// namespace.
// +kubebuilder:validation:XValidation:rule="[has(self.emptyDir), has(self.configMap), has(self.secret), has(self.persistentVolumeClaim)].exists_one(set, set)",message="set exactly one of emptyDir, configMap, secret and persistentVolumeClaim; other volumes, such as hostPath, are not possible"
type RunnerVolume struct {
	// name is the name of the volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must consist of lower-case letters, digits and '-'"
	// +kubebuilder:validation:XValidation:rule="!(self in ['work', 'tmp'])",message="work and tmp are volumes of CAPT; use another name"
	Name string `json:"name"`

	// emptyDir is an empty directory that is removed with the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`

	// configMap has the keys of a ConfigMap beside the workspace as files.
	// +optional
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`

	// secret has the keys of a Secret beside the workspace as files.
	// +optional
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`

	// persistentVolumeClaim is a claim beside the workspace.
	// +optional
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
}

// RunnerVolumeMount is a directory at which the runner has a volume. The runner uses
// the providers in /providers instead of downloading them.
// +kubebuilder:validation:XValidation:rule="!self.mountPath.matches('^/providers(/|$)') || (has(self.readOnly) && self.readOnly)",fieldPath=".readOnly",message="providers that several runs execute must not be writable by one of them; set readOnly: true"
type RunnerVolumeMount struct {
	// name is the name of the volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// mountPath is the absolute path of the directory or file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9._-]+)+$') && !self.matches('/[.][.]?(/|$)')",message="mountPath must be an absolute path such as /etc/terraform"
	// +kubebuilder:validation:XValidation:rule="self != '/tmp' && !self.matches('^/(work|runner|proc|sys|dev|run/secrets|var/run/secrets)(/|$)')",message="CAPT uses /work, /tmp and /runner, and the system /proc, /sys, /dev and /var/run/secrets; mount the volume elsewhere"
	MountPath string `json:"mountPath"`

	// subPath is the path inside the volume. Defaults to its root.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	SubPath string `json:"subPath,omitempty"`

	// readOnly makes the directory read-only.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}
