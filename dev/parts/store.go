package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// store finds programs on the machine and builds missing ones into a cache.
type store struct {
	modules string
	cache   string
	// goos and goarch are the platform of the programs.
	goos, goarch string
	// reproducible accepts only programs that this version of Go has built from the
	// pinned module.
	reproducible bool

	// net downloads releases. It is nil if programs must be compiled.
	net *downloader
	// sums are the checksums of releases, and authority verifies their signatures.
	sums      checksums
	authority authority
}

// pinned is a part with its version and its cache key.
type pinned struct {
	part
	version string
	key     string
}

func (s store) pin(p part) (pinned, error) {
	dir := filepath.Join(s.modules, p.module)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return pinned{}, fmt.Errorf("reading the module of %s: %w", p.name, err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return pinned{}, fmt.Errorf("reading the checksums of %s: %w", p.name, err)
	}
	version, err := requiredVersion(mod, p.versionOf)
	if err != nil {
		return pinned{}, fmt.Errorf("%s/go.mod: %w", dir, err)
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%s\x00%s\x00%s\x00%s\x00%s\x00%s", mod, sum, p.pkg, p.stamp, s.goos, s.goarch)
	if len(p.services) > 0 {
		fmt.Fprintf(digest, "\x00%s", strings.Join(p.services, ","))
	}
	if err := hashSource(digest, dir); err != nil {
		return pinned{}, fmt.Errorf("reading the source of %s: %w", p.name, err)
	}
	return pinned{part: p, version: version, key: fmt.Sprintf("%s-%x", version, digest.Sum(nil)[:6])}, nil
}

// hashSource adds the Go files of a module to a digest, without its tests. Only the
// modules of CAPT's own programs in dev/bin have Go files.
func hashSource(digest io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(digest, "\x00%s\x00%s", strings.TrimPrefix(path, dir+string(filepath.Separator)), text)
		return err
	})
}

// requiredVersion returns the version of a module in the require directives of a
// go.mod.
func requiredVersion(mod []byte, path string) (string, error) {
	file, err := modfile.ParseLax("go.mod", mod, nil)
	if err != nil {
		return "", err
	}
	for _, required := range file.Require {
		if required.Mod.Path == path {
			return required.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s is not required", path)
}

func (s store) cached(p pinned) string { return filepath.Join(s.cache, p.name, p.key, p.name) }

// find returns the path of an existing program, or "": one that is installed in the
// pinned version, else the published or the compiled one in the cache.
func (s store) find(ctx context.Context, p pinned) (string, error) {
	if path, err := s.installed(ctx, p); path != "" || err != nil {
		return path, err
	}
	if s.net != nil && !s.reproducible && releases[p.name] != nil {
		sum, err := s.expected(p)
		if err != nil {
			return "", err
		}
		if sum != "" && executable(s.released(p, sum)) {
			return s.released(p, sum), nil
		}
	}
	if path := s.cached(p); s.usable(path) {
		return path, nil
	}
	return "", nil
}

// installed returns the path of a program outside of the cache, or "". It prints the pinned
// version, only root and this user can replace it, and it has the pinned checksum, if there is
// one of the program itself.
func (s store) installed(ctx context.Context, p pinned) (string, error) {
	if len(p.versionArgs) == 0 || s.reproducible {
		return "", nil
	}
	sum, err := s.programSum(p)
	if err != nil {
		return "", err
	}
	for _, dir := range searchPath(p.version) {
		// Resolve links, because the file may be the link that relink will replace.
		path, err := filepath.Abs(filepath.Join(dir, p.name))
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil || !executable(path) || !owned(path) || !owned(filepath.Dir(path)) || !owned(dir) || !hasSum(path, sum) {
			continue
		}
		// Only now the program may run.
		prints, err := printsVersion(ctx, probeTimeout, path, p.versionArgs, p.version)
		if err != nil {
			fmt.Fprintf(os.Stderr, "parts: %s: %v: it is not used\n", path, err)
		}
		if prints {
			return path, nil
		}
	}
	return "", nil
}

// programSum returns the pinned checksum of a program, or "" if it is that of an archive or
// if there is none.
func (s store) programSum(p pinned) (string, error) {
	if r := releases[p.name]; r == nil || r.member != "" {
		return "", nil
	}
	return s.expected(p)
}

// hasSum reports whether a file has a checksum, unless it is "".
func hasSum(path, sum string) bool {
	if sum == "" {
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	_, text, err := sumOf(file)
	return err == nil && text == sum
}

// prepareCache creates the cache. Its programs are run without another check, so it must be one
// that only root and this user can change.
func (s store) prepareCache() error {
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	if err := checkOwned(s.cache); err != nil {
		return fmt.Errorf("others could change the cache %s: %w: set CAPT_PARTS_CACHE to a directory that only root and you can change", s.cache, err)
	}
	return nil
}

// usable reports whether a program of the cache can be used.
func (s store) usable(path string) bool {
	if !executable(path) || !s.reproducible {
		return executable(path)
	}
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.GoVersion == runtime.Version()
}

// searchPath returns the directories that may contain a program of a version.
func searchPath(version string) []string {
	var dirs []string
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		dirs = append(dirs, assets)
	}
	data := os.Getenv("XDG_DATA_HOME")
	if home, err := os.UserHomeDir(); data == "" && err == nil {
		data = filepath.Join(home, ".local", "share")
	}
	dirs = append(dirs, filepath.Join(data, "kubebuilder-envtest", "k8s",
		fmt.Sprintf("%s-%s-%s", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH)))
	// What is relative to the current directory is not installed.
	return append(dirs, slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return !filepath.IsAbs(dir) })...)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

const (
	// probeTimeout is how long an installed program may take to print its version, and
	// installTimeout how long a verified download may, which would have to be compiled otherwise.
	probeTimeout   = 10 * time.Second
	installTimeout = time.Minute
)

// printsVersion reports whether a program prints exactly the version. It returns an error if
// there was no answer.
func printsVersion(ctx context.Context, timeout time.Duration, path string, args []string, version string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	// A child of the program may keep its output open.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return false, fmt.Errorf("it did not print its version within %s", timeout)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, nil //nolint:nilerr // A program that fails does not print its version.
	}
	exact := regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `($|[^0-9.a-z+-])`)
	return exact.Match(out), nil
}

