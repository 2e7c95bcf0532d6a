package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/appthrust/capt/dev/revision"
)

// publicRegistry is the registry and the namespace of releases.
const publicRegistry = "ghcr.io/appthrust"

// writeRecord describes the images of a layout.
func writeRecord(dir string, source revision.Source, outputs []output) error {
	r := revision.Record{Version: source.Version, Commit: source.Description(), Go: runtime.Version(), Images: map[string]string{}}
	for _, o := range outputs {
		digest, err := o.built.index.Digest()
		if err != nil {
			return err
		}
		r.Images[o.tag.Name()] = digest.String()
	}
	return r.Write(filepath.Join(dir, revision.RecordFile))
}

// pushOptions are the flags of "push".
type pushOptions struct {
	root, layout          string
	allowOutdated, dryRun bool
	now                   time.Time
}

// lockAge is the age at which a lock must be renewed before a release.
const lockAge = 30 * 24 * time.Hour

func runPush(ctx context.Context, args []string) error {
	var o pushOptions
	flags := flag.NewFlagSet("image push", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "..", "directory of the repository")
	flags.StringVar(&o.layout, "layout", "../dist/images", "directory that build has written")
	flags.BoolVar(&o.allowOutdated, "allow-outdated", false, "push images for architectures whose packages lack updates")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check and print only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.now = time.Now()
	images, err := readLayout(o.layout)
	if err != nil {
		return err
	}
	if err := o.check(ctx, images); err != nil {
		return err
	}
	for _, i := range images {
		fmt.Printf("%s@%s\n", i.tag, i.digest)
	}
	if o.dryRun {
		return nil
	}
	return push(ctx, images)
}

// check returns an error if the images are not those of this commit, or must not be
// released.
func (o pushOptions) check(ctx context.Context, images []layoutImage) error {
	built, err := revision.ReadRecord(filepath.Join(o.layout, revision.RecordFile))
	if err != nil {
		return err
	}
	source, err := revision.ReadSource(ctx, o.root)
	if err != nil {
		return err
	}
	if built.Version != source.Version || built.Commit != source.Commit {
		return fmt.Errorf("%s contains images of %s, commit %s, but the working tree is %s, commit %s: build them again", o.layout, built.Version, built.Commit, source.Version, source.Commit)
	}
	for _, i := range images {
		if built.Images[i.tag.Name()] != i.digest.String() {
			return fmt.Errorf("%s is not what %s describes: build the images again", i.tag, revision.RecordFile)
		}
	}
	errs := []error{o.checkPackages(images)}
	for _, i := range images {
		if strings.HasPrefix(i.tag.Name(), publicRegistry+"/") {
			errs = append(errs, i.checkPlatforms(), o.checkGo(built.Go))
		}
	}
	return errors.Join(errs...)
}

// checkGo returns an error unless the images were built with the toolchain of releases.
func (o pushOptions) checkGo(have string) error {
	text, err := os.ReadFile(filepath.Join(o.root, "versions.mk"))
	if err != nil {
		return fmt.Errorf("reading the version of Go: %w", err)
	}
	found := regexp.MustCompile(`(?m)^GO_VERSION\s*:=\s*v(\S+)`).FindSubmatch(text)
	if found == nil {
		return errors.New("versions.mk has no GO_VERSION")
	}
	if want := "go" + string(found[1]); have != want {
		return fmt.Errorf("the images are built with %s, but releases are built with %s: no other build would have the same digests", have, want)
	}
	return nil
}

// checkPackages returns an error if the packages were pinned long ago, or if those of an
// architecture lack updates that others have.
func (o pushOptions) checkPackages(images []layoutImage) error {
	var wanted []string
	for _, i := range images {
		for _, p := range i.platforms {
			if architecture := architectures[p.Architecture]; !slices.Contains(wanted, architecture) {
				wanted = append(wanted, architecture)
			}
		}
	}
	lock, err := readLock(filepath.Join(o.root, "dev", lockFile), wanted)
	if err != nil {
		return err
	}
	var errs []error
	if age := o.now.Sub(lock.Date); age > lockAge {
		errs = append(errs, fmt.Errorf("the packages were pinned %d days ago: run `make debian-lock`, or accept them with ALLOW_OUTDATED=1", int(age.Hours()/24)))
	}
	for _, architecture := range wanted {
		if old := outdated(lock, architecture); len(old) > 0 {
			errs = append(errs, fmt.Errorf("packages for %s lack updates: run `make debian-lock` with a complete mirror, or accept them with ALLOW_OUTDATED=1: %s", architecture, strings.Join(old, ", ")))
		}
	}
	if o.allowOutdated {
		return nil
	}
	return errors.Join(errs...)
}

