package unprofiled

import (
	"runtime"
	"testing"
)

func TestInit_disablesTheMemoryProfile(t *testing.T) {
	if runtime.MemProfileRate != 0 {
		t.Errorf("the memory profile is taken every %d bytes", runtime.MemProfileRate)
	}
}
