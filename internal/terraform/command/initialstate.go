package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/appthrust/capt/internal/terraform"
)

// encryptionBlock finds the block that encrypts states, not the word alone.
var encryptionBlock = regexp.MustCompile(`(?m)^[^#"\n]*\bencryption\s*\{|"encryption"\s*:`)

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

// copyEncryption copies what decides how states are encrypted: the settings of
// the tool, and the variables and locals they may refer to. The rest is left
// out, for the modules it calls are not installed there.
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
			return fmt.Errorf("copying the settings: %w", err)
		}
	}
	return nil
}

// settings keeps the blocks of a file that copyEncryption copies. A file that
// does not parse stays as it is: the tool says what is wrong with it.
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
