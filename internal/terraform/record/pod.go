package record

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	case string(pod.UID) != i.PodUID, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return terraform.LivenessGone, nil
	default:
		return terraform.LivenessRunning, nil
	}
}