func (s store) list(ctx context.Context, w io.Writer, parts []part) error {
	for _, p := range parts {
		pin, err := s.pin(p)
		if err != nil {
			return err
		}
		from, err := s.find(ctx, pin)
		if err != nil {
			return err
		}
		if from == "" {
			if from, err = s.plan(pin); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%-24s %-10s %s\n", p.name, pin.version, from)
	}
	return nil
}

// plan describes how a missing program would be provided.
func (s store) plan(p pinned) (string, error) {
	build := "to be built from package " + p.pkg
	r := releases[p.name]
	if s.net == nil || r == nil {
		return build, nil
	}
	sum, err := s.expected(p)
	if err != nil || sum == "" && r.signed == nil {
		return build, err
	}
	return "to be downloaded from " + s.net.address(r.fill(p.version, s.goos, s.goarch).url), nil
}

// provide finds, downloads or builds every part and links it into the link directory.
func (s store) provide(ctx context.Context, progress io.Writer, parts []part, link string) error {
	if err := s.prepareCache(); err != nil {
		return err
	}
	s.removeAbandoned()
	pins, paths := make([]pinned, len(parts)), make([]string, len(parts))
	var missing []pinned
	for i, p := range parts {
		var err error
		if pins[i], err = s.pin(p); err != nil {
			return err
		}
		if paths[i], err = s.find(ctx, pins[i]); err != nil {
			return err
		}
		switch {
		case paths[i] == "":
			missing = append(missing, pins[i])
		case !strings.HasPrefix(paths[i], s.cache):
			fmt.Fprintf(progress, "parts [%d/%d] %s %s: %s is used, which is installed\n", i+1, len(parts), p.name, pins[i].version, paths[i])
		}
	}
	fetched := s.obtainAll(ctx, progress, missing)
	for i, p := range pins {
		count, got := fmt.Sprintf("[%d/%d]", i+1, len(parts)), fetched[p.name]
		if got.path != "" {
			paths[i] = got.path
			fmt.Fprintf(progress, "parts %s %s %s: downloaded in %s, %s\n", count, p.name, p.version, got.took.Round(time.Second), got.proof)
		}
		if paths[i] == "" {
			var err error
			if paths[i], err = s.build(ctx, progress, p, count, got.reason); err != nil {
				return err
			}
		}
		if link == "" {
			continue
		}
		if err := relink(paths[i], filepath.Join(link, p.name)); err != nil {
			return err
		}
	}
	return nil
}

// relink makes link point to path, and replaces an existing link atomically.
func relink(path, link string) error {
	if old, err := os.Readlink(link); err == nil && old == path {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return fmt.Errorf("creating the link directory: %w", err)
	}
	fresh := fmt.Sprintf("%s.%d", link, os.Getpid())
	if err := os.Symlink(path, fresh); err != nil {
		return fmt.Errorf("linking %s: %w", link, err)
	}
	if err := os.Rename(fresh, link); err != nil {
		return fmt.Errorf("linking %s: %w", link, err)
	}
	return nil
}
