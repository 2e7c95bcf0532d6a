package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// CAPTAddonFinalizer keeps a CAPTAddon until it is removed from its clusters or
// deliberately left there.
const CAPTAddonFinalizer = "addons.cluster.x-k8s.io/captaddon"

// TriggerAnnotation reapplies the add-on whenever its value changes.
const TriggerAnnotation = "capt.appthrust.io/trigger"

// LentFromAnnotation is the namespace that lends an add-on to the clusters of another
// namespace. CAPT creates the copy there, with the name and the spec of the add-on.
const LentFromAnnotation = "capt.appthrust.io/lent-from"

// LeaveAddonsAnnotation lists add-ons on a Cluster, comma-separated. When one of
// them no longer selects the Cluster, the objects that it installed there are kept,
// regardless of its deletionPolicy.
const LeaveAddonsAnnotation = "capt.appthrust.io/leave-addons"

// Labels and annotations of what an add-on renders.
const (
	// AddonLabel names the add-on an object was rendered for.
	AddonLabel = "capt.appthrust.io/addon"
	// ClusterLabel names a Cluster on the Cluster itself: ClusterResourceSets
	// can select Clusters by labels only.
	ClusterLabel = "capt.appthrust.io/cluster"
	// RoundAnnotation counts, on a rendered Secret, how often the same content
	// was reapplied.
	RoundAnnotation = "capt.appthrust.io/round"
	// HashAnnotation is, on a rendered Secret, the hash of its content.
	HashAnnotation = "capt.appthrust.io/hash"
	// RequestedAtAnnotation is, on a rendered Secret, when its content was requested.
	RequestedAtAnnotation = "capt.appthrust.io/asked-at"
	// PruneAnnotation lists, on a rendered Secret, objects of earlier content that
	// the current content no longer has. They are deleted once it is ready.
	PruneAnnotation = "capt.appthrust.io/prune"
	// ContentReplacedAnnotation marks a rendered Secret whose content changed before it was
	// first applied: objects in the cluster may have fields of the earlier content.
	ContentReplacedAnnotation = "capt.appthrust.io/content-replaced"
	// ComponentAddon is the component of a rendered Secret.
	ComponentAddon = "addon"
	// DefaultConnectionSecret is the Secret of a cluster's Terraform outputs.
	DefaultConnectionSecret = "${WORKSPACE_NAME}-eks-connection"
)

// Conditions of a CAPTAddon and their reasons. The same reasons explain the
// state of each cluster.
const (
	// RenderedCondition reports whether the add-on renders for every cluster.
	RenderedCondition = "Rendered"
	// ClustersReadyCondition reports whether the add-on is ready in every cluster.
	ClustersReadyCondition = "ClustersReady"
	// RemovedCondition reports whether the add-on is removed from its clusters. It is
	// set while the add-on is being deleted.
	RemovedCondition = "Removed"

	// WaitingForDependencyReason surfaces when an add-on it depends on is not ready.
	WaitingForDependencyReason = "WaitingForDependency"
	// WaitingForConnectionSecretReason surfaces when Terraform's outputs do not exist yet.
	WaitingForConnectionSecretReason = "WaitingForConnectionSecret"
	// WaitingForControlPlaneReason surfaces when the API server does not accept requests yet.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// WaitingForRolloutReason surfaces when rollout.maxUnavailable delays the change in the cluster.
	WaitingForRolloutReason = "WaitingForRollout"
	// ApplyingReason surfaces while the manifests are being applied.
	ApplyingReason = "Applying"
	// ApplyFailedReason surfaces when the manifests could not be applied.
	ApplyFailedReason = "ApplyFailed"
	// NotReadyReason surfaces when a readiness check fails.
	NotReadyReason = "NotReady"
	// TimedOutReason surfaces when the add-on was not ready in time.
	TimedOutReason = "TimedOut"
	// ReleaseStalledReason surfaces when Flux has given up on the release.
	ReleaseStalledReason = "ReleaseStalled"
	// MissingKeyReason surfaces when the connection Secret does not have a key.
	MissingKeyReason = "MissingKey"
	// InvalidTargetPathReason surfaces when a targetPath does not exist in the chart.
	InvalidTargetPathReason = "InvalidTargetPath"
	// VersionUnsupportedReason surfaces when the versions are not compatible.
	VersionUnsupportedReason = "VersionUnsupported"
	// DependencyCycleReason surfaces when add-ons depend on each other.
	DependencyCycleReason = "DependencyCycle"
	// InvalidManifestReason surfaces when a manifest cannot be read.
	InvalidManifestReason = "InvalidManifest"
	// EmptyReason surfaces when the manifests contain no objects.
	EmptyReason = "Empty"
	// TooLargeReason surfaces when the manifests do not fit into a Secret, or are made of too much.
	TooLargeReason = "TooLarge"
	// SourceNotFoundReason surfaces when a ConfigMap or Secret with manifests is missing.
	SourceNotFoundReason = "SourceNotFound"
	// InvalidSecretReason surfaces when a Secret of a chart repository has a value that
	// Flux cannot use.
	InvalidSecretReason = "InvalidSecret"
	// NotAllowedReason surfaces when the manager does not allow the host of a chart.
	NotAllowedReason = "NotAllowed"
	// DriftedReason surfaces when an applied object was deleted or changed and
	// is being reapplied.
	DriftedReason = "Drifted"
	// RemovingReason surfaces while the add-on is removed from the cluster.
	RemovingReason = "Removing"
	// WaitingForDependentsReason surfaces when add-ons that depend on this one
	// must be removed first.
	WaitingForDependentsReason = "WaitingForDependents"
	// ClusterPausedReason surfaces when the cluster is paused.
	ClusterPausedReason = "ClusterPaused"
	// SomeClustersNotReadyReason surfaces when some clusters are not ready.
	SomeClustersNotReadyReason = "SomeClustersNotReady"
)

