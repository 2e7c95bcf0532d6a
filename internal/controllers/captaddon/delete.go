package captaddon

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/message"
)

// uninstall removes the add-on from all clusters.
func (r *Reconciler) uninstall(ctx context.Context, s *scope) error {
	if err := r.recall(ctx, s); err != nil {
		return err
	}
	err := s.each(func(in *installation) error { return r.remove(ctx, s, in) })
	r.publish(s)
	if err != nil {
		return err
	}
	return s.summarizeRemoval()
}

// summarizeRemoval returns a fault that names clusters that still have the
// add-on, or nil.
func (s *scope) summarizeRemoval() error {
	var waiting []string
	for _, in := range s.installations {
		if !in.removed {
			waiting = append(waiting, in.name+": "+in.current.Message)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return s.wait(addonsv1.RemovingReason, message.Sentences(waiting, maxListed))
}

// cleanUp drops the cached renderings and the metrics of the add-on.
func (r *Reconciler) cleanUp(_ context.Context, s *scope) error {
	r.forget(client.ObjectKeyFromObject(s.addon))
	return nil
}

// forget drops what is in memory about an add-on. It may not exist any more without a deletion
// that ran the steps: clusterctl move removes the finalizer.
func (r *Reconciler) forget(addon client.ObjectKey) {
	r.renderings.Range(func(key, _ any) bool {
		if key, _ := key.(renderingKey); key.addon == addon {
			r.renderings.Delete(key)
		}
		return true
	})
	deleteMetrics(addon)
}
