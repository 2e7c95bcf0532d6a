//go:build !linux

package process

import (
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// adopt does nothing on this platform: the exit of a runner that an earlier
// manager started is detected only by its result.
func (*Executor) adopt(terraform.Run, *record.Identity) {}
