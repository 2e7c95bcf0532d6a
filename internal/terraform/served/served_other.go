//go:build !linux

package served

import (
	"context"

	"github.com/appthrust/capt/internal/terraform"
)

// Providers exist only on Linux.
type Providers struct{}

// Start does nothing: the tool starts the providers.
func Start(context.Context, Module) *Providers { return nil }

// Stop does nothing.
func (*Providers) Stop() {}

// Failed returns false.
func (*Providers) Failed(terraform.Diagnostics) bool { return false }

// Connect returns an empty connection.
func (*Providers) Connect(context.Context, []string, []string) *Connection { return &Connection{} }

type relay struct{}

func (*relay) allow(int) {}
func (*relay) close()    {}
