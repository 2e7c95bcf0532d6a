package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/appthrust/capt/dev/image/debian"
	"github.com/appthrust/capt/dev/revision"
)

// definition is an image that is released.
type definition struct {
	// name is the last part of the repository.
	name        string
	description string
	// program is the program of this repository that the image starts, in the root
	// directory.
	program string
	// parts are the third-party programs, in /usr/local/bin.
	parts []string
	// allPackages reports whether the image has all pinned packages of Debian.
	allPackages bool
}

// uiProgram is the program that contains the page of captctl ui.
const uiProgram = "ui"

var definitions = []definition{
	{name: "capt", description: "Manager of Cluster API Provider Terraform", program: "manager"},
	{
		name: "capt-runner", description: "Runs OpenTofu for Cluster API Provider Terraform", program: "runner",
		parts: []string{"tofu"}, allPackages: true,
	},
	{name: "capt-ui", description: "Web page of Cluster API Provider Terraform", program: uiProgram},
}

// builder builds images.
type builder struct {
	programs programs
	// cache is the directory of downloads.
	cache  string
	mirror string
	// pageLock is the lock file of the packages of the page.
	pageLock string
	// version is the tag of the images.
	version  string
	source   revision.Source
	lock     debian.Lock
	progress io.Writer
}

// built is a finished image with its attestations.
type built struct {
	definition
	index     v1.ImageIndex
	platforms []platformImage
	// provenance describes how the index was built.
	provenance []byte
}

// platformImage is the image of one platform.
type platformImage struct {
	platform v1.Platform
	image    v1.Image
	sbom     []byte
}

// build builds an image for all platforms.
func (b *builder) build(ctx context.Context, d definition, platforms []v1.Platform) (*built, error) {
	result := &built{definition: d}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var inputs []component
	for _, platform := range platforms {
		started := time.Now()
		image, components, err := b.buildPlatform(ctx, d, platform)
		if err != nil {
			return nil, fmt.Errorf("building image %s for %s: %w", d.name, platform, err)
		}
		sbom, err := b.sbom(d, platform, image, components)
		if err != nil {
			return nil, fmt.Errorf("describing image %s for %s: %w", d.name, platform, err)
		}
		result.platforms = append(result.platforms, platformImage{platform: platform, image: image, sbom: sbom})
		inputs = append(inputs, components...)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &platform},
		})
		size, err := compressedSize(image)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.progress, "image %s %s: %.1f MB in %s\n", d.name, platform, float64(size)/1e6, time.Since(started).Round(time.Second))
	}
	var isIndex bool
	if result.index, isIndex = mutate.Annotations(index, b.annotations(d)).(v1.ImageIndex); !isIndex {
		return nil, fmt.Errorf("annotating image %s: not an index", d.name)
	}
	var err error
	result.provenance, err = b.provenance(result, inputs)
	return result, err
}

