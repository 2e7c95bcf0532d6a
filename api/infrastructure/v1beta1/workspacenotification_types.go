package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Conditions of a WorkspaceNotification, and their reasons.
const (
	// DestinationValidCondition reports whether the Secret has an address to which the
	// manager may send messages. WaitingForSecretReason surfaces when it does not exist.
	DestinationValidCondition = "DestinationValid"
	// DestinationInvalidReason surfaces when the Secret has no usable address, key or
	// certificate; the message says which.
	DestinationInvalidReason = "DestinationInvalid"

	// InvalidSelectorReason surfaces when spec.selector does not parse.
	InvalidSelectorReason = "InvalidSelector"

	// DeliveredCondition reports whether all messages were delivered.
	DeliveredCondition = "Delivered"
	// DeliveringReason surfaces when further messages are sent.
	DeliveringReason = "Delivering"
	// DeliveryFailedReason surfaces when the destination did not accept a message; the
	// message says why, and when it is sent again.
	DeliveryFailedReason = "DeliveryFailed"
)

// Keys of the Secret of a WorkspaceNotification.
const (
	// NotificationAddressKey is the key of the address, which starts with https://.
	NotificationAddressKey = "address"
	// NotificationTokenKey is the key of a token for the Authorization header.
	NotificationTokenKey = "token"
	// NotificationSigningKey is the key of the key that signs messages.
	NotificationSigningKey = "signingKey"
	// NotificationCAKey is the key of certificates that are trusted instead of those of
	// the system.
	NotificationCAKey = "ca.crt"
)

// NotificationFormat is the format of messages.
// +kubebuilder:validation:Enum=CloudEvents;Slack;Generic
type NotificationFormat string

// The formats of messages.
const (
	// NotificationCloudEvents is the JSON format of CloudEvents 1.0, structured mode.
	NotificationCloudEvents NotificationFormat = "CloudEvents"
	// NotificationSlack is what incoming webhooks of Slack, Mattermost and Rocket.Chat
	// accept.
	NotificationSlack NotificationFormat = "Slack"
	// NotificationGeneric is the data of the CloudEvents format without its envelope.
	NotificationGeneric NotificationFormat = "Generic"
)

// NotificationEvent is something that happens to a workspace or an add-on.
// +kubebuilder:validation:Enum=WaitingForApproval;PolicyDenied;Failed;Drift;Applied;AddonFailed
type NotificationEvent string

// The events of workspaces and add-ons.
const (
	// NotifyWaitingForApproval means that a plan waits for a user: for an approval, or
	// for the permission to destroy a protected resource.
	NotifyWaitingForApproval NotificationEvent = "WaitingForApproval"
	// NotifyPolicyDenied means that a policy denies a plan.
	NotifyPolicyDenied NotificationEvent = "PolicyDenied"
	// NotifyFailed means that a run failed, or was stopped by its timeout, and the one
	// before did not.
	NotifyFailed NotificationEvent = "Failed"
	// NotifyDrift means that resources differ from the state, and did not before.
	NotifyDrift NotificationEvent = "Drift"
	// NotifyApplied means that a run changed resources.
	NotifyApplied NotificationEvent = "Applied"
	// NotifyAddonFailed means that a CAPTAddon fails in a cluster, and has not failed there
	// since it was ready.
	NotifyAddonFailed NotificationEvent = "AddonFailed"
)

// WorkspaceNotificationSpec is which messages are sent where.
type WorkspaceNotificationSpec struct {
	// secretRef is the Secret with the destination: address (https://…) and, optionally,
	// token for the Authorization header, signingKey for signatures, and ca.crt.
	// +required
	SecretRef LocalReference `json:"secretRef,omitzero"`

	// format is the format of the messages. Defaults to CloudEvents.
	// +optional
	// +kubebuilder:default=CloudEvents
	Format NotificationFormat `json:"format,omitempty"`

	// events are the events that are reported. Without it, all of them are.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	Events []NotificationEvent `json:"events,omitempty"`

	// selector selects workspaces and add-ons of the namespace by their labels. Without it,
	// all are selected.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NotificationMark identifies a message by time and id.
type NotificationMark struct {
	// at is when the event happened.
	// +required
	At metav1.Time `json:"at,omitzero"`

	// id is the id of the message.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
}

// NotificationDelivery is a message that was delivered.
type NotificationDelivery struct {
	// at is when the destination accepted the message.
	// +required
	At metav1.Time `json:"at,omitzero"`

	// event is what the message reports.
	// +required
	Event NotificationEvent `json:"event"`

	// workspace is the name of the WorkspaceTemplateApply that the message is about.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workspace string `json:"workspace,omitempty"`

	// addon is the name of the CAPTAddon that the message is about.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Addon string `json:"addon,omitempty"`
}

// NotificationFailure is a message that was not delivered.
type NotificationFailure struct {
	// at is when the message was sent.
	// +required
	At metav1.Time `json:"at,omitzero"`

	// message is why it was not delivered. It has neither the address nor what the
	// destination answered.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// attempts is how many attempts in a row have failed. It is 0 if the destination
	// refused the message itself, which is not sent again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// secretVersion is the resourceVersion of the Secret. Another one is tried at once.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SecretVersion string `json:"secretVersion,omitempty"`

	// retryAt is when the destination wants the next attempt, at the earliest: it answered
	// with Retry-After, and its answer counts for up to an hour.
	// +optional
	RetryAt *metav1.Time `json:"retryAt,omitempty"`
}

// WorkspaceNotificationStatus is the observed state of the deliveries.
type WorkspaceNotificationStatus struct {
	// conditions are the latest observations of the deliveries.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the latest generation that the controller has observed. It is
	// -1 until then.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastDelivery is the message that was delivered last.
	// +optional
	LastDelivery *NotificationDelivery `json:"lastDelivery,omitempty"`

	// lastFailure is the attempt that failed last.
	// +optional
	LastFailure *NotificationFailure `json:"lastFailure,omitempty"`

	// delivered are the messages of the last minutes that are not sent again, the oldest
	// first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Delivered []NotificationMark `json:"delivered,omitempty"`

	// deliveredUntil is the last message that was removed from delivered. It and all
	// earlier messages are not sent again.
	// +optional
	DeliveredUntil *NotificationMark `json:"deliveredUntil,omitempty"`
}

// WorkspaceNotification sends a message when something happens to workspaces and add-ons of its
// namespace: when a plan waits for approval or is denied, when a run has failed, found drift
// or changed resources, and when an add-on fails in a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=workspacenotifications,singular=workspacenotification,scope=Namespaced,shortName=wsn,categories=capt
// +kubebuilder:printcolumn:name="Format",type=string,JSONPath=`.spec.format`,description="Format of the messages"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all messages were delivered"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why they were not"
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastDelivery.at`,description="Time since the last message"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type WorkspaceNotification struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which messages are sent where.
	// +required
	Spec WorkspaceNotificationSpec `json:"spec"`

	// status is the observed state of the deliveries.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status WorkspaceNotificationStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (n *WorkspaceNotification) GetConditions() []metav1.Condition { return n.Status.Conditions }

// SetConditions sets the conditions.
func (n *WorkspaceNotification) SetConditions(conditions []metav1.Condition) {
	n.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (n *WorkspaceNotification) SetObservedGeneration(generation int64) {
	n.Status.ObservedGeneration = generation
}

// WorkspaceNotificationList is a list of WorkspaceNotifications.
//
// +kubebuilder:object:root=true
type WorkspaceNotificationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceNotification `json:"items"`
}
