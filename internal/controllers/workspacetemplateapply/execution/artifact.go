package execution

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// downloadInterval is how often the download of an artifact is attempted.
const downloadInterval = 20 * time.Second

// StoreArtifact stores the artifact for a run that has no stored content of its module. A
// pod may not reach Flux, and Flux may have deleted the artifact when the pod starts.
func (r *Reconciler) StoreArtifact(ctx context.Context, source *sources.ModuleArtifact, request *terraform.Request) error {
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
	content, err := r.Artifacts.Fetch(ctx, source.Kind, source.Key, source.Artifact)
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
func artifactFault(artifact *sources.ModuleArtifact, err error) error {
	name := artifact.Kind + " " + artifact.Key.String()
	switch {
	case errors.Is(err, flux.ErrNotAllowed):
		return fault.Stall(infrav1.NotAllowedReason, "%s: %v", name, err)
	case errors.Is(err, flux.ErrTooLarge):
		return fault.Stall(infrav1.RunFailedReason, "The artifact of %s exceeds %d MiB: exclude files that do not belong to the module with spec.ignore, or spec.sparseCheckout of a GitRepository", name, terraform.MaxArtifact>>20)
	default:
		return fault.WaitFor(downloadInterval, infrav1.WaitingForSourceReason, "%s: %v", name, err)
	}
}
