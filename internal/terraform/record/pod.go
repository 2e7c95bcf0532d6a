package record

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
)

// PodLiveness tells from the answer to a read of the identity's pod whether the
// runner exists. As long as the pod exists and has not ended its containers may
// run: a node that does not answer proves nothing. Who deletes a pod by force
// vouches for its end.
func (i *Identity) PodLiveness(pod *corev1.Pod, err error) (terraform.Liveness, error) {
	switch {
	case apierrors.IsNotFound(err):
		return terraform.LivenessGone, nil
	case err != nil:
		return terraform.LivenessUnknown, fmt.Errorf("reading the pod of a run: %w", err)
	case string(pod.UID) != i.PodUID, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return terraform.LivenessGone, nil
	default:
		return terraform.LivenessRunning, nil
	}
}
