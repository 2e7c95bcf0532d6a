// Package runnertest is the suite that every terraform.Runner passes: the same
// requests, the real tool and the real API server give the same results,
// whoever carries the runs out.
package runnertest

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Harness is an executor with what the suite needs around it.
type Harness struct {
	Runner terraform.Runner
	// Client reaches the API server that the runs are stored in, as an
	// administrator.
	Client client.Client
	// Namespace is one for this test alone.
	Namespace string
	// Witness is the program of BuildWitness as runs find it, and Listen is the
	// address of this machine as they reach it.
	Witness string
	Listen  string
	// Kill ends the runner of a run at once, as a crash would.
	Kill func(t testing.TB, run terraform.Run, identity *record.Identity)
	// Patience is how long a run may take to begin or to end.
	Patience time.Duration
}

// Run runs the suite; harness is called once for each of its tests.
func Run(t *testing.T, harness func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*trial)
	}{
		{"appliesAndReportsOutputs", (*trial).appliesAndReportsOutputs},
		{"startsOnce", (*trial).startsOnce},
		{"observesTheRun", (*trial).observesTheRun},
		{"stopsGracefully", (*trial).stopsGracefully},
		{"timesOut", (*trial).timesOut},
		{"takesOverFromTheDead", (*trial).takesOverFromTheDead},
		{"respectsTheLockOfAStranger", (*trial).respectsTheLockOfAStranger},
		{"appliesTheKeptPlan", (*trial).appliesTheKeptPlan},
		{"refusesToDestroyWhatIsProtected", (*trial).refusesToDestroyWhatIsProtected},
		{"checksDriftRestoresAndDestroys", (*trial).checksDriftRestoresAndDestroys},
		{"encryptsTheState", (*trial).encryptsTheState},
		{"keepsNoCredentials", (*trial).keepsNoCredentials},
		{"doesNothingWithoutARequest", (*trial).doesNothingWithoutARequest},
		{"forgetsMoreThanOnce", (*trial).forgetsMoreThanOnce},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newTrial(t, harness(t)))
		})
	}
}
