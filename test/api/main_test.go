// Package api_test holds CAPT's kinds against the real API server: what it
// refuses and in which words, what it takes, and how it documents itself.
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
