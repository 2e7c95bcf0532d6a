package speculate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

var (
	callsSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "module", LabelNames: []string{"name"}}}}
	callSchema  = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "source"}}}
)

// call is the use of a module of another directory.
type call struct {
	// dir is the absolute path of the module.
	dir string
	// source is its address, and file and line are where it is written.
	source, file string
	line         int
}

func (c call) String() string { return fmt.Sprintf("%s:%d uses module %s", c.file, c.line, c.source) }

// usedModules returns the modules that a module uses by relative paths, directly and
// indirectly.
func usedModules(dir string) ([]call, error) {
	seen := map[string]bool{dir: true}
	var used []call
	for next := []string{dir}; len(next) > 0; next = next[1:] {
		calls, err := localCalls(next[0])
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			// The tool reports a directory that does not exist, with its position.
			if info, err := os.Stat(c.dir); err != nil || !info.IsDir() || seen[c.dir] {
				continue
			}
			seen[c.dir] = true
			used, next = append(used, c), append(next, c.dir)
		}
	}
	return used, nil
}

// localCalls returns the calls of a module whose source is a relative path. The tool
// reports files and sources that are invalid.
func localCalls(dir string) ([]call, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	var calls []call
	for _, entry := range entries {
		if entry.IsDir() || !terraform.IsConfig(entry.Name()) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the module: %w", err)
		}
		body, tooDeep := inspect.Parse(path, content)
		if tooDeep {
			return nil, fmt.Errorf("%s is nested too deeply: simplify it", path)
		}
		if body == nil {
			continue
		}
		found, _, _ := body.PartialContent(callsSchema)
		for _, block := range found.Blocks {
			if c, ok := localCall(dir, path, block); ok {
				calls = append(calls, c)
			}
		}
	}
	return calls, nil
}

// localCall returns the call of a block, if its source is a relative path.
func localCall(dir, file string, block *hcl.Block) (call, bool) {
	content, _, _ := block.Body.PartialContent(callSchema)
	source, found := content.Attributes["source"]
	if !found {
		return call{}, false
	}
	text := inspect.Constant(source.Expr)
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") && text != "." && text != ".." {
		return call{}, false
	}
	return call{dir: filepath.Join(dir, filepath.FromSlash(text)), source: text, file: file, line: source.Range.Start.Line}, true
}

// repositoryOf returns the root of the Git repository of a directory, or an empty string.
func repositoryOf(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// isTooWide reports whether a directory has far more than modules: the root directory, the
// home directory of the user, or one that contains it.
func isTooWide(dir string) bool {
	if dir == filepath.Dir(dir) {
		return true
	}
	home, err := os.UserHomeDir()
	if err != nil || home == "" {
		return false
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		home = resolved
	}
	return isBelow(home, dir)
}
