package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/archive"
)

// placeArtifact places the module of an artifact, which the manager has stored. It returns
// the root module's path relative to the directory, and the revision of the artifact.
func (w *Workdir) placeArtifact(ctx context.Context, module terraform.Module, dir string) (root, revision string, err error) {
	artifact := module.Artifact
	content, err := w.storedArtifact(ctx, artifact)
	if err != nil {
		return "", "", err
	}
	scratch := filepath.Join(w.Dir, "fetch")
	if err := os.RemoveAll(scratch); err != nil {
		return "", "", fmt.Errorf("clearing the directory for fetching: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	unpacked := filepath.Join(scratch, dataDir, archive.ModulesDir, fetched)
	if err := os.MkdirAll(unpacked, 0o700); err != nil {
		return "", "", fmt.Errorf("creating the directory for fetching: %w", err)
	}
	if err := archive.UnpackArtifact(content, unpacked); err != nil {
		return "", "", artifactFailure("Artifact cannot be unpacked", "%s, revision %s: %v.", artifact.Source, artifact.Revision, err)
	}
	root, err = copyModule(scratch, dir, filepath.FromSlash(module.Entrypoint))
	return root, artifact.Revision, err
}

// storedArtifact returns the artifact after checking its digest: others may have written
// the Secrets.
func (w *Workdir) storedArtifact(ctx context.Context, artifact *terraform.Artifact) ([]byte, error) {
	var content []byte
	if artifact.Archive != "" && w.Archive != nil {
		var err error
		if content, err = w.Archive(ctx, artifact.Archive); err != nil {
			return nil, err
		}
	}
	if len(content) == 0 {
		return nil, artifactFailure("Module is not stored any more", "The module of %s, revision %s, was deleted from the cluster, and the source does not provide it. Create or repair the source, then request a run.", artifact.Source, artifact.Revision)
	}
	if err := artifact.Verify(content); err != nil {
		return nil, artifactFailure("Artifact was changed", "The stored artifact of %s, revision %s, is not what the source provided: %v.", artifact.Source, artifact.Revision, err)
	}
	return content, nil
}

func artifactFailure(summary, format string, args ...any) error {
	return refusal("get", terraform.Diagnostic{Summary: summary, Detail: fmt.Sprintf(format, args...)})
}
