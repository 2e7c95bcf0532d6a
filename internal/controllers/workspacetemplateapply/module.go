package workspacetemplateapply

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// pinModule makes a run use the module content that was resolved for its inputs. New
// inputs and a run that the user requests use what the addresses resolve to now. A
// saved plan is applied with the content that it was created from.
func pinModule(request *terraform.Request, resolved *infrav1.ModuleStatus, inputs, userRequest string) {
	switch {
	case userRequest != "" && (resolved == nil || userRequest != resolved.Request) &&
		(resolvesModule(request.Operation) || request.Operation.Destroys()) && !isLost(request.Module.Artifact):
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
func (s *scope) moduleRequest() string {
	if current := s.situation(); s.apply.Status.Module != nil || current.requested() {
		return current.request
	}
	return ""
}

// isPinned reports whether a run uses the content that was resolved. Runs that do not
// apply the inputs use that of the last plan.
func isPinned(resolved *infrav1.ModuleStatus, request *terraform.Request, inputs string) bool {
	if resolvesModule(request.Operation) || request.Operation == terraform.OperationApply {
		return resolved.Inputs == inputs
	}
	return resolved.Source == moduleSource(request.Module)
}

// resolvesModule reports whether the runs of an operation resolve the module for new
// inputs.
func resolvesModule(operation terraform.Operation) bool {
	return operation == terraform.OperationPlan || operation == terraform.OperationPlanAndApply
}

// moduleSource returns a hash of where the module comes from.
func moduleSource(module terraform.Module) string {
	sum := sha256.Sum256(mustJSON(module.Origin()))
	return hex.EncodeToString(sum[:8])
}

// recordModule records the module content that a run resolved for its inputs.
func (s *status) recordModule(run *runRecord, result *terraform.Result) {
	source := run.secret.Annotations[record.SourceAnnotation]
	switch {
	case !resolvesModule(result.Operation) || result.Module != nil && result.Module.Digest == "":
		return
	case result.Module == nil:
		if slices.Contains(settledOutcomes, result.Outcome) || result.Outcome == terraform.OutcomePlanned {
			// The module does not fetch anything any more.
			s.apply.Status.Module = nil
		}
		return
	}
	module := &infrav1.ModuleStatus{
		Digest: record.Shorten(result.Module.Digest, maxRevision), Revision: record.Shorten(result.Module.Revision, maxRevision),
		Artifact: run.secret.Annotations[record.ArtifactAnnotation],
		Source:   source, Inputs: run.baseInputs(), Request: run.secret.Annotations[record.RequestAnnotation],
	}
	if name := record.ModuleName(s.workspaceRef(), result.Module.Digest); result.Module.Archive == name {
		// A run must not choose which Secret later runs read.
		module.Archive = name
	}
	s.apply.Status.Module = module
}

// workspaceRef returns the reference to the workspace in its runs.
func (s *workspace) workspaceRef() terraform.WorkspaceRef {
	return terraform.WorkspaceRef{Namespace: s.apply.Namespace, Name: s.apply.Name, UID: string(s.apply.UID)}
}

// maxRevision is the size of the revision of a module, in bytes.
const maxRevision = 128

// surplusModules returns the Secrets of module content that no run uses any more. The
// artifact of a Flux source is used if the content is not stored.
func surplusModules(workspace terraform.WorkspaceRef, secrets []corev1.Secret, module *infrav1.ModuleStatus) []corev1.Secret {
	used := ""
	if module != nil {
		used = module.Archive
	}
	if used == "" && module != nil && module.Artifact != "" {
		used = record.ModuleName(workspace, module.Artifact)
	}
	var surplus []corev1.Secret
	for _, secret := range secrets {
		if used == "" || !record.IsChunk(secret.Name, used) {
			surplus = append(surplus, secret)
		}
	}
	return surplus
}
