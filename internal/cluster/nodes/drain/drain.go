// Package drain drains nodes without blocking: each call evicts the pods that can
// be evicted now and returns those that are left. It evicts and skips the same
// pods as kubectl drain.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	kubectldrain "k8s.io/kubectl/pkg/drain"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/message"
)

const (
	// timeout limits one call, because a reconcile waits for it. The next call
	// evicts the pods that this one did not reach.
	timeout = 10 * time.Second
	// unreachableSeconds is how many seconds after its grace period a pod on an
	// unreachable node is still waited for. Its kubelet cannot report the end of
	// the pod.
	unreachableSeconds = 1
	// maxNames is the number of pods that a message names for each reason.
	maxNames = 3
)

// Remaining are the pods on a node that still have to go.
type Remaining struct {
	// Terminating are the pods that were evicted or are being deleted.
	Terminating []string
	// Blocked are the pods that cannot be evicted now, by reason.
	Blocked map[string][]string
}

// Empty reports whether no pods are left.
func (r Remaining) Empty() bool { return len(r.Terminating) == 0 && len(r.Blocked) == 0 }

// String describes the pods that are left, and why.
func (r Remaining) String() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r.Blocked)) {
		parts = append(parts, fmt.Sprintf("%s cannot be evicted: %s", list(r.Blocked[reason]), reason))
	}
	if len(r.Terminating) > 0 {
		parts = append(parts, "terminating: "+list(r.Terminating))
	}
	return strings.Join(parts, "; ")
}

func list(pods []string) string { return message.List(slices.Sorted(slices.Values(pods)), maxNames) }

// Node cordons a node and evicts its pods. It skips pods of DaemonSets, static
// pods and pods with the label cluster.x-k8s.io/drain: skip. It respects
// disruption budgets, and deletes the data in emptyDir volumes. It does not wait
// for pods to terminate and is idempotent.
func Node(ctx context.Context, c kubernetes.Interface, node *corev1.Node) (Remaining, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	helper := &kubectldrain.Helper{
		Ctx: ctx, Client: c, Out: io.Discard, ErrOut: io.Discard,
		Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, GracePeriodSeconds: -1,
		AdditionalFilters: []kubectldrain.PodFilter{skipLabeled},
	}
	if status, _ := nodes.Ready(node); status == corev1.ConditionUnknown {
		helper.SkipWaitForDeleteTimeoutSeconds = unreachableSeconds
	}
	if err := kubectldrain.RunCordonOrUncordon(helper, node, true); err != nil {
		return Remaining{}, fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	pods, errs := helper.GetPodsForDeletion(node.Name)
	if len(errs) > 0 {
		return Remaining{}, fmt.Errorf("listing the pods of node %s: %w", node.Name, errors.Join(errs...))
	}
	remaining := Remaining{Blocked: map[string][]string{}}
	for _, pod := range pods.Pods() {
		if err := remaining.evict(helper, pod); err != nil {
			return remaining, err
		}
	}
	return remaining, nil
}

// skipLabeled skips the pods with the label cluster.x-k8s.io/drain: skip.
func skipLabeled(pod corev1.Pod) kubectldrain.PodDeleteStatus {
	if strings.EqualFold(pod.Labels[clusterv1.PodDrainLabel], string(clusterv1.MachineDrainRuleDrainBehaviorSkip)) {
		return kubectldrain.MakePodDeleteStatusSkip()
	}
	return kubectldrain.MakePodDeleteStatusOkay()
}

func (r *Remaining) evict(helper *kubectldrain.Helper, pod corev1.Pod) error {
	id := pod.Namespace + "/" + pod.Name
	if !pod.DeletionTimestamp.IsZero() {
		r.Terminating = append(r.Terminating, id)
		return nil
	}
	err := helper.EvictPod(pod, policyv1.SchemeGroupVersion)
	switch reason, refused := refusal(err); {
	case err == nil:
		r.Terminating = append(r.Terminating, id)
	case apierrors.IsNotFound(err):
	case refused:
		r.Blocked[reason] = append(r.Blocked[reason], id)
	default:
		return fmt.Errorf("evicting pod %s: %w", id, err)
	}
	return nil
}

// refusal returns why the API server refused an eviction. It reports false for
// other errors.
func refusal(err error) (reason string, refused bool) {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return "", false
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "its namespace is being deleted, which will delete the pod", true
	case !apierrors.IsTooManyRequests(err) || status.Status().Details == nil:
		return status.Status().Message, true
	}
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, cause.Message)
	}
	if len(causes) == 0 {
		return status.Status().Message, true
	}
	return strings.Join(causes, ", "), true
}
