package execution

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// PinModule makes a run use the module content that was resolved for its inputs. New
// inputs and a run that the user requests use what the addresses resolve to now. A
// saved plan is applied with the content that it was created from.
func PinModule(request *terraform.Request, resolved *infrav1.ModuleStatus, inputs, userRequest string) {
	switch {
	case userRequest != "" && (resolved == nil || userRequest != resolved.Request) &&
		(runs.ResolvesModule(request.Operation) || request.Operation.Destroys()) && !isLost(request.Module.Artifact):
		// Also if a run for the request failed before it resolved the addresses.
		request.Module.Refetch = true
	case resolved == nil:
	case isPinned(resolved, request, inputs):
		request.Module.Pin = &terraform.ModuleContent{Digest: resolved.Digest, Revision: resolved.Revision, Archive: resolved.Archive}
		if artifact := request.Module.Artifact; artifact != nil {
			// The source may have another one now.
			request.Module.Artifact = &terraform.Artifact{Source: artifact.Source, Digest: resolved.Artifact, Revision: resolved.Revision}
		}
	default:
		request.Module.Refetch = true
	}
}

// isLost reports whether a Flux source does not provide its artifact any more.
func isLost(artifact *terraform.Artifact) bool { return artifact != nil && artifact.Digest == "" }

// moduleRequest returns the user's latest run request, unless it was handled and no
// module was resolved.
func (s *Scope) moduleRequest() string {
	if current := s.Situation(); s.Apply.Status.Module != nil || current.Requested() {
		return current.Request
	}
	return ""
}

// isPinned reports whether a run uses the content that was resolved. Runs that do not
// apply the inputs use that of the last plan.
func isPinned(resolved *infrav1.ModuleStatus, request *terraform.Request, inputs string) bool {
	if runs.ResolvesModule(request.Operation) || request.Operation == terraform.OperationApply {
		return resolved.Inputs == inputs
	}
	return resolved.Source == runs.ModuleSource(request.Module)
}