// layoutImage is an image of an OCI layout with what refers to it.
type layoutImage struct {
	tag          name.Tag
	digest       v1.Hash
	index        v1.ImageIndex
	platforms    []v1.Platform
	attestations []v1.Image
}

// checkPlatforms returns an error unless an image has all platforms: a tag that was
// pushed without one cannot be completed later.
func (i layoutImage) checkPlatforms() error {
	var missing []string
	for architecture := range architectures {
		if !slices.ContainsFunc(i.platforms, func(p v1.Platform) bool { return p.Architecture == architecture }) {
			missing = append(missing, "linux/"+architecture)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%s lacks %s: build it without PLATFORMS, or push to another registry with REGISTRY", i.tag, strings.Join(missing, ", "))
}

// readLayout returns the images that writeLayout has written.
func readLayout(dir string) ([]layoutImage, error) {
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the images in %s (run make docker-buildx): %w", dir, err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the images in %s: %w", dir, err)
	}
	var images []layoutImage
	for _, m := range manifest.Manifests {
		reference := m.Annotations["org.opencontainers.image.ref.name"]
		if reference == "" {
			// An attestation follows its image.
			attestation, err := all.Image(m.Digest)
			if err != nil || len(images) == 0 {
				return nil, fmt.Errorf("reading attestation %s: %w", m.Digest, err)
			}
			last := &images[len(images)-1]
			last.attestations = append(last.attestations, attestation)
			continue
		}
		image := layoutImage{digest: m.Digest}
		if image.tag, err = name.NewTag(reference, name.StrictValidation); err != nil {
			return nil, err
		}
		if image.index, err = all.ImageIndex(m.Digest); err != nil {
			return nil, fmt.Errorf("reading image %s: %w", reference, err)
		}
		children, err := image.index.IndexManifest()
		if err != nil {
			return nil, fmt.Errorf("reading image %s: %w", reference, err)
		}
		for _, child := range children.Manifests {
			image.platforms = append(image.platforms, *child.Platform)
		}
		images = append(images, image)
	}
	return images, nil
}

// push pushes images and their attestations. Nothing is pushed if the tag of one exists
// with other content. Tags are written last, so that a tagged image is complete.
func push(ctx context.Context, images []layoutImage) error {
	options := []remote.Option{remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(ctx)}
	for _, i := range images {
		existing, err := remote.Head(i.tag, options...)
		if err != nil && !isMissing(err) {
			return fmt.Errorf("reading %s: %w", i.tag, err)
		}
		if err == nil && existing.Digest != i.digest {
			return fmt.Errorf("%s exists with digest %s, but this build has %s: release another version", i.tag, existing.Digest, i.digest)
		}
	}
	for _, i := range images {
		if err := remote.WriteIndex(i.tag.Digest(i.digest.String()), i.index, options...); err != nil {
			return fmt.Errorf("pushing %s: %w", i.tag, err)
		}
		for _, a := range i.attestations {
			digest, err := a.Digest()
			if err != nil {
				return err
			}
			if err := remote.Write(i.tag.Digest(digest.String()), a, options...); err != nil {
				return fmt.Errorf("pushing an attestation of %s: %w", i.tag, err)
			}
		}
	}
	for _, i := range images {
		if err := remote.Tag(i.tag, i.index, options...); err != nil {
			return fmt.Errorf("tagging %s: %w", i.tag, err)
		}
	}
	return nil
}

// isMissing reports whether a registry answered that something does not exist.
func isMissing(err error) bool {
	var failure *transport.Error
	return errors.As(err, &failure) && failure.StatusCode == http.StatusNotFound
}
