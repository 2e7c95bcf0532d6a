package sources

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/rollout"
)

// useRevision replaces the module of a template with stages by the one that the controller of
// templates has chosen for the workspace. A deletion does not wait for it.
func (r *Resolver) useRevision(ctx context.Context, s *Resolved) error {
	template := s.Sources.Template
	s.Revision = ""
	if template.Spec.Rollout == nil {
		return nil
	}
	current, err := rollout.NewRevision(template)
	if err != nil {
		return err
	}
	s.Revision = s.Apply.Annotations[infrav1.TemplateRevisionAnnotation]
	isDeleted := !s.Apply.DeletionTimestamp.IsZero()
	switch {
	case s.Revision == current.Name:
		return nil
	case rollout.IsRevisionOf(template.Name, s.Revision):
	case isDeleted:
		return nil
	default:
		return fault.Wait(infrav1.WaitingForRolloutReason, "The controller of WorkspaceTemplate %s has not chosen the module yet. It does once the template is valid", client.ObjectKeyFromObject(template))
	}
	revision := &appsv1.ControllerRevision{}
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: template.Namespace, Name: s.Revision}, revision)
	switch {
	case err == nil && metav1.IsControlledBy(revision, template):
		return rollout.Use(revision, template)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading ControllerRevision %s: %w", s.Revision, err)
	case isDeleted:
		return nil
	default:
		return fault.Wait(infrav1.WaitingForRolloutReason, "WorkspaceTemplate %s has no ControllerRevision %s with the module of this workspace: wait for the stage of the workspace, or set the annotation %s to %s to use the current module",
			client.ObjectKeyFromObject(template), s.Revision, infrav1.TemplateRevisionAnnotation, current.Name)
	}
}
