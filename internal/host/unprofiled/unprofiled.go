// Package unprofiled disables the memory profile of the Go runtime for programs that do
// not serve it. The profile takes memory for each place that allocates, and reads the
// tables of the program's functions, which are then kept in RAM. GODEBUG=memprofilerate
// still enables it.
//
// It imports nothing but the runtime, so that it is initialized before the packages that
// allocate much.
package unprofiled

import "runtime"

// defaultRate is that of the Go runtime.
const defaultRate = 512 << 10

func init() {
	if runtime.MemProfileRate == defaultRate {
		runtime.MemProfileRate = 0
	}
}
