// Package api_test tests CAPT's kinds on a real API server: rejected objects and their
// messages, accepted objects, and documentation.
package api_test

import (
	"os"
	"testing"

	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/webhooks"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithWebhooks(webhooks.Setup)))
}
