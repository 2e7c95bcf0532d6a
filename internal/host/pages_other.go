//go:build !linux

package host

// Program is the program's file in memory.
type Program struct{}

// OpenProgram returns the program that runs.
func OpenProgram() (*Program, error) { return &Program{}, nil }

// ReleasePages does nothing: only Linux has a way to release pages of the program.
func (*Program) ReleasePages() error { return nil }
