package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// platform is the name of the platform in the directories of providers.
const platform = runtime.GOOS + "_" + runtime.GOARCH

// linkProviders links the installed providers of a directory into a plugin cache, so
// that an init neither downloads nor copies them. The directory may be read-only, as one
// must be that several runs share: a run that can write a provider there executes code
// in all others. Its layout is that of a plugin cache and of a file system mirror:
// HOST/NAMESPACE/TYPE/VERSION/OS_ARCH. It may be missing.
//
// The tool downloads other versions into the plugin cache. It refuses a provider that
// does not match a checksum in the dependency lock file.
func linkProviders(directory, cache string) error {
	packages, err := filepath.Glob(filepath.Join(directory, "*", "*", "*", "*", platform))
	if err != nil {
		return fmt.Errorf("listing the installed providers: %w", err)
	}
	for _, target := range packages {
		relative, err := filepath.Rel(directory, target)
		if err != nil {
			return fmt.Errorf("listing the installed providers: %w", err)
		}
		if info, err := os.Stat(target); err != nil || !info.IsDir() {
			continue
		}
		link := filepath.Join(cache, relative)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return fmt.Errorf("linking an installed provider: %w", err)
		}
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("linking an installed provider: %w", err)
		}
	}
	return nil
}