// buildPlatform builds the image of a platform: Debian's packages, third-party programs
// and the program of this repository, each in a layer. The first two do not change with
// every release, so that nodes and registries keep them.
func (b *builder) buildPlatform(ctx context.Context, d definition, platform v1.Platform) (v1.Image, []component, error) {
	packages, base, err := b.base(ctx, d, platform)
	if err != nil {
		return nil, nil, err
	}
	var components []component
	for _, p := range packages {
		components = append(components, debianComponent(p, b.lock.Release, architectures[platform.Architecture]))
	}
	trees := []namedTree{{"Debian packages", base}}
	if len(d.parts) > 0 {
		programs := tree{}
		for _, name := range d.parts {
			file, err := b.programs.part(ctx, platform, name)
			if err != nil {
				return nil, nil, err
			}
			programs.addProgram("usr/local/bin/"+name, file, b.lock.Date)
			modules, err := programComponents(file, "")
			if err != nil {
				return nil, nil, err
			}
			components = append(components, modules...)
			if err := b.addLicences(ctx, programs, name, file, b.lock.Date); err != nil {
				return nil, nil, err
			}
		}
		programs.addParents(b.lock.Date)
		trees = append(trees, namedTree{strings.Join(d.parts, ", "), programs})
	}
	file, err := b.programs.compile(ctx, platform, d.program)
	if err != nil {
		return nil, nil, err
	}
	modules, err := programComponents(file, b.version)
	if err != nil {
		return nil, nil, err
	}
	if d.program == uiProgram {
		page, err := pageComponents(b.pageLock, modules[0].name)
		if err != nil {
			return nil, nil, err
		}
		modules = append(modules, page...)
	}
	program := tree{}
	program.addProgram(d.program, file, b.source.Time)
	if err := b.addLicences(ctx, program, d.program, file, b.source.Time); err != nil {
		return nil, nil, err
	}
	program.addParents(b.source.Time)
	image, err := assemble(platform, append(trees, namedTree{d.program, program}), imageConfig{
		entrypoint: "/" + d.program, labels: b.annotations(d), created: b.source.Time,
	})
	return image, append(components, modules...), err
}

// addLicences adds the licences of a program, where those of Debian's packages are.
func (b *builder) addLicences(ctx context.Context, t tree, program, path string, at time.Time) error {
	text, err := licences(ctx, b.programs, program, path)
	if err != nil {
		return err
	}
	t.add("usr/share/doc/"+program+"/copyright", text, at)
	return nil
}

// base returns the packages of an image and their files.
func (b *builder) base(ctx context.Context, d definition, platform v1.Platform) ([]debian.Package, tree, error) {
	packages := b.lock.Packages[architectures[platform.Architecture]]
	if !d.allPackages {
		packages = slices.DeleteFunc(slices.Clone(packages), func(p debian.Package) bool { return !slices.Contains(managerPackages, p.Name) })
	}
	cache := debian.Cache{Dir: filepath.Join(b.cache, "debian"), Mirror: b.mirror, Client: http.DefaultClient}
	base, err := baseTree(ctx, packages, cache, b.lock.Date)
	return packages, base, err
}

const repository = "https://github.com/appthrust/capt"

// annotations describe an image, in its index and as its labels. Images contain programs
// with many licences: see /usr/share/doc in them.
func (b *builder) annotations(d definition) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       d.name,
		"org.opencontainers.image.description": d.description,
		"org.opencontainers.image.version":     b.version,
		"org.opencontainers.image.revision":    b.source.Description(),
		"org.opencontainers.image.created":     b.source.Time.Format(time.RFC3339),
		"org.opencontainers.image.source":      repository,
	}
}

// namedTree is the content of a layer.
type namedTree struct {
	name string
	tree tree
}

// imageConfig is the configuration of an image.
type imageConfig struct {
	entrypoint string
	labels     map[string]string
	created    time.Time
}

// assemble returns an image of layers.
func assemble(platform v1.Platform, trees []namedTree, c imageConfig) (v1.Image, error) {
	config := &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Created: v1.Time{Time: c.created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/", Labels: c.labels,
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"},
		},
	}
	if c.entrypoint != "" {
		config.Config.Entrypoint = []string{path.Clean(c.entrypoint)}
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, config)
	if err != nil {
		return nil, err
	}
	for _, t := range trees {
		layer, err := tarball.LayerFromOpener(t.tree.open, tarball.WithMediaType(types.OCILayer),
			tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			// Without the layer's own descriptor, whose empty annotations do not equal those of a manifest that is read.
			Layer: struct{ v1.Layer }{layer}, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: c.created}, CreatedBy: "dev/image", Comment: t.name},
		})
		if err != nil {
			return nil, err
		}
	}
	return image, nil
}

func compressedSize(image v1.Image) (int64, error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	var total int64
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// defaultCache returns the directory of downloads.
func defaultCache() string {
	if dir := os.Getenv("CAPT_IMAGE_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "capt", "images")
}
