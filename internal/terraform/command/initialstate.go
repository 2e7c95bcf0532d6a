package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/appthrust/capt/internal/terraform"
)

// encryptionBlock matches the block that configures encryption, but not the word
// elsewhere.
var encryptionBlock = regexp.MustCompile(`(?m)^[^#"\n]*\bencryption\s*\{|"encryption"\s*:`)

// InitialState returns the first state of a new workspace, encrypted if the
// workspace configures encryption. The Kubernetes backend writes such a state on
// first use and takes the state's lock for that, even with -lock=false. So the
// holder of the lock must write it before.
func (s *Session) InitialState(ctx context.Context) ([]byte, error) {
	empty := EmptyState(uuid.NewString())
	encrypted, err := s.encrypts()
	if err != nil || !encrypted {
		return empty, err
	}
	// Only the tool can encrypt a state. It encrypts that of a local backend in a
	// directory with the same encryption settings.
	scratch, err := os.MkdirTemp(s.RunDir, "initial-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the initial state: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := copyEncryption(s.Root, scratch); err != nil {
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

// copyEncryption copies the configuration that determines how states are
// encrypted: terraform blocks, and the variables and locals that they may refer
// to. It omits the rest, which calls modules that are not installed there.
func copyEncryption(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !isConfig(name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("reading the module: %w", err)
		}
		if err := os.WriteFile(filepath.Join(to, name), settings(name, content), 0o600); err != nil {
			return fmt.Errorf("copying the encryption settings: %w", err)
		}
	}
	return nil
}

// settings returns the blocks of a file that copyEncryption copies. It returns an
// invalid file unchanged, so that the tool reports the error.
func settings(name string, content []byte) []byte {
	kept := map[string]bool{"terraform": true, "variable": true, "locals": true}
	if strings.HasSuffix(name, ".json") {
		var body map[string]json.RawMessage
		if err := json.Unmarshal(content, &body); err != nil {
			return content
		}
		maps.DeleteFunc(body, func(block string, _ json.RawMessage) bool { return !kept[block] })
		text, err := json.Marshal(body)
		if err != nil {
			return content
		}
		return text
	}
	file, diagnostics := hclwrite.ParseConfig(content, name, hcl.InitialPos)
	if diagnostics.HasErrors() {
		return content
	}
	for _, block := range file.Body().Blocks() {
		if !kept[block.Type()] {
			file.Body().RemoveBlock(block)
		}
	}
	return file.Bytes()
}

// encrypts reports whether the environment or the module may configure state
// encryption.
func (s *Session) encrypts() (bool, error) {
	for _, entry := range s.env {
		if value, found := strings.CutPrefix(entry, "TF_ENCRYPTION="); found && value != "" {
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
