package captaddon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

// readPrevious returns the annotations of new content that the Secret with the content so
// far requires: the objects that the cluster has and the new content does not, and whether
// content was replaced that was never applied. They are written together with the new
// content, so that a crash loses none.
func (r *Reconciler) readPrevious(ctx context.Context, s *scope, in *installation, rendered *render.Rendered) (map[string]string, error) {
	previous := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.addon.Namespace, Name: render.Name(s.addon.Name, in.name)}, previous); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the rendered Secret: %w", err)
	}
	annotations := map[string]string{}
	dropped, err := render.EncodeObjects(droppedObjects(previous, rendered.Objects))
	if err != nil {
		return nil, err
	}
	if dropped != "" {
		annotations[addonsv1.PruneAnnotation] = dropped
	}
	replaced := previous.Annotations[addonsv1.ContentReplacedAnnotation] != "" || !render.SameContent(previous.Data, rendered.Data)
	if in.previous.AppliedHash == "" && replaced {
		annotations[addonsv1.ContentReplacedAnnotation] = "true"
	}
	return annotations, nil
}

// droppedObjects returns the objects that a rendered Secret had, or still had to
// delete, and that the new content does not have.
func droppedObjects(previous *corev1.Secret, current []render.Object) []render.Object {
	pending, err := render.DecodeObjects(previous.Annotations[addonsv1.PruneAnnotation])
	if err != nil {
		// A user edited the annotation: its objects are unknown.
		pending = nil
	}
	return render.Dropped(append(render.ObjectsOf(previous.Data), pending...), current)
}

// prune deletes the dropped objects, which Cluster API never does.
func (r *Reconciler) prune(ctx context.Context, s *scope, in *installation) error {
	if in.secret == nil || in.secret.Annotations[addonsv1.PruneAnnotation] == "" {
		return nil
	}
	var secret corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(in.secret), &secret); err != nil {
		return fmt.Errorf("reading the rendered Secret: %w", err)
	}
	objects, err := objectsToPrune(&secret)
	if err != nil {
		return err
	}
	if len(objects) > 0 {
		c, err := r.Clusters.GetUncachedClient(ctx, in.key(s))
		if err != nil {
			return connectionError(err)
		}
		if err := in.remover(s, c).removeAll(ctx, objects); err != nil {
			return err
		}
	}
	// The lock keeps the annotation of newer content.
	pruned := secret.DeepCopy()
	delete(pruned.Annotations, addonsv1.PruneAnnotation)
	if err := r.Client.Patch(ctx, pruned, client.MergeFromWithOptions(&secret, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("removing the annotation %s: %w", addonsv1.PruneAnnotation, err)
	}
	delete(in.secret.Annotations, addonsv1.PruneAnnotation)
	return nil
}

// objectsToPrune returns the objects that the annotation of a rendered Secret
// names.
func objectsToPrune(secret *corev1.Secret) ([]*unstructured.Unstructured, error) {
	names, err := render.DecodeObjects(secret.Annotations[addonsv1.PruneAnnotation])
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s of Secret %s: remove it: %w", addonsv1.PruneAnnotation, secret.Name, err)
	}
	objects := make([]*unstructured.Unstructured, 0, len(names))
	for _, name := range names {
		objects = append(objects, name.Unstructured())
	}
	return objects, nil
}
