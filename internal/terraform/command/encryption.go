package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// defaultStateFile is the state file of the tool without a configured backend.
const defaultStateFile = "terraform.tfstate"

// EncryptState returns a decrypted state as the tool stores it with the encryption of
// the session. Terraform ignores the encryption.
func (s *Session) EncryptState(ctx context.Context, state []byte) ([]byte, error) {
	return s.scratch(func(scratch *Session) ([]byte, error) {
		if _, err := scratch.capture(ctx, "state push", []string{"state", "push", "-"}, bytes.NewReader(state)); err != nil {
			return nil, err
		}
		encrypted, err := os.ReadFile(filepath.Join(scratch.Root, defaultStateFile))
		if err != nil {
			return nil, fmt.Errorf("reading the encrypted state: %w", err)
		}
		return encrypted, nil
	})
}

// DecryptState reverses EncryptState.
func (s *Session) DecryptState(ctx context.Context, encrypted []byte) ([]byte, error) {
	return s.scratch(func(scratch *Session) ([]byte, error) {
		if err := writeFile(filepath.Join(scratch.Root, defaultStateFile), encrypted); err != nil {
			return nil, err
		}
		return scratch.capture(ctx, "state pull", []string{"state", "pull"}, nil)
	})
}

// scratch calls use with a session that has the same encryption, but no module and no
// other backend than a file in an own directory.
func (s *Session) scratch(use func(*Session) ([]byte, error)) ([]byte, error) {
	dir, err := os.MkdirTemp(s.RunDir, "encryption-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	scratch := *s
	scratch.Root = dir
	out, err := use(&scratch)
	if removeErr := os.RemoveAll(dir); err == nil && removeErr != nil {
		return nil, fmt.Errorf("removing a directory: %w", removeErr)
	}
	return out, err
}
