// Command image builds container images without a daemon.
//
//	image build [-platforms linux/amd64,…] [-archives]
//	image push
//	image lock
//	image pack -tag NAME:TAG -o FILE.tar [-entrypoint /PROGRAM] /IN/IMAGE=FILE...
//
// "build" builds the images of a release: programs that are cross-compiled here, on a
// base of pinned Debian packages, which dpkg-deb unpacks. The same commit, built with the
// same version of Go, results in the same images, byte for byte. "push" pushes what was
// built. "lock" pins the current packages with apt-get. "pack" packs static programs into an
// image without a base, for tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/appthrust/capt/dev/gobuild"
	"github.com/appthrust/capt/dev/image/debian"
	"github.com/appthrust/capt/dev/revision"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{"build": runBuild, "push": runPush, "lock": runLock, "pack": runPack}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("the first argument must be build, push, lock or pack")
	}
	return commands[args[0]](ctx, args[1:])
}

const defaultMirror = "http://deb.debian.org"

func mirrorFlag(flags *flag.FlagSet) *string {
	mirror := os.Getenv("CAPT_DEBIAN_MIRROR")
	if mirror == "" {
		mirror = defaultMirror
	}
	return flags.String("mirror", mirror, "address of a mirror of Debian, with the directories debian and debian-security (CAPT_DEBIAN_MIRROR)")
}

func runLock(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image lock", flag.ContinueOnError)
	mirror := mirrorFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	source := debian.Source{Mirror: strings.TrimSuffix(*mirror, "/"), Keyring: "/usr/share/keyrings/debian-archive-keyring.gpg", Suites: debianSuites}
	return writeLock(ctx, source, lockFile)
}

// buildOptions are the flags of "build".
type buildOptions struct {
	root, out, cache, mirror, registry, platforms, images string
	archives                                              bool
}

func runBuild(ctx context.Context, args []string) error {
	var o buildOptions
	flags := flag.NewFlagSet("image build", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "..", "directory of the repository")
	flags.StringVar(&o.out, "o", "../dist/images", "directory of the OCI layout, which is replaced")
	flags.StringVar(&o.cache, "cache", defaultCache(), "directory of downloads (CAPT_IMAGE_CACHE)")
	mirror := mirrorFlag(flags)
	flags.StringVar(&o.registry, "registry", publicRegistry, "registry and namespace of the images")
	flags.StringVar(&o.platforms, "platforms", "linux/"+runtime.GOARCH, "platforms, separated by commas")
	flags.StringVar(&o.images, "images", "capt,capt-runner,capt-ui", "images, separated by commas")
	flags.BoolVar(&o.archives, "archives", false, "write the image of each platform as a tar archive too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.mirror = strings.TrimSuffix(*mirror, "/")
	return o.run(ctx)
}

func (o buildOptions) run(ctx context.Context) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	commit, err := revision.ReadSource(ctx, root)
	if err != nil {
		return err
	}
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	chosen, err := chooseImages(o.images)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(chosen, func(d definition) bool { return d.program == uiProgram }) {
		if err := gobuild.CheckPage(root, commit.Version, os.Stderr); err != nil {
			return err
		}
	}
	var wanted []string
	for _, p := range platforms {
		wanted = append(wanted, architectures[p.Architecture])
	}
	lock, err := readLock(filepath.Join(root, "dev", lockFile), wanted)
	if err != nil {
		return err
	}
	for _, architecture := range wanted {
		if old := outdated(lock, architecture); len(old) > 0 {
			fmt.Fprintf(os.Stderr, "image: packages for %s lack updates, run `make debian-lock`: %s\n", architecture, strings.Join(old, ", "))
		}
	}
	work, err := os.MkdirTemp("", "capt-images-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	b := &builder{
		programs: toolchain{root: root, work: work, source: commit}, cache: o.cache, mirror: o.mirror, pageLock: filepath.Join(root, "ui", "package-lock.json"), version: commit.Version, source: commit,
		lock: lock, progress: os.Stderr,
	}
	var outputs []output
	for _, d := range chosen {
		image, err := b.build(ctx, d, platforms)
		if err != nil {
			return err
		}
		finished, err := image.output(o.registry, b)
		if err != nil {
			return err
		}
		outputs = append(outputs, finished)
	}
	return o.write(commit, outputs)
}

// write writes the results.
func (o buildOptions) write(commit revision.Source, outputs []output) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	if err := writeLayout(o.out, outputs); err != nil {
		return fmt.Errorf("writing %s: %w", o.out, err)
	}
	if err := errors.Join(writeRecord(o.out, commit, outputs), writeAttestations(o.out, outputs)); err != nil {
		return fmt.Errorf("describing the images: %w", err)
	}
	for _, result := range outputs {
		digest, err := result.built.index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", result.tag, digest)
		if !o.archives {
			continue
		}
		for _, p := range result.built.platforms {
			if err := writeArchive(filepath.Join(o.out, archiveName(result, p.platform)), result.tag, p.image); err != nil {
				return fmt.Errorf("writing the archive of %s: %w", result.tag, err)
			}
		}
	}
	return nil
}

// output names the image and attaches its attestations.
func (b *built) output(registry string, from *builder) (output, error) {
	tag, err := name.NewTag(registry+"/"+b.name+":"+from.version, name.StrictValidation)
	if err != nil {
		return output{}, err
	}
	attestations, err := b.attestations(from.source.Time.Format(time.RFC3339))
	return output{tag: tag, built: b, attestations: attestations}, err
}

func parsePlatforms(list string) ([]v1.Platform, error) {
	var platforms []v1.Platform
	for text := range strings.SplitSeq(list, ",") {
		p, err := v1.ParsePlatform(text)
		if err != nil || p.OS != "linux" || architectures[p.Architecture] == "" || p.Variant != "" {
			return nil, fmt.Errorf("platform %q is not supported: use linux/amd64, linux/arm64, linux/s390x or linux/ppc64le", text)
		}
		platforms = append(platforms, *p)
	}
	return platforms, nil
}

func chooseImages(list string) ([]definition, error) {
	var chosen []definition
	for text := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(definitions, func(d definition) bool { return d.name == text })
		if i < 0 {
			return nil, fmt.Errorf("image %q does not exist", text)
		}
		chosen = append(chosen, definitions[i])
	}
	return chosen, nil
}

func runPack(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("image pack", flag.ContinueOnError)
	tag := flags.String("tag", "", "name and tag of the image")
	out := flags.String("o", "", "file to write")
	entrypoint := flags.String("entrypoint", "", "program that the image starts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tag == "" || *out == "" || flags.NArg() == 0 {
		return errors.New("-tag, -o and at least one /IN/IMAGE=FILE are required")
	}
	reference, err := name.NewTag(*tag)
	if err != nil {
		return err
	}
	epoch := time.Unix(0, 0)
	files := tree{}
	files.addDirectory("tmp", 0o1777, epoch)
	// Git and ssh look up their user.
	files.add("etc/passwd", passwd, epoch)
	for _, arg := range flags.Args() {
		target, source, found := strings.Cut(arg, "=")
		if !found || !path.IsAbs(target) {
			return fmt.Errorf("%q is not of the form /IN/IMAGE=FILE", arg)
		}
		files.addProgram(path.Clean(target)[1:], source, epoch)
	}
	files.addParents(epoch)
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	image, err := assemble(platform, []namedTree{{"programs", files}}, imageConfig{entrypoint: *entrypoint, created: epoch})
	if err != nil {
		return err
	}
	return writeArchive(*out, reference, image)
}
