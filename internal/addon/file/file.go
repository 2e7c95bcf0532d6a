// Package file finds and reads the files of installable add-ons. Such a file
// holds CAPTAddons and the objects that they need.
package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/message"
)

// extension is the file name extension of an add-on.
const extension = ".yaml"

// Directories returns the directories to search for built-in add-ons: the given
// one, or else $CAPT_ADDONS and the directory addons beside the program.
func Directories(given string) []string {
	if given != "" {
		return []string{given}
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

// Names returns the names of the built-in add-ons in the directories.
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

// Find returns the path of an add-on, which is given by its path or by the name
// of a built-in add-on.
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
	if len(known) == 0 {
		return "", fmt.Errorf("no built-in add-ons in %s: create them with `make addons`, or set their directory with --from or $CAPT_ADDONS", strings.Join(dirs, " or "))
	}
	if suggestion := message.Suggestion(name, known); suggestion != "" {
		return "", fmt.Errorf("unknown add-on %q%s", name, suggestion)
	}
	return "", fmt.Errorf("unknown add-on %q: the built-in add-ons are %s", name, strings.Join(known, ", "))
}

// Read returns the objects of a file. The CAPTAddons come last, after the objects
// that they need.
func Read(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading an add-on: %w", err)
	}
	objects, err := manifest.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !slices.ContainsFunc(objects, IsAddon) {
		return nil, fmt.Errorf("%s has no CAPTAddon: use kubectl apply for other objects", path)
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

// IsAddon reports whether an object is a CAPTAddon.
func IsAddon(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "CAPTAddon" && obj.GroupVersionKind().Group == addonsv1.GroupVersion.Group
}

// Chart overrides the chart of add-ons. Empty fields override nothing.
type Chart struct {
	Repository string
	Version    string
	Insecure   *bool
}

// OverrideChart sets the chart of all add-ons among the objects that install one.
// A version can be set for a single chart only.
func OverrideChart(objects []*unstructured.Unstructured, chart Chart) error {
	if chart == (Chart{}) {
		return nil
	}
	overrides := map[string]any{}
	if chart.Repository != "" {
		overrides["repository"] = chart.Repository
	}
	if chart.Version != "" {
		overrides["version"] = chart.Version
	}
	if chart.Insecure != nil {
		overrides["insecure"] = *chart.Insecure
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
		for field, value := range overrides {
			if err := unstructured.SetNestedField(obj.Object, value, "spec", "helm", "chart", field); err != nil {
				return fmt.Errorf("changing the chart of %s: %w", obj.GetName(), err)
			}
		}
	}
	switch {
	case changed == 0:
		return errors.New("none of the add-ons is a Helm chart: --chart-repository, --version and --insecure apply to charts only")
	case changed > 1 && chart.Version != "":
		return errors.New("--version applies to one chart: install the add-ons one by one")
	}
	return nil
}
