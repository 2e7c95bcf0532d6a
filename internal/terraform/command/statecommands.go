package command

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/statefile"
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

// StateCreate pushes a state into a backend that has none. The tool gives the first
// state of a backend a new lineage, so that an empty one has to precede it.
func (s *Session) StateCreate(ctx context.Context, state []byte, owner string) error {
	if err := s.StatePush(ctx, statefile.New(uuid.NewString(), owner), false); err != nil {
		return err
	}
	return s.StatePush(ctx, state, true)
}

// ForceUnlock releases the lock with the given ID. The caller must have proof that
// the lock's holder has ended.
func (s *Session) ForceUnlock(ctx context.Context, id string) error {
	return s.ready(ctx, func() error {
		_, err := s.capture(ctx, "force-unlock", []string{"force-unlock", "-force", id}, nil)
		s.LockLeft = s.LockLeft && err != nil
		return err
	})
}

// StateList returns the addresses of the resources in the state, one per line. With
// addresses, it returns only the resources that match.
func (s *Session) StateList(ctx context.Context, addresses []string) (string, error) {
	return s.stateCommand(ctx, slices.Concat([]string{"state", "list"}, addresses))
}

// StateShow returns the attributes of a resource in the state as text. Sensitive
// values are masked unless sensitive is set, which requires OpenTofu.
func (s *Session) StateShow(ctx context.Context, address string, sensitive bool) (string, error) {
	args := []string{"state", "show", "-no-color"}
	if sensitive {
		if s.used.Product == terraform.ProductTerraform {
			return "", fmt.Errorf("%s cannot print sensitive values as text: use -o json", s.used.Product)
		}
		args = append(args, "-show-sensitive")
	}
	return s.stateCommand(ctx, append(args, address))
}

// StateMove changes the address of a resource or a module in the state.
func (s *Session) StateMove(ctx context.Context, from, to string) (string, error) {
	return s.stateCommand(ctx, slices.Concat([]string{"state", "mv"}, s.lockArgs(), s.backupArgs(), []string{from, to}))
}

// StateRemove removes resources from the state. The real resources stay.
func (s *Session) StateRemove(ctx context.Context, addresses []string) (string, error) {
	return s.stateCommand(ctx, slices.Concat([]string{"state", "rm"}, s.lockArgs(), s.backupArgs(), addresses))
}

func (s *Session) stateCommand(ctx context.Context, args []string) (string, error) {
	var out []byte
	err := s.ready(ctx, func() (err error) {
		out, err = s.capture(ctx, args[0]+" "+args[1], args, nil)
		return err
	})
	return string(out), err
}

// backupArgs moves the backup of the state file, which the tool writes beside the
// file by default, to the directory that is removed after the run. Other backends
// have no backup and reject the flag.
func (s *Session) backupArgs() []string {
	if s.backend.Type == terraform.BackendKubernetes {
		return []string{"-backup=" + filepath.Join(s.RunDir, "state"+backupSuffix)}
	}
	return nil
}
