package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// InitOptions configure what an init does in addition to installing modules and
// providers.
type InitOptions struct {
	// Backend initialises the backend, which connects to it.
	Backend bool
	Args    []string
}

var (
	noJSON = regexp.MustCompile(`flag provided but not defined: -json`)
	// lockOutdated matches the error if the dependency lock file of an earlier
	// version of the module violates the module's version constraints.
	lockOutdated = regexp.MustCompile(`(?i)does not match configured version constraint`)
)

// initArgs returns the arguments of an init. Pinned modules are not upgraded.
func initArgs(request *terraform.Request) []string {
	if request.Module.Pin == nil {
		return request.InitArgs
	}
	return terraform.DropUpgrade(request.InitArgs)
}

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
	switch errs := failure.Diagnostics.Errors(); {
	case matches(errs, noJSON):
		return s.init(ctx, options, false)
	case matches(errs, lockOutdated):
		s.log.print(time.Time{}, "Warning: the providers of the dependency lock file do not match the version constraints of the module any more. They are selected again, and their checksums are those of the registry now")
		if err := os.Remove(filepath.Join(s.Root, dependencyLock)); err != nil {
			return fmt.Errorf("removing the outdated dependency lock file: %w", err)
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
		// Never migrate the state from a backend that was configured before.
		args = append(args, "-reconfigure")
	} else {
		args = append(args, "-backend=false")
	}
	args = slices.Concat(args, terraform.DropImplied(options.Args))
	output, err := s.stream(ctx, "init", 0, args, func(Event) {})
	if err != nil {
		return err
	}
	if output.code != 0 {
		return s.failure(ctx, "init", output)
	}
	return nil
}

// lockPlugins adds the installed providers to the shared plugin cache, and locks it for
// an init of Terraform, because concurrent inits of Terraform may write the same
// provider. OpenTofu has its own lock.
func (s *Session) lockPlugins(ctx context.Context) (unlock func(), err error) {
	if s.plugins == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(s.plugins, 0o700); err != nil {
		return nil, fmt.Errorf("creating the plugin cache: %w", err)
	}
	if s.providers != "" {
		if err := linkProviders(s.providers, s.plugins); err != nil {
			return nil, err
		}
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

// matches reports whether the pattern matches any of the diagnostics.
func matches(diagnostics terraform.Diagnostics, pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(diagnostics, func(d terraform.Diagnostic) bool { return pattern.MatchString(text(d)) })
}

// LockFile returns the content of the dependency lock file, or nil if the file
// does not exist.
func (s *Session) LockFile() ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(s.Root, dependencyLock))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the dependency lock file: %w", err)
	}
	return content, nil
}
