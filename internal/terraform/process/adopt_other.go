//go:build !linux

package process

import (
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// adopt does nothing here: the end of a runner that an earlier manager started
// is noticed by its result.
func (*Executor) adopt(terraform.Run, *record.Identity) {}
