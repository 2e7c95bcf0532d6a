// Package waits sets how long tests wait. Every test package that calls Eventually
// imports it; gomega's own default of one second is too short for a busy machine.
package waits

import (
	"time"

	"github.com/onsi/gomega"
)

// Timeout is how long an expectation may take on a busy machine. A test that passes does
// not wait for it.
const Timeout = 5 * time.Minute

// interval is how often an expectation is checked. Each check asks the API server.
const interval = 200 * time.Millisecond

func init() {
	gomega.SetDefaultEventuallyTimeout(Timeout)
	gomega.SetDefaultEventuallyPollingInterval(interval)
	gomega.SetDefaultConsistentlyPollingInterval(interval)
}
