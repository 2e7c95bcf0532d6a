// Command parts provides the third-party programs that CAPT is tested with in one
// directory, and builds those that are missing on the machine.
//
// It searches for a program in KUBEBUILDER_ASSETS, in the downloads of setup-envtest,
// in PATH and in the cache, in this order. Outside of the cache it uses only programs
// that print exactly the pinned version and that only root and this user can change, and
// says so; if releases.sum has the checksum of the program itself, it must have it too.
// Otherwise it downloads the published program,
// if its checksum is pinned in releases.sum or if the release is signed. What cannot be
// downloaded or verified it builds from its tool-only module in dev/bin, and says why.
// The cache is outside of the tree, and its keys contain hashes of the module files, so
// a second clone builds nothing. A cache that others can change is refused.
//
// CAPT_PARTS=build downloads nothing, and uses no downloaded program; installed ones are used
// in the same way. CAPT_PARTS_MIRROR is an address before the host
// and path of each file, such as https://mirror.example.com/capt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("parts", flag.ContinueOnError)
	link := flags.String("link", "", "directory to fill with a link to each program")
	target := flags.String("platform", runtime.GOOS+"/"+runtime.GOARCH, "platform to build for; if it is given, only programs of the cache are used")
	pin := flags.String("pin", "", "file to write the checksums of the current releases to; downloads each one and verifies signatures")
	list := flags.Bool("list", false, "print each program with its version and its path, and build nothing")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: parts [flags] [PROGRAM|GROUP...]\n\nGroups: %s (default: all)\n\n", strings.Join(groupNames(), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	modules, err := filepath.Abs("bin")
	if err != nil {
		return fmt.Errorf("finding the tool-only modules: %w", err)
	}
	cache, err := defaultCache()
	if err != nil {
		return err
	}
	s := store{modules: modules, cache: cache}
	var valid bool
	if s.goos, s.goarch, valid = strings.Cut(*target, "/"); !valid {
		return fmt.Errorf("platform %q is not of the form OS/ARCHITECTURE", *target)
	}
	flags.Visit(func(f *flag.Flag) { s.reproducible = s.reproducible || f.Name == "platform" })
	if err := s.configureDownloads(os.Getenv("CAPT_PARTS"), os.Getenv("CAPT_PARTS_MIRROR")); err != nil {
		return err
	}
	if *pin != "" {
		if s.net == nil || s.net.mirror != "" {
			return errors.New("checksums are pinned from the origin: unset CAPT_PARTS and CAPT_PARTS_MIRROR")
		}
		return s.pinReleases(ctx, os.Stderr, chosen, *pin)
	}
	if *list {
		return s.list(ctx, os.Stdout, chosen)
	}
	return s.provide(ctx, os.Stderr, chosen, *link)
}

// configureDownloads sets where programs are downloaded from, and the checksums of downloaded
// and installed ones. Programs for images are always built.
func (s *store) configureDownloads(mode, mirror string) (err error) {
	if s.sums, err = parseChecksums(committed); err != nil {
		return fmt.Errorf("dev/parts/releases.sum: %w", err)
	}
	switch mode {
	case "build":
		return nil
	case "":
	default:
		return fmt.Errorf("CAPT_PARTS=%s is not supported: use build to compile the programs that are not installed, or unset it to download releases", mode)
	}
	if s.reproducible {
		return nil
	}
	if s.authority, err = newAuthority(fulcio); err != nil {
		return err
	}
	if err := checkMirror(mirror); err != nil {
		return err
	}
	if err := s.prepareCache(); err != nil {
		return err
	}
	s.net = newDownloader(mirror)
	return nil
}

// defaultCache returns the cache of this user. There is none that users share: any of them could
// put programs into it.
func defaultCache() (string, error) {
	if dir := os.Getenv("CAPT_PARTS_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for the cache: set HOME or CAPT_PARTS_CACHE: %w", err)
	}
	return filepath.Join(base, "capt", "parts"), nil
}
