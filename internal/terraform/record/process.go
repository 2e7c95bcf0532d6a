package record

import (
	"errors"
	"os"

	"github.com/appthrust/capt/internal/host"
)

// Alive reports whether the process of an identity of this machine and boot
// exists.
func (i *Identity) Alive() bool {
	started, err := host.ProcessStartTime(i.PID)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	// Any other error does not prove that the process has exited.
	return err != nil || started == i.Started
}
