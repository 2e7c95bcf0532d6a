package execution

import (
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
)

// Group returns the queue Group of the runs that share the limit of the provider
// config. It has no limit if the inputs are unknown.
func (s *Scope) Group() queue.Group {
	namespace := ""
	if borrower, sealed := s.BorrowerKey(); sealed {
		// A forged annotation would charge the slot to another namespace.
		namespace = borrower.Namespace
	}
	if s.Inputs == nil || s.Sources.ProviderConfig == nil || s.Inputs.Policy.MaxConcurrent == 0 {
		return queue.Group{Namespace: namespace}
	}
	return queue.Group{
		Name:      s.Sources.ProviderConfig.Namespace + "/" + s.Sources.ProviderConfig.Name,
		Limit:     s.Inputs.Policy.MaxConcurrent,
		Namespace: namespace,
	}
}

// groupOf returns the group of the next run. Drift checks for which no user waits are background
// runs.
func (s *Scope) groupOf(next decision.Decision) queue.Group {
	group := s.Group()
	group.Background = next.Operation == terraform.OperationCheckDrift && !s.Situation().DriftCheckRequested()
	return group
}
