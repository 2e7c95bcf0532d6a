package runner

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// maxArchive limits the size of the stored content of a module. A larger module is
// fetched again by later runs and must have the same digest.
const maxArchive = 4 << 20

// storeContent stores the fetched content of the module, so that later runs with the
// same inputs use exactly this content, and adds it to the result.
func (r *Runner) storeContent(ctx context.Context, run *execution) error {
	if run.session.Content == nil {
		return nil
	}
	content := *run.session.Content
	run.result.Module = &content
	if pin := run.request.Module.Pin; pin != nil && pin.Archive != "" && pin.Digest == content.Digest {
		content.Archive = pin.Archive
		return nil
	}
	archive, err := r.readArchive()
	if err != nil || archive == nil {
		return err
	}
	if run.request.Operation == terraform.OperationCheckDrift {
		// A drift check must not create objects.
		return nil
	}
	name := record.ModuleName(run.request.Workspace, content.Digest)
	if err := r.storage.store(ctx, run, name, record.ComponentModule, archive, nil); err != nil {
		return fmt.Errorf("storing the module: %w", err)
	}
	content.Archive = name
	return nil
}

// moduleDigest returns the digest of the fetched content of the module, or an empty
// string if nothing was fetched.
func (run *execution) moduleDigest() string {
	if run.result.Module == nil {
		return ""
	}
	return run.result.Module.Digest
}

// readArchive returns the fetched content that the working directory has, or nil if
// there is none or it is too large.
func (r *Runner) readArchive() ([]byte, error) {
	info, err := os.Stat(r.workdir.ArchiveFile())
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() > maxArchive {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the archive of the module: %w", err)
	}
	archive, err := r.workdir.ReadFile(r.workdir.ArchiveFile())
	if err != nil {
		return nil, fmt.Errorf("reading the archive of the module: %w", err)
	}
	return archive, nil
}
