package binary

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// NotAvailableError is the error if no tool meets a requirement.
type NotAvailableError struct {
	Requirement terraform.ToolRequirement
	// Available are the tools that exist.
	Available []string
}

func (e *NotAvailableError) Error() string {
	available := "none"
	if len(e.Available) > 0 {
		available = strings.Join(e.Available, ", ")
	}
	return fmt.Sprintf("the template requires %s. Available: %s. Change spec.template.spec.tool of the WorkspaceTemplate, or use a runner image that has it in PATH, for example as tofu-1.10.6", e.Requirement, available)
}

// toolName matches the names of the tools that Select finds: tofu, terraform-1.9.8.
var toolName = regexp.MustCompile(`^(tofu|terraform)(-v?\d[0-9A-Za-z.-]*)?$`)

// Select returns the tool that meets a requirement: that of Find if it does, else the newest
// of the programs beside it and in PATH. Versions of OpenTofu and Terraform do not compare:
// if the requirement names none of both, the product of Find's tool is preferred. Without a
// requirement it returns that of Find.
func Select(ctx context.Context, path string, requirement *terraform.ToolRequirement) (*Tool, error) {
	configured, err := Find(path)
	if requirement == nil {
		return configured, err
	}
	failure := &NotAvailableError{Requirement: *requirement}
	var best *Tool
	var chosen, preferred terraform.Tool
	for _, candidate := range candidates(configured) {
		tool := &Tool{Path: candidate}
		found, err := tool.Version(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			continue
		}
		failure.Available = append(failure.Available, fmt.Sprintf("%s (%s)", found, candidate))
		meets := requirement.Meets(found.Product, found.Version)
		if configured != nil && candidate == configured.Path {
			if meets {
				return tool, nil
			}
			preferred = found
		}
		if meets && (best == nil || isBetter(found, chosen, preferred.Product)) {
			best, chosen = tool, found
		}
	}
	if best == nil {
		return nil, failure
	}
	return best, nil
}

// candidates returns the paths of the tools that exist, the configured one first.
func candidates(configured *Tool) []string {
	var paths []string
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if configured != nil {
		paths = append(paths, configured.Path)
		dirs = append([]string{filepath.Dir(configured.Path)}, dirs...)
	}
	for _, dir := range dirs {
		paths = append(paths, toolsIn(dir)...)
	}
	return unique(paths)
}

// isBetter reports whether a tool is to be used instead of another one: because of its
// product, which is OpenTofu if none is preferred, or because it is newer.
func isBetter(tool, other terraform.Tool, preferred string) bool {
	if tool.Product != other.Product {
		return tool.Product == cmp.Or(preferred, terraform.ProductOpenTofu)
	}
	return terraform.CompareToolVersions(tool.Version, other.Version) > 0
}

// toolsIn returns the programs of a directory that may be tools.
func toolsIn(dir string) []string {
	entries, _ := os.ReadDir(dir) // A directory of PATH need not exist.
	var found []string
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err == nil && toolName.MatchString(entry.Name()) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			found = append(found, path)
		}
	}
	return found
}

// unique returns absolute paths without those of the same file.
func unique(paths []string) []string {
	var kept, files []string
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		file, err := filepath.EvalSymlinks(absolute)
		if err != nil || slices.Contains(files, file) {
			continue
		}
		kept, files = append(kept, absolute), append(files, file)
	}
	return kept
}
