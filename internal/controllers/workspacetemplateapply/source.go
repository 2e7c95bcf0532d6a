package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

const (
	// installInterval is how often a workspace checks whether Flux is installed. A kind
	// that does not exist cannot be watched.
	installInterval = time.Minute
	// downloadInterval is how often the download of an artifact is attempted.
	downloadInterval = 20 * time.Second
)

// moduleArtifact is the artifact of a workspace's Flux source.
type moduleArtifact struct {
	kind string
	key  client.ObjectKey
	*flux.Artifact
	// outdated is why the source may have a later revision, or empty.
	outdated string
}

// sourceReference returns the reference to the Flux source of the template, or nil. A
// source is in the namespace of its template.
func (s *resolved) sourceReference() *reference {
	ref := s.sources.Template.Spec.Template.Spec.ForProvider.SourceRef
	if ref == nil {
		return nil
	}
	return &reference{string(ref.Kind), client.ObjectKey{Namespace: s.sources.Template.Namespace, Name: ref.Name}}
}

// readSource reads the artifact of the Flux source. A workspace that is being deleted may
// have kept its module, so it does not wait for the source yet: see keptModule.
func (r *resolver) readSource(ctx context.Context, s *resolved, ref reference) error {
	artifact, outdated, err := r.artifactOf(ctx, ref)
	if fault.Is(err) && !s.apply.DeletionTimestamp.IsZero() {
		s.sourceFault = err
		return nil
	}
	if err != nil {
		return err
	}
	s.artifact = &moduleArtifact{kind: ref.kind, key: ref.key, Artifact: artifact, outdated: outdated}
	s.sources.Artifact = &terraform.Artifact{Digest: artifact.Digest, Revision: artifact.Revision}
	return nil
}

// artifactOf returns the artifact of a source, and why it may be outdated.
func (r *resolver) artifactOf(ctx context.Context, ref reference) (artifact *flux.Artifact, outdated string, err error) {
	name := ref.kind + " " + ref.key.String()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(flux.GroupVersion.WithKind(ref.kind))
	err = r.Client.Get(ctx, ref.key, obj)
	if meta.IsNoMatchError(err) {
		return nil, "", fault.WaitFor(installInterval, infrav1.WaitingForSourceReason, "%s does not exist, because the cluster has no %s in %s: install Flux's source-controller", name, ref.kind, flux.GroupVersion)
	}
	if err == nil || apierrors.IsNotFound(err) {
		if err := r.tracker.watchSources(ref.kind); err != nil {
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

// dependenciesMessage returns why the module may be outdated.
func dependenciesMessage(s *scope) string {
	if s.artifact == nil {
		return ""
	}
	return s.artifact.outdated
}

// watchSources watches the sources of a kind, from the first workspace on that has one.
func (t *tracker) watchSources(kind string) error {
	t.watching.Lock()
	defer t.watching.Unlock()
	if t.watched[kind] {
		return nil
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(flux.GroupVersion.WithKind(kind))
	if err := t.controller.Watch(source.Kind(t.metadata, client.Object(obj), handler.EnqueueRequestsFromMapFunc(t.mapTo(kind)))); err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	t.watched[kind] = true
	return nil
}

// keptModule returns the fault of the Flux source of a workspace that is being deleted,
// unless the module of the last plan is known, which destroys the resources.
func (s *resolved) keptModule() error {
	module := s.apply.Status.Module
	if module != nil && module.Artifact != "" && module.Source == moduleSource(s.inputs.Request.Module) {
		return nil
	}
	return s.sourceFault
}

// storeArtifact stores the artifact for a run that has no stored content of its module. A
// pod may not reach Flux, and Flux may have deleted the artifact when the pod starts.
func (r *execution) storeArtifact(ctx context.Context, source *moduleArtifact, request *terraform.Request) error {
	artifact, pin := request.Module.Artifact, request.Module.Pin
	if artifact == nil || pin != nil && pin.Archive != "" {
		return nil
	}
	stored := *artifact
	stored.Archive = record.ModuleName(request.Workspace, artifact.Digest)
	request.Module.Artifact = &stored
	if source == nil || source.Digest != artifact.Digest {
		// It was stored for an earlier run. If it is missing, the run reports it.
		return nil
	}
	content, err := r.Artifacts.Fetch(ctx, source.kind, source.key, source.Artifact)
	if err == nil {
		err = artifact.Verify(content)
	}
	if err != nil {
		return artifactFault(source, err)
	}
	secrets, err := record.Chunks(stored.Archive, content, record.Meta(request.Workspace, record.ComponentModule, request.RunID))
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if err := r.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("storing the artifact: %w", err)
		}
	}
	return nil
}

// artifactFault turns the error of a download into a fault.
func artifactFault(artifact *moduleArtifact, err error) error {
	name := artifact.kind + " " + artifact.key.String()
	switch {
	case errors.Is(err, flux.ErrNotAllowed):
		return fault.Stall(infrav1.NotAllowedReason, "%s: %v", name, err)
	case errors.Is(err, flux.ErrTooLarge):
		return fault.Stall(infrav1.RunFailedReason, "The artifact of %s exceeds %d MiB: exclude files that do not belong to the module with spec.ignore, or spec.sparseCheckout of a GitRepository", name, terraform.MaxArtifact>>20)
	default:
		return fault.WaitFor(downloadInterval, infrav1.WaitingForSourceReason, "%s: %v", name, err)
	}
}
