package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
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
	// version of the module violates the module's version constraints. The group is the
	// address of the provider.
	lockOutdated = regexp.MustCompile(`(?i)locked\s+provider\s+(\S+)\s+\S+\s+does\s+not\s+match\s+configured\s+version\s+constraint`)
)

// initArgs returns the arguments of an init. Pinned modules are not upgraded.
func initArgs(request *terraform.Request) []string {
	if request.Module.Pin == nil {
		return request.InitArgs
	}
	return terraform.DropUpgrade(request.InitArgs)
}

// Init installs modules and providers. Modules that need credentials are fetched before the
// init, which has no credentials.
//
// In a sandbox, the init that writes the plugin cache does nothing else: fetching modules may
// start programs that the module chooses, and so does the backend, such as an external
// key provider of its encryption.
func (s *Session) Init(ctx context.Context, options InitOptions) error {
	if len(s.auth) > 0 || s.guardsPlugins() {
		var get []string
		get, options.Args = terraform.SplitInit(options.Args)
		if err := s.get(ctx, get); err != nil {
			return err
		}
	}
	unlock, err := s.lockPlugins(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if options.Backend && s.guardsPlugins() {
		if err := s.tryInit(ctx, InitOptions{Args: options.Args}); err != nil {
			return err
		}
	}
	return s.tryInit(ctx, options)
}

// tryInit runs an init, and once more if the lock file of the dependencies is outdated. One that
// is a part of the module is not changed: its author chose the versions and checksums.
func (s *Session) tryInit(ctx context.Context, options InitOptions) error {
	err := s.init(ctx, options, true)
	failure := AsFailure(err)
	if failure == nil || failure.Interrupted {
		return err
	}
	switch errs := failure.Diagnostics.Errors(); {
	case matches(errs, noJSON):
		return s.init(ctx, options, false)
	case matches(errs, lockOutdated) && !s.ownLock:
		if err := s.unlockProviders(outdatedProviders(errs)); err != nil {
			return err
		}
		return s.init(ctx, options, true)
	default:
		return err
	}
}

// get fetches the modules that the root module uses. It executes nothing of them.
func (s *executor) get(ctx context.Context, args []string) error {
	output, err := s.stream(ctx, "get", 0, slices.Concat([]string{"get", "-no-color"}, args), func(events.Event) {})
	if err != nil {
		return err
	}
	if output.code != 0 {
		return s.failure(ctx, "get", output)
	}
	return nil
}

func (s *Session) init(ctx context.Context, options InitOptions, asJSON bool) error {
	args := []string{"init", "-input=false", "-no-color"}
	if asJSON {
		args = append(args, "-json")
	}
	if options.Backend {
		// Never migrate the state from a backend that was configured before.
		args = append(args, "-reconfigure")
	} else {
		args = append(args, "-backend=false")
	}
	args = slices.Concat(args, terraform.DropImplied(options.Args))
	output, err := s.stream(ctx, "init", 0, args, func(events.Event) {})
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
	if version.Product == terraform.ProductOpenTofu {
		return func() {}, nil
	}
	return lockFile(ctx, filepath.Join(s.plugins, ".lock"))
}

// matches reports whether the pattern matches any of the diagnostics.
func matches(diagnostics terraform.Diagnostics, pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(diagnostics, func(d terraform.Diagnostic) bool { return pattern.MatchString(text(d)) })
}

// outdatedProviders returns the addresses of the providers whose locked version does not match
// the module any more.
func outdatedProviders(diagnostics terraform.Diagnostics) []string {
	var addresses []string
	for _, d := range diagnostics {
		for _, match := range lockOutdated.FindAllStringSubmatch(text(d), -1) {
			addresses = append(addresses, match[1])
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// unlockProviders removes providers from the dependency lock file. The versions and checksums
// of the others stay.
func (s *Session) unlockProviders(addresses []string) error {
	path := filepath.Join(s.Root, dependencyLock)
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the outdated dependency lock file: %w", err)
	}
	file, problems := hclwrite.ParseConfig(content, dependencyLock, hcl.InitialPos)
	if problems.HasErrors() {
		return fmt.Errorf("reading the outdated dependency lock file: %w", problems)
	}
	for _, address := range addresses {
		block := file.Body().FirstMatchingBlock("provider", []string{address})
		if block == nil || !file.Body().RemoveBlock(block) {
			return fmt.Errorf("the dependency lock file does not have the provider %s, whose version is outdated", address)
		}
		s.log.print(time.Time{}, "Warning: the version of provider "+address+" in the dependency lock file does not match the version constraint of the module any more. It is selected again, and its checksums are those of the registry now")
	}
	return writeFile(path, file.Bytes())
}

// LockFile returns the content of the dependency lock file, or nil if the file
// does not exist.
func (s *workingDir) LockFile() ([]byte, error) {
	content, err := readInside(s.dir(), filepath.Join(s.Root, dependencyLock))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the dependency lock file: %w", err)
	}
	return content, nil
}
