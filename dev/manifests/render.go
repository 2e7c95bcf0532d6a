package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// config is a copy of the directory config in memory, so that a release needs no
// change of the tree.
type config struct{ files filesys.FileSystem }

// loadConfig reads config/ and sets the tag of the image.
func loadConfig(root, tag string) (*config, error) {
	files := filesys.MakeFsInMemory()
	source := filepath.Join(root, "config")
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return files.WriteFile("/config/"+filepath.ToSlash(name), text)
	})
	if err != nil {
		return nil, fmt.Errorf("reading config: %w", err)
	}
	c := &config{files: files}
	return c, c.setTag(tag)
}

// setTag sets the tag of every image in config/manager.
func (c *config) setTag(tag string) error {
	const path = "/config/manager/kustomization.yaml"
	text, err := c.files.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	var kustomization types.Kustomization
	if err := yaml.UnmarshalStrict(text, &kustomization); err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	if len(kustomization.Images) == 0 {
		return fmt.Errorf("%s names no image", path)
	}
	for i := range kustomization.Images {
		kustomization.Images[i].NewTag = tag
	}
	if text, err = yaml.Marshal(kustomization); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return c.files.WriteFile(path, text)
}

// render returns the objects of a kustomization, for example config/default.
func (c *config) render(path string) (resmap.ResMap, error) {
	options := krusty.MakeDefaultOptions()
	// kubectl creates objects in the order of the file: first the Namespace, last the
	// webhooks.
	options.Reorder = krusty.ReorderOptionLegacy
	objects, err := krusty.MakeKustomizer(options).Run(c.files, "/"+path)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", path, err)
	}
	return objects, nil
}

// components returns the file that clusterctl reads for a provider.
//
// clusterctl expands ${...} in the whole file. The descriptions and defaults of CRDs
// contain placeholders of CAPT, which must reach the API server as they are, so they
// are escaped there.
func components(objects resmap.ResMap) ([]byte, error) {
	var documents [][]byte
	for _, object := range objects.Resources() {
		document, err := object.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", object.CurId(), err)
		}
		if object.GetKind() == "CustomResourceDefinition" {
			document = bytes.ReplaceAll(document, []byte("${"), []byte("$${"))
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}
