package speculate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/appthrust/capt/internal/terraform"
)

// localCall matches the source of a module call that is a directory, in both syntaxes.
var localCall = regexp.MustCompile(`\bsource"?\s*[:=]\s*"(\.\.?/[^"]*)"`)

// addUsed adds a module and the modules that it uses by a relative path, as absolute paths.
func addUsed(dir string, used map[string]bool) error {
	if used[dir] {
		return nil
	}
	used[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !terraform.IsConfig(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return fmt.Errorf("reading the module: %w", err)
		}
		for _, call := range localCall.FindAllSubmatch(content, -1) {
			// The tool reports a directory that does not exist, with its position.
			called := filepath.Join(dir, filepath.FromSlash(string(call[1])))
			if _, err := os.Stat(called); err != nil {
				continue
			}
			if err := addUsed(called, used); err != nil {
				return err
			}
		}
	}
	return nil
}
