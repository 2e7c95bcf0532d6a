//go:build !linux

package process

import (
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// adopt does nothing on this platform: the exit of a runner that an earlier
// manager started is detected only by its result.
func (*Executor) adopt(terraform.Run, *record.Identity) {}

// isAnother is not known on this platform, on which no process is adopted, and so none that
// this manager did not start is stopped.
func isAnother(terraform.Run, int) bool { return false }
