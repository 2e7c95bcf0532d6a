package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/ignore"
)

// source is a chart inside a Go module.
type source struct {
	// name is the chart's name.
	name string
	// module and version identify the Go module.
	module, version string
	// dir is the chart's directory in the module.
	dir string
	// crds is a directory of the module that is copied to crds/ of the chart,
	// because the module's zip omits the symbolic link.
	crds string
	// release is the version of the packed chart. Between releases the module
	// contains the previous version. If it is empty, the chart's version is kept.
	release string
}

const karpenterModule = "github.com/aws/karpenter-provider-aws"

func karpenter(version string) source {
	return source{
		name: "karpenter", module: karpenterModule, version: "v" + version,
		dir: "charts/karpenter", crds: "pkg/apis/crds", release: version,
	}
}

// sources are the charts that are packed.
var sources = []source{
	karpenter("1.14.1"),
	karpenter("1.14.0"),
	karpenter("1.6.3"),
	karpenter("1.3.3"),
	karpenter("1.0.8"),
	{
		// The chart's own version is 3.2.2.
		name: "aws-load-balancer-controller", module: "github.com/kubernetes-sigs/aws-load-balancer-controller",
		version: "v0.0.0-20260423195125-93ff3b5fdaad", dir: "helm/aws-load-balancer-controller",
	},
}

// epoch is the time of every file, so that packing is reproducible and the digests in
// a registry are stable.
var epoch = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// packAll packs every chart and removes those that are no longer known.
func packAll(ctx context.Context, progress io.Writer, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("creating the directory of charts: %w", err)
	}
	fresh, err := os.MkdirTemp(out, ".packing-")
	if err != nil {
		return fmt.Errorf("creating the directory of charts: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	known := map[string]bool{}
	for i, s := range sources {
		fmt.Fprintf(progress, "charts [%d/%d] %s from %s@%s\n", i+1, len(sources), s.name, s.module, s.version)
		packed, err := pack(ctx, s, fresh)
		if err != nil {
			return err
		}
		name := filepath.Base(packed)
		if err := os.Rename(packed, filepath.Join(out, name)); err != nil {
			return fmt.Errorf("moving %s: %w", name, err)
		}
		known[name] = true
	}
	old, err := filepath.Glob(filepath.Join(out, "*.tgz"))
	if err != nil {
		return fmt.Errorf("reading the directory of charts: %w", err)
	}
	for _, path := range old {
		if !known[filepath.Base(path)] {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("removing an old chart: %w", err)
			}
		}
	}
	return nil
}

// pack packs one chart and returns its archive.
func pack(ctx context.Context, s source, out string) (string, error) {
	root, err := moduleDir(ctx, s.module, s.version)
	if err != nil {
		return "", err
	}
	c, err := load(root, s)
	if err != nil {
		return "", fmt.Errorf("reading the chart %s of %s@%s: %w", s.name, s.module, s.version, err)
	}
	return save(c, out)
}

func save(c *chart.Chart, out string) (string, error) {
	path, err := chartutil.Save(c, out)
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", c.Name(), err)
	}
	return path, nil
}

// load returns the chart in its released form.
func load(root string, s source) (*chart.Chart, error) {
	files, err := chartFiles(filepath.Join(root, filepath.FromSlash(s.dir)))
	if err != nil {
		return nil, err
	}
	if s.crds != "" {
		crds, err := crdFiles(filepath.Join(root, filepath.FromSlash(s.crds)))
		if err != nil {
			return nil, err
		}
		files = append(files, crds...)
	}
	if s.release != "" {
		for _, f := range files {
			if f.Name == "values.yaml" {
				if f.Data, err = setImage(f.Data, s.release); err != nil {
					return nil, err
				}
			}
		}
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, err
	}
	c.ModTime = epoch
	if s.release != "" {
		c.Metadata.Version, c.Metadata.AppVersion = s.release, s.release
	}
	return c, nil
}

// chartFiles returns the files of a chart's archive.
func chartFiles(dir string) ([]*archive.BufferedFile, error) {
	rules := ignore.Empty()
	if parsed, err := ignore.ParseFile(filepath.Join(dir, ".helmignore")); err == nil {
		rules = parsed
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rules.AddDefaults()
	var files []*archive.BufferedFile
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case rules.Ignore(name, info) && entry.IsDir():
			return filepath.SkipDir
		case rules.Ignore(name, info) || entry.IsDir():
			return nil
		}
		data, err := os.ReadFile(path)
		files = append(files, &archive.BufferedFile{Name: name, ModTime: epoch, Data: data})
		return err
	})
	return files, err
}

func crdFiles(dir string) ([]*archive.BufferedFile, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no CRDs in %s", filepath.Base(dir))
	}
	var files []*archive.BufferedFile
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, &archive.BufferedFile{Name: "crds/" + filepath.Base(path), ModTime: epoch, Data: data})
	}
	return files, nil
}

var image = regexp.MustCompile(`(?m)^(    tag:).*$((?:\n    #.*$)*)\n    digest:.*$`)

// setImage sets the released tag in the values of Karpenter's chart. It removes the
// digest, which belongs to another release.
func setImage(values []byte, tag string) ([]byte, error) {
	if found := len(image.FindAll(values, -1)); found != 1 {
		return nil, fmt.Errorf("values.yaml has %d images with tag and digest, want one", found)
	}
	return image.ReplaceAll(values, []byte("${1} "+tag+"${2}\n    digest: \"\"")), nil
}

// moduleDir downloads a Go module and returns its directory. dev/bin/fluxgen has the same
// function: programs with separate go.mod files share no packages.
func moduleDir(ctx context.Context, module, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, runErr := cmd.Output()
	var answer struct{ Dir, Error string }
	if err := json.Unmarshal(out, &answer); err == nil && answer.Error != "" {
		return "", fmt.Errorf("downloading %s@%s: %s", module, version, answer.Error)
	}
	if runErr != nil {
		return "", fmt.Errorf("downloading %s@%s: %w: %s", module, version, runErr, stderr.String())
	}
	if answer.Dir == "" {
		return "", fmt.Errorf("downloading %s@%s: go mod download returned no directory", module, version)
	}
	return answer.Dir, nil
}
