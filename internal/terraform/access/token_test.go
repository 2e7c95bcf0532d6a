package access

import (
	"testing"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// A stored token is of use for as short a time as its run may need it.
func TestLifetime_isThatOfTheRun(t *testing.T) {
	for _, test := range []struct{ timeout, grace, want time.Duration }{
		{time.Hour, 10 * time.Minute, 27*time.Hour + 10*time.Minute},
		{12 * time.Hour, 0, 49 * time.Hour},
		{0, time.Hour, 7 * 24 * time.Hour},
	} {
		if have := lifetime(&terraform.Request{Timeout: test.timeout, Grace: test.grace}); have != test.want {
			t.Errorf("timeout %s, grace %s: got %s, want %s", test.timeout, test.grace, have, test.want)
		}
	}
}
