// Package drain empties nodes, one look at a time: each look evicts what can be
// evicted now and tells what is left. What is evicted, and what is left alone,
// is what kubectl drain does.
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
	// longestLook bounds one look: a reconcile waits for it. What was not
	// reached is evicted by the next.
	longestLook = 10 * time.Second
	// lost is for how many seconds a pod on an unreachable node is waited for
	// once its own grace has ended. Nobody is there who could tell of its end.
	lost = 1
	// maxNames is the number of pods that a message names for each reason.
	maxNames = 3
)

// Remains is what is still on a node that has to leave it.
type Remains struct {
	// Leaving pods have been evicted, or are being deleted by others.
	Leaving []string
	// Blocked are the pods that cannot be evicted now, by the reason.
	Blocked map[string][]string
}

// Empty tells whether nothing is left.
func (r Remains) Empty() bool { return len(r.Leaving) == 0 && len(r.Blocked) == 0 }

// String tells a person what is left, and what keeps it.
func (r Remains) String() string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(r.Blocked)) {
		parts = append(parts, fmt.Sprintf("%s cannot be evicted: %s", list(r.Blocked[why]), why))
	}
	if len(r.Leaving) > 0 {
		parts = append(parts, "leaving: "+list(r.Leaving))
	}
	return strings.Join(parts, "; ")
}

func list(pods []string) string { return message.List(slices.Sorted(slices.Values(pods)), maxNames) }

// Node cordons a node and evicts what is on it: DaemonSets, static pods and
// pods labelled cluster.x-k8s.io/drain: skip are left alone, data in emptyDir
// are lost, disruption budgets are kept. It does not wait for pods to end, takes
// some seconds at most, and may be called again and again.
func Node(ctx context.Context, c kubernetes.Interface, node *corev1.Node) (Remains, error) {
	ctx, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	helper := &kubectldrain.Helper{
		Ctx: ctx, Client: c, Out: io.Discard, ErrOut: io.Discard,
		Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, GracePeriodSeconds: -1,
		AdditionalFilters: []kubectldrain.PodFilter{unlessTold},
	}
	if status, _ := nodes.Ready(node); status == corev1.ConditionUnknown {
		helper.SkipWaitForDeleteTimeoutSeconds = lost
	}
	if err := kubectldrain.RunCordonOrUncordon(helper, node, true); err != nil {
		return Remains{}, fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	list, errs := helper.GetPodsForDeletion(node.Name)
	if len(errs) > 0 {
		return Remains{}, fmt.Errorf("listing the pods of node %s: %w", node.Name, errors.Join(errs...))
	}
	remains := Remains{Blocked: map[string][]string{}}
	for _, pod := range list.Pods() {
		if err := remains.evict(helper, pod); err != nil {
			return remains, err
		}
	}
	return remains, nil
}

// unlessTold leaves alone the pods that a person excepted.
func unlessTold(pod corev1.Pod) kubectldrain.PodDeleteStatus {
	if strings.EqualFold(pod.Labels[clusterv1.PodDrainLabel], string(clusterv1.MachineDrainRuleDrainBehaviorSkip)) {
		return kubectldrain.MakePodDeleteStatusSkip()
	}
	return kubectldrain.MakePodDeleteStatusOkay()
}

func (r *Remains) evict(helper *kubectldrain.Helper, pod corev1.Pod) error {
	id := pod.Namespace + "/" + pod.Name
	if !pod.DeletionTimestamp.IsZero() {
		r.Leaving = append(r.Leaving, id)
		return nil
	}
	err := helper.EvictPod(pod, policyv1.SchemeGroupVersion)
	switch why, refused := refusal(err); {
	case err == nil:
		r.Leaving = append(r.Leaving, id)
	case apierrors.IsNotFound(err):
	case refused:
		r.Blocked[why] = append(r.Blocked[why], id)
	default:
		return fmt.Errorf("evicting pod %s: %w", id, err)
	}
	return nil
}

// refusal is why an API server refused an eviction, if it did.
func refusal(err error) (why string, refused bool) {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return "", false
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "its namespace is being deleted, which deletes the pod in its turn", true
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