// ReadinessCheck is something in the workload cluster that must be ready.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="set exactly one of name and selector"
type ReadinessCheck struct {
	// apiVersion is the API version of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?v[0-9]+((alpha|beta)[0-9]+)?$')",message="apiVersion must be an API version such as v1 or apps/v1"
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="kind must be a kind such as Deployment"
	Kind string `json:"kind"`

	// namespace is the namespace of the objects. It is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// selector selects the objects. At least one must exist, and all must be ready.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// condition is the condition that must be True. Without it readiness
	// depends on the kind: a Deployment is available, a CRD is established.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Condition string `json:"condition,omitempty"`
}

// ConnectionSource specifies which Secret holds a cluster's Terraform outputs.
type ConnectionSource struct {
	// secretName is the Secret's name; ${WORKSPACE_NAME} stands for the
	// workspace of the control plane.
	// +optional
	// +kubebuilder:default="${WORKSPACE_NAME}-eks-connection"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// keys are the keys that are copied into the cluster. By default only
	// those that valuesFrom names are copied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]+$'))",message="keys must be keys of a Secret: letters, digits, '-', '_' and '.'"
	Keys []string `json:"keys,omitempty"`
}

// RolloutPolicy limits how many clusters change at the same time.
type RolloutPolicy struct {
	// maxUnavailable is how many clusters may change at the same time, as a number
	// or a percentage. Defaults to 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="maxUnavailable must be a number of 1 or more, or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// AddonVersions are the versions that an add-on supports.
type AddonVersions struct {
	// matrix is the name in the version matrix the add-on is checked against,
	// for example flux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Matrix string `json:"matrix,omitempty"`

	// version is the version that the manifests install, as listed in the matrix. A
	// Helm release has the version of its chart.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?[0-9]+\\\\.[0-9]+\\\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$')",message="version must be one exact version such as 2.9.5, not a range"
	Version string `json:"version,omitempty"`

	// kubernetes is the range of Kubernetes versions, for example >=1.29 <1.38.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(>=|<=|>|<|=)v?[0-9]+[.][0-9]+([.][0-9]+)?( (>=|<=|>|<|=)v?[0-9]+[.][0-9]+([.][0-9]+)?)*$')",message="kubernetes must be a range of versions such as >=1.29 <1.38"
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Strategy specifies whether changes reach clusters that already have the add-on.
// +kubebuilder:validation:Enum=Reconcile;ApplyOnce
type Strategy string

// The strategies.
const (
	// StrategyReconcile applies every change.
	StrategyReconcile Strategy = "Reconcile"
	// StrategyApplyOnce applies the add-on once and never again.
	StrategyApplyOnce Strategy = "ApplyOnce"
)

// DeletionPolicy specifies what happens in the cluster when the add-on is deleted.
// +kubebuilder:validation:Enum=Leave;Remove
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionPolicyLeave keeps the installed objects.
	DeletionPolicyLeave DeletionPolicy = "Leave"
	// DeletionPolicyRemove deletes the installed objects.
	DeletionPolicyRemove DeletionPolicy = "Remove"
)

// CAPTAddonSpec specifies what is installed in a set of clusters.
// +kubebuilder:validation:XValidation:rule="has(self.manifests) || has(self.helm)",message="set manifests or helm"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.strategy) || self.strategy == oldSelf.strategy",fieldPath=".strategy",message="strategy cannot be changed: Cluster API does not allow it; create a new CAPTAddon"
type CAPTAddonSpec struct {
	// clusterSelector selects the Clusters by label.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="clusterSelector must select something: set matchLabels, for example karpenter.sh/enabled: \"true\""
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// dependsOn are add-ons that must be ready in a cluster first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	DependsOn []infrav1.LocalReference `json:"dependsOn,omitempty"`

	// manifests are applied in this order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Manifests []ManifestSource `json:"manifests,omitempty"`

	// helm is a Helm release that Flux installs in the cluster.
	// +optional
	Helm *HelmRelease `json:"helm,omitempty"`

	// connection specifies which Secret holds a cluster's Terraform outputs.
	// +optional
	Connection *ConnectionSource `json:"connection,omitempty"`

	// clusterValues are values of each Cluster for placeholders.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ClusterValues []ClusterValue `json:"clusterValues,omitempty"`

	// readiness lists what must be ready in the cluster. A Helm release is always
	// checked.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Readiness []ReadinessCheck `json:"readiness,omitempty"`

	// strategy specifies whether changes reach clusters that already have the add-on.
	// +optional
	// +kubebuilder:default=Reconcile
	Strategy Strategy `json:"strategy,omitempty"`

	// rollout limits how many clusters change at the same time.
	// +optional
	Rollout *RolloutPolicy `json:"rollout,omitempty"`

	// timeout is how long a cluster may take to become ready. Defaults to 15m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be between 1s and 24h, for example 15m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// retry limits how failures are retried.
	// +optional
	Retry *infrav1.RetryPolicy `json:"retry,omitempty"`

	// deletionPolicy specifies what happens in the cluster when the add-on is
	// deleted or no longer selects the cluster.
	// +optional
	// +kubebuilder:default=Leave
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// versions are the versions that the add-on supports.
	// +optional
	Versions *AddonVersions `json:"versions,omitempty"`
}

// ClusterAddonStatus is the state of an add-on in one cluster.
type ClusterAddonStatus struct {
	// name is the Cluster's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// ready reports whether the add-on is ready in the cluster.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// reason is why it is not, or Ready.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message describes what the add-on waits for and what a user can do.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// since is when the reason last changed.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// waitingSince is the time since which the add-on should be ready in the cluster and is not,
	// for any reason. The first apply counts as progress, and before it the
	// initialization of the control plane. It is absent while the cluster is paused,
	// waits for the rollout, or must not have the add-on.
	// +optional
	WaitingSince metav1.Time `json:"waitingSince,omitempty,omitzero"`

	// unreadySince is when the applied objects were first found not ready, for
	// any reason. The timeout counts from here.
	// +optional
	UnreadySince metav1.Time `json:"unreadySince,omitempty,omitzero"`

	// appliedHash is the hash of what was applied last.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	AppliedHash string `json:"appliedHash,omitempty"`

	// attempts is how many times in a row it has failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`
}

// CAPTAddonStatus is the observed state of an add-on.
type CAPTAddonStatus struct {
	// conditions are the latest observations of the add-on.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the latest generation that the controller has observed. It is
	// -1 until then.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// clusters is the state of each cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=5000
	Clusters []ClusterAddonStatus `json:"clusters,omitempty"`

	// matched is the number of clusters that the selector matches.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched *int32 `json:"matched,omitempty"`

	// ready is the number of clusters in which the add-on is ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready *int32 `json:"ready,omitempty"`

	// handledTrigger is the trigger that was handled last.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	HandledTrigger string `json:"handledTrigger,omitempty"`
}

// CAPTAddon installs manifests or a Helm release in a set of clusters, in a
// defined order, with Terraform outputs as values.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=captaddons,scope=Namespaced,shortName=capta,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Clusters the selector finds"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`,description="Clusters where the add-on is ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not ready everywhere"
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.spec.helm.chart.version`,description="Version of the chart"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || !self.spec.dependsOn.exists(d, d.name == self.metadata.name)",fieldPath=".spec.dependsOn",message="an add-on cannot depend on itself: remove its own name from dependsOn"
type CAPTAddon struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired add-on.
	// +required
	Spec CAPTAddonSpec `json:"spec"`

	// status is the observed state of the add-on.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTAddonStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (a *CAPTAddon) GetConditions() []metav1.Condition { return a.Status.Conditions }

// SetConditions sets the conditions.
func (a *CAPTAddon) SetConditions(conditions []metav1.Condition) { a.Status.Conditions = conditions }

// SetObservedGeneration sets the latest observed generation.
func (a *CAPTAddon) SetObservedGeneration(generation int64) {
	a.Status.ObservedGeneration = generation
}

// Selects reports whether clusterSelector matches the labels of a Cluster. An
// invalid selector matches none.
func (a *CAPTAddon) Selects(clusterLabels map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&a.Spec.ClusterSelector)
	return err == nil && selector.Matches(labels.Set(clusterLabels))
}

// StatusIn returns the status of the add-on in a cluster, or nil if the cluster
// does not have the add-on.
func (a *CAPTAddon) StatusIn(cluster string) *ClusterAddonStatus {
	for i := range a.Status.Clusters {
		if a.Status.Clusters[i].Name == cluster {
			return &a.Status.Clusters[i]
		}
	}
	return nil
}

// CAPTAddonList is a list of CAPTAddons.
//
// +kubebuilder:object:root=true
type CAPTAddonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTAddon `json:"items"`
}
