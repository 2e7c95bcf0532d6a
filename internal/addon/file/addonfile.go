// Package addonfile finds and reads installable add-ons: files that hold a
// CAPTAddon and what it needs beside it.
package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// extension ends the name of a file that holds an add-on.
const extension = ".yaml"

// Directories are where built-in add-ons are looked for: the one that is asked
// for, else $CAPT_ADDONS, else addons beside the program.
func Directories(asked string) []string {
	if asked != "" {
		return []string{asked}
	}
	var dirs []string
	if dir := os.Getenv("CAPT_ADDONS"); dir != "" {
		dirs = append(dirs, dir)
	}
	if program, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(program), "addons"))
	}
	return dirs
}

// Names are the built-in add-ons of the directories.
func Names(dirs []string) []string {
	var names []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if name, found := strings.CutSuffix(entry.Name(), extension); found && !entry.IsDir() {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Find returns the file of an add-on: a path, or the name of a built-in one.
func Find(name string, dirs []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, extension) || strings.HasSuffix(name, ".yml") {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("no file %s: give a file, or the name of a built-in add-on", name)
		}
		return name, nil
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name+extension)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	known := Names(dirs)
	switch nearest := inspect.Nearest(name, slices.Values(known)); {
	case nearest != "":
		return "", fmt.Errorf("no built-in add-on %q: did you mean %q?", name, nearest)
	case len(known) > 0:
		return "", fmt.Errorf("no built-in add-on %q: there are %s", name, strings.Join(known, ", "))
	default:
		return "", fmt.Errorf("no built-in add-ons in %s: make them with `make addons`, or name their directory with --from or $CAPT_ADDONS", strings.Join(dirs, " or "))
	}
}

// Read returns the objects of a file, what an add-on needs before the add-on.
func Read(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading an add-on: %w", err)
	}
	objects, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !slices.ContainsFunc(objects, IsAddon) {
		return nil, fmt.Errorf("%s holds no CAPTAddon: kubectl apply is for everything else", path)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		switch {
		case IsAddon(a) == IsAddon(b):
			return 0
		case IsAddon(a):
			return 1
		default:
			return -1
		}
	})
	return objects, nil
}

func parse(content []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parsing: %w", err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if obj.GetKind() == "" || obj.GetAPIVersion() == "" || obj.GetName() == "" {
			return nil, errors.New("an object has no apiVersion, kind or name")
		}
		objects = append(objects, obj)
	}
}

// IsAddon tells whether an object is a CAPTAddon.
func IsAddon(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "CAPTAddon" && obj.GroupVersionKind().Group == addonsv1.GroupVersion.Group
}

// Chart is what is wanted of the charts of add-ons; what is empty stays as it is.
type Chart struct {
	Repository string
	Version    string
	Insecure   *bool
}

// Choose changes the charts of add-ons. A version is that of one chart.
func Choose(objects []*unstructured.Unstructured, chart Chart) error {
	if chart == (Chart{}) {
		return nil
	}
	changed := 0
	for _, obj := range objects {
		if !IsAddon(obj) {
			continue
		}
		if _, found, err := unstructured.NestedMap(obj.Object, "spec", "helm", "chart"); err != nil || !found {
			continue
		}
		changed++
		set := map[string]any{}
		if chart.Repository != "" {
			set["repository"] = chart.Repository
		}
		if chart.Version != "" {
			set["version"] = chart.Version
		}
		if chart.Insecure != nil {
			set["insecure"] = *chart.Insecure
		}
		for field, value := range set {
			if err := unstructured.SetNestedField(obj.Object, value, "spec", "helm", "chart", field); err != nil {
				return fmt.Errorf("changing the chart of %s: %w", obj.GetName(), err)
			}
		}
	}
	switch {
	case changed == 0:
		return errors.New("none of the add-ons is a Helm chart: a repository or a version cannot be chosen for manifests")
	case changed > 1 && chart.Version != "":
		return errors.New("--version is that of one chart: install the add-ons one by one")
	}
	return nil
}
