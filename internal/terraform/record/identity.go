package record

import (
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
)

// PodLiveness returns the liveness of a runner from the result of reading its
// pod. The containers of a pod may be running as long as the pod exists and has
// not terminated, even if its node is unreachable. A user who force-deletes a
// pod asserts that its containers have stopped.
func (i *Identity) PodLiveness(pod *corev1.Pod, err error) (terraform.Liveness, error) {
	switch {
	case apierrors.IsNotFound(err):
		return terraform.LivenessGone, nil
	case err != nil:
		return terraform.LivenessUnknown, fmt.Errorf("reading runner pod: %w", err)
	case string(pod.UID) != i.PodUID, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed, i.restarted(pod):
		return terraform.LivenessGone, nil
	default:
		return terraform.LivenessRunning, nil
	}
}

// restarted reports whether the container of the runner, and with it the runner, has ended:
// one was started again after the run was claimed, and no other is running since before.
// The manager's container runs the processes of its executor.
func (i *Identity) restarted(pod *corev1.Pod) bool {
	restarted := false
	for _, container := range pod.Status.ContainerStatuses {
		running := container.State.Running
		switch {
		case running != nil && !running.StartedAt.After(i.ClaimedAt):
			return false
		case running != nil && container.RestartCount > 0:
			restarted = true
		}
	}
	return restarted
}

// Alive reports whether the process of an identity of this machine and boot
// exists.
func (i *Identity) Alive() bool {
	started, err := host.ProcessStartTime(i.PID)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	// Any other error does not prove that the process has exited.
	return err != nil || started == i.Started
}
