package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/appthrust/capt/internal/terraform"
)

var encryptionBlock = regexp.MustCompile(`\bencryption\b`)

// InitialState returns the state of a workspace that has none yet, encrypted
// when its states are. The Kubernetes backend writes such a state on first use
// and takes the state's lock for that, even with -lock=false: whoever holds
// the lock has to have written it before.
func (s *Session) InitialState(ctx context.Context) ([]byte, error) {
	empty := EmptyState(newLineage())
	encrypted, err := s.encrypts()
	if err != nil || !encrypted {
		return empty, err
	}
	// Only the tool can encrypt. It does so for a local backend in a directory
	// with the same configuration.
	scratch, err := os.MkdirTemp(s.RunDir, "initial-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the initial state: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	outside := func(relative string) bool { return !isConfig(relative) || filepath.Dir(relative) != "." }
	if err := copyTree(s.Root, scratch, outside, func(string) bool { return false }); err != nil {
		return nil, err
	}
	local := &Workdir{Dir: scratch}
	if err := local.writeBackend(scratch, terraform.Backend{}, s.product); err != nil {
		return nil, err
	}
	writer := *s
	writer.Root, writer.reinit, writer.backend = scratch, nil, terraform.Backend{}
	if err := writer.StatePush(ctx, empty, false); err != nil {
		return nil, err
	}
	state, err := os.ReadFile(filepath.Join(scratch, localState))
	if err != nil {
		return nil, fmt.Errorf("reading the initial state: %w", err)
	}
	return state, nil
}

// encrypts reports whether states may be encrypted, by the environment or by
// the module.
func (s *Session) encrypts() (bool, error) {
	for _, entry := range s.env {
		if len(entry) > len("TF_ENCRYPTION=") && entry[:len("TF_ENCRYPTION=")] == "TF_ENCRYPTION=" {
			return true, nil
		}
	}
	entries, err := os.ReadDir(s.Root)
	if err != nil {
		return false, fmt.Errorf("reading the module: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !isConfig(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(s.Root, entry.Name()))
		if err != nil {
			return false, fmt.Errorf("reading the module: %w", err)
		}
		if encryptionBlock.Match(content) {
			return true, nil
		}
	}
	return false, nil
}

func newLineage() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails.
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
