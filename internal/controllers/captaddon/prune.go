package captaddon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// readPrevious returns the annotations of new content that the Secret with the content so
// far requires: the objects that the cluster has and the new content does not, and whether
// content was replaced that was never applied. They are written together with the new
// content, so that a crash loses none.
func (r *Reconciler) readPrevious(ctx context.Context, s *scope, in *installation, rendered *render.Rendered) (map[string]string, error) {
	previous, end, err := r.renderedSecret(ctx, s, in)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	defer end()
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

// renderedSecret returns the Secret with the content so far, and a function that the caller calls
// after decoding it. It keeps no large content while it waits for its turn.
func (r *Reconciler) renderedSecret(ctx context.Context, s *scope, in *installation) (secret *corev1.Secret, end func(), err error) {
	get := func(ctx context.Context) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.addon.Namespace, Name: render.Name(s.addon.Name, in.name)}, secret); err != nil {
			return nil, fmt.Errorf("reading the rendered Secret: %w", err)
		}
		return secret, nil
	}
	if secret, err = get(ctx); err != nil {
		return nil, nil, err
	}
	if manifest.AreSmall(slices.Collect(maps.Values(secret.Data))...) {
		return secret, func() {}, nil
	}
	secret = nil
	if end, err = s.turn().Begin(ctx); err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if secret, err = get(limited); err != nil {
		end()
		return nil, nil, err
	}
	return secret, end, nil
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
	// The resource version keeps the annotation of newer content.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": secret.ResourceVersion, "annotations": map[string]any{addonsv1.PruneAnnotation: nil},
	}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	if err := r.Client.Patch(ctx, secret.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)); err != nil {
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
