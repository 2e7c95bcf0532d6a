// Package runnertest is the conformance suite of terraform.Runner. Each
// implementation must give the same results for the same requests, with the real
// tool and a real API server.
package runnertest

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Harness is a Runner under test and its environment.
type Harness struct {
	Runner terraform.Runner
	// Client is an administrator's client of the API server that stores the
	// runs.
	Client client.Client
	// Namespace is the namespace of this test.
	Namespace string
	// Probe is the path of the program of BuildProbe for runs.
	Probe string
	// ListenAddress is an address of this machine that runs can connect to.
	ListenAddress string
	// Kill kills the runner of a run, like a crash.
	Kill func(t testing.TB, run terraform.Run, identity *record.Identity)
	// Timeout is how long a run may take to start or to end.
	Timeout time.Duration
}

// Run runs the suite. It calls harness once for each test.
func Run(t *testing.T, harness func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"appliesAndReportsOutputs", (*fixture).appliesAndReportsOutputs},
		{"startsOnce", (*fixture).startsOnce},
		{"observesLiveness", (*fixture).observesLiveness},
		{"stopsGracefully", (*fixture).stopsGracefully},
		{"timesOut", (*fixture).timesOut},
		{"recoversFromKilledRunner", (*fixture).recoversFromKilledRunner},
		{"respectsAForeignLock", (*fixture).respectsAForeignLock},
		{"appliesTheStoredPlan", (*fixture).appliesTheStoredPlan},
		{"blocksTheDestructionOfProtectedResources", (*fixture).blocksTheDestructionOfProtectedResources},
		{"checksDriftRestoresAndDestroys", (*fixture).checksDriftRestoresAndDestroys},
		{"encryptsTheState", (*fixture).encryptsTheState},
		{"storesNoCredentials", (*fixture).storesNoCredentials},
		{"ignoresARunWithoutRequest", (*fixture).ignoresARunWithoutRequest},
		{"forgetsRepeatedly", (*fixture).forgetsRepeatedly},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newFixture(t, harness(t)))
		})
	}
}
