package sources

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// installInterval is how often a workspace checks whether Flux is installed. A kind
// that does not exist cannot be watched.
const installInterval = time.Minute

// ModuleArtifact is the artifact of a workspace's Flux source.
type ModuleArtifact struct {
	Kind string
	Key  client.ObjectKey
	*flux.Artifact
	// outdated is why the source may have a later revision, or empty.
	outdated string
}

// sourceReference returns the reference to the Flux source of the template, or nil. A
// source is in the namespace of its template.
func (s *Resolved) sourceReference() *Reference {
	ref := s.Sources.Template.Spec.Template.Spec.ForProvider.SourceRef
	if ref == nil {
		return nil
	}
	return &Reference{string(ref.Kind), client.ObjectKey{Namespace: s.Sources.Template.Namespace, Name: ref.Name}}
}

// readSource reads the artifact of the Flux source. A workspace that is being deleted may
// have kept its module, so it does not wait for the source yet: see keptModule.
func (r *Resolver) readSource(ctx context.Context, s *Resolved, ref Reference) error {
	artifact, outdated, err := r.artifactOf(ctx, ref)
	if fault.Is(err) && !s.Apply.DeletionTimestamp.IsZero() {
		s.sourceFault = err
		return nil
	}
	if err != nil {
		return err
	}
	s.Artifact = &ModuleArtifact{Kind: ref.Kind, Key: ref.Key, Artifact: artifact, outdated: outdated}
	s.Sources.Artifact = &terraform.Artifact{Digest: artifact.Digest, Revision: artifact.Revision}
	return nil
}

// artifactOf returns the artifact of a source, and why it may be outdated.
func (r *Resolver) artifactOf(ctx context.Context, ref Reference) (artifact *flux.Artifact, outdated string, err error) {
	name := ref.Kind + " " + ref.Key.String()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(flux.GroupVersion.WithKind(ref.Kind))
	err = r.Client.Get(ctx, ref.Key, obj)
	if meta.IsNoMatchError(err) {
		return nil, "", fault.WaitFor(installInterval, infrav1.WaitingForSourceReason, "%s does not exist, because the cluster has no %s in %s: install Flux's source-controller", name, ref.Kind, flux.GroupVersion)
	}
	if err == nil || apierrors.IsNotFound(err) {
		if err := r.Tracker.watchSources(ref.Kind); err != nil {
			return nil, "", err
		}
	}
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForSourceReason, name, "create it in the namespace of the WorkspaceTemplate"); err != nil {
		return nil, "", err
	}
	artifact, text := flux.ArtifactOf(obj)
	if artifact == nil {
		return nil, "", fault.Wait(infrav1.WaitingForSourceReason, "%s", text)
	}
	return artifact, text, nil
}

// DependenciesMessage returns why the module may be outdated.
func DependenciesMessage(s *Resolved) string {
	if s.Artifact == nil {
		return ""
	}
	return s.Artifact.outdated
}

// watchSources watches the sources of a kind, from the first workspace on that has one.
func (t *Tracker) watchSources(kind string) error {
	t.watching.Lock()
	defer t.watching.Unlock()
	if t.watched[kind] {
		return nil
	}
	obj := object.Metadata(flux.GroupVersion.WithKind(kind))
	if err := t.Controller.Watch(source.Kind(t.Metadata, client.Object(obj), handler.EnqueueRequestsFromMapFunc(t.MapTo(kind)))); err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	t.watched[kind] = true
	return nil
}

// KeptModule returns the fault of the Flux source of a workspace that is being deleted,
// unless the module of the last plan is known, which destroys the resources.
func (s *Resolved) KeptModule() error {
	module := s.Apply.Status.Module
	if module != nil && module.Artifact != "" && module.Source == runs.ModuleSource(s.Inputs.Request.Module) {
		return nil
	}
	return s.sourceFault
}
