package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/appthrust/capt/dev/revision"
)

// release writes the manifests of a version.
type release struct {
	// version is the version without v. Default is that of the tree.
	version string
	// root is the root of the project, out the directory that is written.
	root, out string
	// uncommitted allows changes that are not committed. Tests need it.
	uncommitted bool
}

// build checks the version and the tree, renders every file, and then writes them. It
// writes nothing if a file cannot be rendered.
func (r *release) build(ctx context.Context) error {
	if r.version == "" {
		current, err := revision.Version(r.root)
		if err != nil {
			return err
		}
		r.version = strings.TrimPrefix(current, "v")
	}
	if err := revision.CheckVersion(r.version); err != nil {
		return err
	}
	if !r.uncommitted {
		if err := errors.Join(revision.RequireClean(ctx, r.root), revision.RequireVersion(r.root, r.version)); err != nil {
			return err
		}
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	if err := r.pinImages(ctx, files); err != nil {
		return err
	}
	return replace(r.out, files)
}

// pinImages adds the digests of the images to the manifests of a release, if they were
// built from the same commit. In a checkout images are loaded by their tags.
func (r *release) pinImages(ctx context.Context, files map[string][]byte) error {
	if strings.HasSuffix(r.version, "-dev") {
		return nil
	}
	images, err := revision.ReadRecord(filepath.Join(r.out, "images", revision.RecordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	source, err := revision.ReadSource(ctx, r.root)
	if err != nil {
		return err
	}
	if images.Version != "v"+r.version || images.Commit != source.Description() {
		return nil
	}
	for name, text := range files {
		if name != "install.yaml" && !strings.HasSuffix(name, "-components.yaml") {
			continue
		}
		for image, digest := range images.Images {
			// The tag ends here: there may be an image whose tag is longer.
			end := regexp.MustCompile(regexp.QuoteMeta(image) + `([^\w.-]|$)`)
			text = end.ReplaceAll(text, []byte(image+"@"+digest+"$1"))
		}
		files[name] = text
	}
	return nil
}

// files returns the content of each file.
func (r *release) files() (map[string][]byte, error) {
	files := map[string][]byte{}
	if err := errors.Join(r.addComponents(files), r.addMetadata(files), r.addTemplates(files)); err != nil {
		return nil, err
	}
	return files, nil
}

func (r *release) addComponents(files map[string][]byte) error {
	c, err := loadConfig(r.root, "v"+r.version)
	if err != nil {
		return err
	}
	all, err := c.render("config/default")
	if err != nil {
		return err
	}
	if files["install.yaml"], err = all.AsYaml(); err != nil {
		return fmt.Errorf("encoding config/default: %w", err)
	}
	for _, p := range providers {
		objects, err := c.render("config/providers/" + p.name)
		if err != nil {
			return err
		}
		if files[p.name+"-components.yaml"], err = components(objects); err != nil {
			return err
		}
	}
	return nil
}

// addMetadata adds metadata.yaml, which must contain the series of the version:
// clusterctl refuses a version of an unknown series.
func (r *release) addMetadata(files map[string][]byte) error {
	text, err := os.ReadFile(filepath.Join(r.root, "metadata.yaml"))
	if err != nil {
		return fmt.Errorf("reading the release series: %w", err)
	}
	if err := revision.RequireSeries(r.root, r.version); err != nil {
		return err
	}
	files["metadata.yaml"] = text
	return nil
}

// addTemplates adds the templates of clusters and the ClusterClasses, and the
// WorkspaceTemplates that those for EKS use.
func (r *release) addTemplates(files map[string][]byte) error {
	for pattern, name := range map[string]func(base string) string{
		"flavors/cluster-template*.yaml": func(base string) string { return base },
		"clusterclasses/*.yaml":          func(base string) string { return "clusterclass-" + base },
	} {
		found, err := filepath.Glob(filepath.Join(r.root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no file matches %s: %w", pattern, errors.Join(err, os.ErrNotExist))
		}
		for _, path := range found {
			if files[name(filepath.Base(path))], err = os.ReadFile(path); err != nil {
				return fmt.Errorf("reading a template: %w", err)
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(r.root, "templates", "*.yaml"))
	if err != nil {
		return fmt.Errorf("finding templates: %w", err)
	}
	var templates [][]byte
	for _, path := range found {
		// These run programs of a checkout, so they are of no use in a cluster.
		if strings.HasPrefix(filepath.Base(path), "local-") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a template: %w", err)
		}
		templates = append(templates, text)
	}
	files["workspace-templates.yaml"] = bytes.Join(templates, []byte("---\n"))
	return nil
}

// replace writes the files to a directory. It removes other manifests, which belong to
// an earlier build; files of other tools are kept.
func replace(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the directory: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("reading the directory: %w", err)
	}
	for _, path := range old {
		if _, known := files[filepath.Base(path)]; !known {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("removing an old file: %w", err)
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
