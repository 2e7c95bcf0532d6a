package captaddon

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

// dropped are the objects that the cluster got before and is not to have any
// more. They are written down together with the content that lacks them, so a
// crash forgets none.
func (r *Reconciler) dropped(ctx context.Context, s *scope, st *standing, rendered *render.Rendered) (string, error) {
	var before corev1.Secret
	key := client.ObjectKey{Namespace: s.addon.Namespace, Name: render.Name(s.addon.Name, st.name)}
	if err := r.Live.Get(ctx, key, &before); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading the rendered Secret: %w", err)
	}
	pending, err := render.DecodeObjects(before.Annotations[addonsv1.PruneAnnotation])
	if err != nil {
		// It was edited: the objects that it named are unknown.
		pending = nil
	}
	return render.EncodeObjects(render.Dropped(append(render.ObjectsOf(before.Data), pending...), rendered.Objects))
}

// prune deletes what was dropped. Cluster API never does.
func (r *Reconciler) prune(ctx context.Context, s *scope, st *standing) error {
	if st.secret == nil || st.secret.Annotations[addonsv1.PruneAnnotation] == "" {
		return nil
	}
	var secret corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(st.secret), &secret); err != nil {
		return fmt.Errorf("reading the rendered Secret: %w", err)
	}
	objects, err := pruned(&secret)
	if err != nil {
		return err
	}
	if len(objects) > 0 {
		c, err := r.Clusters.GetUncachedClient(ctx, st.key(s))
		if err != nil {
			return unreachable(err)
		}
		if err := st.removal(s, c).inOrder(ctx, objects); err != nil {
			return err
		}
	}
	// With its version, for a newer content may name others.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": secret.ResourceVersion, "annotations": map[string]any{addonsv1.PruneAnnotation: nil},
	}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	if err := r.Client.Patch(ctx, secret.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("forgetting what was deleted: %w", err)
	}
	delete(st.secret.Annotations, addonsv1.PruneAnnotation)
	return nil
}

// pruned are the objects that a rendered Secret names as dropped.
func pruned(secret metav1.Object) ([]*unstructured.Unstructured, error) {
	names, err := render.DecodeObjects(secret.GetAnnotations()[addonsv1.PruneAnnotation])
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s of Secret %s: remove it: %w", addonsv1.PruneAnnotation, secret.GetName(), err)
	}
	objects := make([]*unstructured.Unstructured, 0, len(names))
	for _, name := range names {
		objects = append(objects, name.Unstructured())
	}
	return objects, nil
}
