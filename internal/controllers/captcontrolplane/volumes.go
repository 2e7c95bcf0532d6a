package captcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		volumes, err := cloudVolumes(ctx, c)
		if err != nil {
			return nil, err
		}
		reclaimed := slices.DeleteFunc(slices.Clone(volumes), func(v corev1.PersistentVolume) bool { return !isReclaimed(&v) })
		retained := slices.DeleteFunc(volumes, func(v corev1.PersistentVolume) bool { return isReclaimed(&v) })
		s.notes[controlplanev1.VolumesGoneCondition] = retainedNote(retained)
		return deleteClaims(ctx, c, reclaimed)
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
	if volumes, err := cloudVolumes(ctx, c); err == nil {
		s.notes[controlplanev1.VolumesGoneCondition] = retainedNote(volumes)
	}
}

// retainedNote describes volumes that stay in the cloud.
func retainedNote(volumes []corev1.PersistentVolume) note {
	if len(volumes) == 0 {
		return note{}
	}
	var names []string
	for i := range volumes {
		names = append(names, workloadObject{&volumes[i], "PersistentVolume"}.String())
	}
	return note{controlplanev1.VolumesRetainedReason, "These volumes stay in the cloud: " + message.List(names, maxLeaked)}
}

// cloudVolumes returns the PersistentVolumes that a driver provides. Others, such as
// directories of nodes, have nothing in the cloud.
func cloudVolumes(ctx context.Context, c client.Client) ([]corev1.PersistentVolume, error) {
	var volumes []corev1.PersistentVolume
	var keeper keeper
	err := workload.EachPage(ctx, c, func() *corev1.PersistentVolumeList { return &corev1.PersistentVolumeList{} }, func(page *corev1.PersistentVolumeList) error {
		for i := range page.Items {
			if volumeHandle(&page.Items[i]) == "" {
				continue
			}
			kept := reducedVolume(&page.Items[i])
			volumes = append(volumes, kept)
			if err := keeper.keep(&kept); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	return volumes, nil
}

// reducedVolume returns a volume with what the deletion reads of it.
func reducedVolume(v *corev1.PersistentVolume) corev1.PersistentVolume {
	kept := corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: v.Status.Phase}}
	reduceMeta(v, &kept)
	kept.Spec.PersistentVolumeReclaimPolicy = v.Spec.PersistentVolumeReclaimPolicy
	kept.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeHandle: short(volumeHandle(v))}
	if ref := v.Spec.ClaimRef; ref != nil {
		kept.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name}
	}
	return kept
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

// isReclaimed reports whether a volume is deleted with its claim.
func isReclaimed(v *corev1.PersistentVolume) bool {
	return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// deleteClaims deletes the claims of volumes and the pods that use them, and returns the
// volumes. A claim is kept while a scheduled pod uses it; the scheduler assigns no pod
// whose claim is being deleted.
func deleteClaims(ctx context.Context, c client.Client, volumes []corev1.PersistentVolume) ([]string, error) {
	claims := map[client.ObjectKey]bool{}
	var remaining []string
	for i := range volumes {
		remaining = append(remaining, workloadObject{&volumes[i], "PersistentVolume"}.String())
		if ref := volumes[i].Spec.ClaimRef; ref != nil && volumes[i].Status.Phase == corev1.VolumeBound {
			claims[client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}] = true
		}
	}
	for key := range claims {
		claim := &corev1.PersistentVolumeClaim{}
		err := c.Get(ctx, key, claim)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading PersistentVolumeClaim %s: %w", key, err)
		}
		if err != nil {
			continue
		}
		if err := (workloadObject{claim, "PersistentVolumeClaim"}).delete(ctx, c); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 {
		return remaining, nil
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
		return nil, fmt.Errorf("deleting Pods: %w", err)
	}
	return remaining, nil
}

// usesClaim reports whether a scheduled pod uses one of the claims.
func usesClaim(pod *corev1.Pod, claims map[client.ObjectKey]bool) bool {
	return pod.Spec.NodeName != "" && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = strings.Join([]string{pod.Name, v.Name}, "-")
		}
		return name != "" && claims[client.ObjectKey{Namespace: pod.Namespace, Name: name}]
	})
}
