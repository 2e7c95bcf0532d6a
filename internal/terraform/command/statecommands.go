package command

import (
	"bytes"
	"context"
	"slices"
)

// StatePull returns the decrypted state as JSON, or nothing if there is no state.
func (s *Session) StatePull(ctx context.Context) ([]byte, error) {
	var state []byte
	err := s.ready(ctx, func() (err error) {
		state, err = s.capture(ctx, "state pull", []string{"state", "pull"}, nil)
		return err
	})
	return bytes.TrimSpace(state), err
}

// StatePush replaces the backend's state. Without force, the backend's state must
// have the same lineage and must not be newer.
func (s *Session) StatePush(ctx context.Context, state []byte, force bool) error {
	args := slices.Concat([]string{"state", "push"}, s.lockArgs())
	if force {
		args = append(args, "-force")
	}
	args = append(args, "-")
	return s.ready(ctx, func() error {
		_, err := s.capture(ctx, "state push", args, bytes.NewReader(state))
		return err
	})
}

// ForceUnlock releases the lock with the given ID. The caller must have proof that
// the lock's holder has ended.
func (s *Session) ForceUnlock(ctx context.Context, id string) error {
	return s.ready(ctx, func() error {
		_, err := s.capture(ctx, "force-unlock", []string{"force-unlock", "-force", id}, nil)
		return err
	})
}
