package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
)

// InitOptions say what an init sets up besides modules and providers.
type InitOptions struct {
	// Backend sets up the backend, and so connects to it.
	Backend bool
	Args    []string
}

var (
	noJSON = regexp.MustCompile(`flag provided but not defined: -json`)
	// lockOutdated is said when a dependency lock file of an earlier version
	// of the module does not allow what the module now asks for.
	lockOutdated = regexp.MustCompile(`(?i)does not match configured version constraint`)
)

// Init installs modules and providers.
func (s *Session) Init(ctx context.Context, options InitOptions) error {
	unlock, err := s.lockPlugins(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	err = s.init(ctx, options, true)
	failure := AsFailure(err)
	if failure == nil || failure.Interrupted {
		return err
	}
	switch said := failure.Diagnostics.Errors(); {
	case matches(said, noJSON):
		return s.init(ctx, options, false)
	case matches(said, lockOutdated):
		if err := os.Remove(filepath.Join(s.Root, dependencyLock)); err != nil {
			return fmt.Errorf("removing an outdated lock file: %w", err)
		}
		return s.init(ctx, options, true)
	default:
		return err
	}
}

func (s *Session) init(ctx context.Context, options InitOptions, events bool) error {
	args := []string{"init", "-input=false", "-no-color"}
	if events {
		args = append(args, "-json")
	}
	if options.Backend {
		// Never offer to move the state of what was configured before.
		args = append(args, "-reconfigure")
	} else {
		args = append(args, "-backend=false")
	}
	args = slices.Concat(args, terraform.DropImplied(options.Args))
	heard, err := s.stream(ctx, "init", args, func(Event) {})
	if err != nil {
		return err
	}
	if heard.code != 0 {
		return s.failure(ctx, "init", heard)
	}
	return nil
}

// lockPlugins keeps two inits of Terraform from writing to the same provider
// in a shared plugin cache. OpenTofu takes care of that itself.
func (s *Session) lockPlugins(ctx context.Context) (unlock func(), err error) {
	if s.plugins == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(s.plugins, 0o700); err != nil {
		return nil, fmt.Errorf("creating the plugin cache: %w", err)
	}
	version, err := s.tool.Version(ctx)
	if err != nil {
		return nil, err
	}
	if version.Product == OpenTofu {
		return func() {}, nil
	}
	return lockFile(ctx, filepath.Join(s.plugins, ".lock"))
}

func matches(diagnostics terraform.Diagnostics, pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(diagnostics, func(d terraform.Diagnostic) bool { return pattern.MatchString(text(d)) })
}

// LockFile returns the dependency lock file, or nothing when there is none.
func (s *Session) LockFile() ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(s.Root, dependencyLock))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the dependency lock file: %w", err)
	}
	return content, nil
}
