package history

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RecordModule records the module content that a run resolved for its inputs.
func (s *Status) RecordModule(run *runs.Run, result *terraform.Result) {
	source := run.Secret.Annotations[record.SourceAnnotation]
	switch {
	case !runs.ResolvesModule(result.Operation) || result.Module != nil && result.Module.Digest == "":
		return
	case result.Module == nil:
		if slices.Contains(runs.SettledOutcomes, result.Outcome) || result.Outcome == terraform.OutcomePlanned {
			// The module does not fetch anything any more.
			s.Apply.Status.Module = nil
		}
		return
	}
	module := &infrav1.ModuleStatus{
		Digest: record.Shorten(result.Module.Digest, maxRevision), Revision: record.Shorten(result.Module.Revision, maxRevision),
		Artifact: run.Secret.Annotations[record.ArtifactAnnotation],
		Source:   source, Inputs: run.BaseInputs(), Request: run.Secret.Annotations[record.RequestAnnotation],
	}
	if name := record.ModuleName(s.Ref(), result.Module.Digest); result.Module.Archive == name {
		// A run must not choose which Secret later runs read.
		module.Archive = name
	}
	s.Apply.Status.Module = module
}

// maxRevision is the size of the revision of a module, in bytes.
const maxRevision = 128
