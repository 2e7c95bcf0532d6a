package captcontrolplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/message"
)

// deleteVolumes deletes the PersistentVolumeClaims whose volume has the reclaim policy
// Delete, and the pods that use them, if the policy of the cluster says so. The driver
// that deletes the volumes needs nodes. Otherwise all volumes stay, and are listed.
func (r *Reconciler) deleteVolumes(ctx context.Context, s *scope) error {
	if s.volumePolicy() == controlplanev1.VolumesRetain {
		r.listVolumes(ctx, s)
		return nil
	}
	return r.inWorkload(ctx, s, skipVolumes, controlplanev1.VolumesGoneCondition, func(c client.Client) ([]string, error) {
		var retained, remaining descriptions
		claims := map[client.ObjectKey]bool{}
		err := eachVolume(ctx, c, func(v *corev1.PersistentVolume) error {
			text := workloadObject{v, "PersistentVolume"}.String()
			if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
				return retained.add(text)
			}
			if err := remaining.add(text); err != nil {
				return err
			}
			return deleteClaim(ctx, c, v, claims)
		})
		s.notes[controlplanev1.VolumesGoneCondition] = retainedNote(retained)
		if err != nil {
			return nil, err
		}
		return remaining, deletePods(ctx, c, claims)
	})
}

// volumePolicy returns what happens to PersistentVolumes.
func (s *scope) volumePolicy() controlplanev1.VolumePolicy {
	if d := s.controlPlane.Spec.Deletion; d != nil && d.Volumes != "" {
		return d.Volumes
	}
	return controlplanev1.VolumesRetain
}

// listVolumes notes which volumes stay. The deletion does not wait for the answer.
func (r *Reconciler) listVolumes(ctx context.Context, s *scope) {
	if s.isReleased() || s.isTrue(controlplanev1.VolumesGoneCondition) {
		return
	}
	c, err := r.workloadClient(ctx, s)
	if err != nil || c == nil {
		return
	}
	var volumes descriptions
	err = eachVolume(ctx, c, func(v *corev1.PersistentVolume) error {
		return volumes.add(workloadObject{v, "PersistentVolume"}.String())
	})
	if err == nil {
		s.notes[controlplanev1.VolumesGoneCondition] = retainedNote(volumes)
	}
}

// retainedNote describes volumes that stay in the cloud.
func retainedNote(volumes descriptions) note {
	if len(volumes) == 0 {
		return note{}
	}
	return note{controlplanev1.VolumesRetainedReason, "These volumes stay in the cloud: " + message.List(volumes, maxLeaked)}
}

// eachVolume calls a function for all PersistentVolumes that a driver provides. Others, such
// as directories of nodes, have nothing in the cloud.
func eachVolume(ctx context.Context, c client.Client, each func(*corev1.PersistentVolume) error) error {
	err := workload.EachPage(ctx, c, func() *corev1.PersistentVolumeList { return &corev1.PersistentVolumeList{} }, func(page *corev1.PersistentVolumeList) error {
		for i := range page.Items {
			if volumeHandle(&page.Items[i]) == "" {
				continue
			}
			if err := each(&page.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading PersistentVolumes: %w", err)
	}
	return nil
}

// volumeHandle returns the name of a volume in the cloud, or an empty string.
func volumeHandle(v *corev1.PersistentVolume) string {
	switch {
	case v.Spec.CSI != nil:
		return v.Spec.CSI.VolumeHandle
	case v.Spec.AWSElasticBlockStore != nil:
		return v.Spec.AWSElasticBlockStore.VolumeID
	}
	return ""
}

// deleteClaim deletes the claim of a volume, if it exists, and adds it to claims.
func deleteClaim(ctx context.Context, c client.Client, v *corev1.PersistentVolume, claims map[client.ObjectKey]bool) error {
	ref := v.Spec.ClaimRef
	if ref == nil || v.Status.Phase != corev1.VolumeBound {
		return nil
	}
	key, claim := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &corev1.PersistentVolumeClaim{}
	switch err := c.Get(ctx, key, claim); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading PersistentVolumeClaim %s: %w", key, err)
	}
	claims[key] = true
	return workloadObject{claim, "PersistentVolumeClaim"}.delete(ctx, c)
}

// deletePods deletes the scheduled pods that use claims. A claim is kept while such a pod
// uses it; the scheduler assigns no pod whose claim is being deleted.
func deletePods(ctx context.Context, c client.Client, claims map[client.ObjectKey]bool) error {
	if len(claims) == 0 {
		return nil
	}
	err := workload.EachPage(ctx, c, func() *corev1.PodList { return &corev1.PodList{} }, func(page *corev1.PodList) error {
		for i := range page.Items {
			if !usesClaim(&page.Items[i], claims) {
				continue
			}
			if err := (workloadObject{&page.Items[i], "Pod"}).delete(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("deleting Pods: %w", err)
	}
	return nil
}

// usesClaim reports whether a scheduled pod uses one of the claims.
func usesClaim(pod *corev1.Pod, claims map[client.ObjectKey]bool) bool {
	return pod.Spec.NodeName != "" && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = pod.Name + "-" + v.Name
		}
		return name != "" && claims[client.ObjectKey{Namespace: pod.Namespace, Name: name}]
	})
}
