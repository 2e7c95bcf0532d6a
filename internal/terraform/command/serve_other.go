//go:build !linux

package command

import "context"

// servedProviders exist only on Linux.
type servedProviders struct{}

// ServeProviders does nothing: the tool starts the providers.
func (*Session) ServeProviders(context.Context) {}

// StopProviders does nothing.
func (*Session) StopProviders() {}

func (*Session) useProviders(context.Context, *call) (release func()) { return func() {} }

func (*servedProviders) isActive() bool { return false }

func (*servedProviders) hasEnded() bool { return false }
