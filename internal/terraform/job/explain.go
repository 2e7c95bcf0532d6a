package job

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// Explain describes what prevents the pod of a run from starting or ending, or
// what ended it.
func (e *Executor) Explain(ctx context.Context, run terraform.Run) (string, error) {
	var job batchv1.Job
	if err := e.Reader.Get(ctx, key(run), &job); err != nil {
		return "", wrap("reading Job of the run", client.IgnoreNotFound(err))
	}
	var pods corev1.PodList
	if err := e.Reader.List(ctx, &pods, client.InNamespace(run.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
		return "", fmt.Errorf("listing pods of the run: %w", err)
	}
	if len(pods.Items) == 0 {
		return e.explainJob(ctx, &job)
	}
	newest := slices.MaxFunc(pods.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return explainPod(&newest, time.Now()), nil
}

// explainJob describes why a Job has no pod. The cause, such as a quota, a policy
// or a missing service account, is only in the events of the Job.
func (e *Executor) explainJob(ctx context.Context, job *batchv1.Job) (string, error) {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return sentence("Job "+job.Name, c.Reason, c.Message), nil
		}
	}
	var events corev1.EventList
	err := e.Reader.List(ctx, &events, client.InNamespace(job.Namespace), client.MatchingFields{
		"involvedObject.uid": string(job.UID), "type": corev1.EventTypeWarning,
	})
	if err != nil {
		return "", fmt.Errorf("listing events of the Job: %w", err)
	}
	if len(events.Items) == 0 {
		return "", nil
	}
	last := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return sentence("Job "+job.Name, last.Reason, last.Message), nil
}

// explainPod describes what is unusual about a pod.
func explainPod(pod *corev1.Pod, now time.Time) string {
	subject := "Pod " + pod.Name
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			return sentence(subject, fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode), t.Message)
		}
	}
	if pod.Status.Reason != "" {
		return sentence(subject, pod.Status.Reason, pod.Status.Message)
	}
	// The deletion timestamp includes the grace period.
	if !pod.DeletionTimestamp.IsZero() && now.After(pod.DeletionTimestamp.Time) {
		return fmt.Sprintf("%s should have terminated by %s, but its node %s did not confirm it. If the node is permanently lost, delete the Node",
			subject, pod.DeletionTimestamp.UTC().Format(time.RFC3339), pod.Spec.NodeName)
	}
	for _, status := range pod.Status.ContainerStatuses {
		if w := status.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
			return sentence(subject, w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return sentence(subject, c.Reason, c.Message)
		}
	}
	return ""
}

// maxDetail is how many bytes of a detail fit into a condition.
const maxDetail = 500

func sentence(subject, reason, detail string) string {
	detail = message.Truncate(message.OneLine(detail), maxDetail)
	if detail == "" {
		return subject + ": " + reason
	}
	return subject + ": " + reason + ": " + detail
}
