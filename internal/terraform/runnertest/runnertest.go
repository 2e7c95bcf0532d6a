// Package runnertest is the conformance suite of terraform.Runner. Each
// implementation must give the same results for the same requests, with the real
// tool and a real API server.
package runnertest

import (
	"testing"

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
	// Terminate ends the runner of a run, like the end of its machine.
	Terminate func(t testing.TB, run terraform.Run, identity *record.Identity)
}

// RunBackends runs the part of the suite that depends on the backend, with each
// backend. It calls harness once for each test.
func RunBackends(t *testing.T, harness func(t *testing.T) Harness) {
	for name, backend := range backends() {
		for _, test := range []struct {
			name string
			run  func(*fixture)
		}{
			{"appliesAndReportsOutputs", (*fixture).appliesAndReportsOutputs},
			{"continuesAfterAFailedFirstApply", (*fixture).continuesAfterAFailedFirstApply},
			{"stopsGracefully", (*fixture).stopsGracefully},
			{"recoversFromKilledRunner", (*fixture).recoversFromKilledRunner},
			{"appliesTheStoredPlan", (*fixture).appliesTheStoredPlan},
			{"checksDriftRestoresAndDestroys", (*fixture).checksDriftRestoresAndDestroys},
			{"refusesAnotherState", (*fixture).refusesAnotherState},
			{"changesAndRestoresTheState", (*fixture).changesAndRestoresTheState},
			{"movesTheState", (*fixture).movesTheState},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				test.run(newFixture(t, harness(t), backend))
			})
		}
	}
}

// Run runs the part of the suite that does not depend on the backend. It calls harness
// once for each test.
func Run(t *testing.T, harness func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"startsOnce", (*fixture).startsOnce},
		{"observesLiveness", (*fixture).observesLiveness},
		{"completesAnApplyThatIsStopped", (*fixture).completesAnApplyThatIsStopped},
		{"cancelsARunThatIsStopped", (*fixture).cancelsARunThatIsStopped},
		{"timesOut", (*fixture).timesOut},
		{"respectsAForeignLock", (*fixture).respectsAForeignLock},
		{"blocksTheDestructionOfProtectedResources", (*fixture).blocksTheDestructionOfProtectedResources},
		{"obeysPolicies", (*fixture).obeysPolicies},
		{"takesTheModuleFromAnArtifact", (*fixture).takesTheModuleFromAnArtifact},
		{"encryptsTheState", (*fixture).encryptsTheState},
		{"storesNoCredentials", (*fixture).storesNoCredentials},
		{"ignoresARunWithoutRequest", (*fixture).ignoresARunWithoutRequest},
		{"forgetsRepeatedly", (*fixture).forgetsRepeatedly},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newFixture(t, harness(t), newKubernetes))
		})
	}
}
