package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

const addonsDir = "../../../addons"

// addon is what the tests read of a CAPTAddon.
type addon struct {
	Metadata struct{ Name string }
	Spec     struct {
		Helm *struct {
			Namespace string
			Chart     struct{ Name, Version string }
			Values    map[string]any
			// ValuesFrom are Terraform's outputs.
			ValuesFrom []struct{ ValuesKey, TargetPath string }
		}
	}
}

func builtIn(t *testing.T, name string) addon {
	t.Helper()
	var a addon
	read(t, filepath.Join(addonsDir, name+".yaml"), &a)
	if a.Spec.Helm == nil {
		t.Fatalf("%s is not a Helm release", name)
	}
	return a
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// Every version of a chart uses the values of its add-on, so that an upgrade or a
// rollback needs no other paths, and each output is in a manifest.
func TestCharts_useTheOutputsOfTheirAddons(t *testing.T) {
	for _, s := range sources {
		t.Run(s.name+" "+s.version, func(t *testing.T) {
			archive, err := pack(t.Context(), s, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			c, err := loader.LoadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			a := builtIn(t, s.name)
			values := a.Spec.Helm.Values
			if values == nil {
				values = map[string]any{}
			}
			for _, from := range a.Spec.Helm.ValuesFrom {
				if !known(c.Values, segments(from.TargetPath)) {
					t.Errorf("values.yaml has no %s", from.TargetPath)
				}
				if err := strvals.ParseLiteralInto(from.TargetPath+"="+marker(from.ValuesKey), values); err != nil {
					t.Fatal(err)
				}
			}
			text := render(t, c, a.Spec.Helm.Namespace, values)
			for _, from := range a.Spec.Helm.ValuesFrom {
				if !strings.Contains(text, marker(from.ValuesKey)) {
					t.Errorf("%s is not in any manifest", from.ValuesKey)
				}
			}
		})
	}
}

func TestCharts_includeTheVersionOfEachAddon(t *testing.T) {
	for _, name := range []string{"karpenter", "aws-load-balancer-controller"} {
		want := builtIn(t, name).Spec.Helm.Chart
		found := false
		for _, s := range sources {
			if s.name == want.Name {
				root, err := moduleDir(t.Context(), s.module, s.version)
				if err != nil {
					t.Fatal(err)
				}
				c, err := load(root, s)
				if err != nil {
					t.Fatal(err)
				}
				found = found || c.Metadata.Version == want.Version
			}
		}
		if !found {
			t.Errorf("%s %s is not packed", want.Name, want.Version)
		}
	}
}

// The version matrix has the Kubernetes versions that each release of Karpenter
// declares.
func TestMatrix_matchesKarpentersOwnRange(t *testing.T) {
	var matrix struct {
		Components []struct {
			Name string
			Rows []struct {
				From, Until string
				Kubernetes  struct{ Min, Max string }
			}
		}
	}
	read(t, filepath.Join(addonsDir, "versions.yaml"), &matrix)
	says := regexp.MustCompile(`(Min|Max)K8sVersion\s+= "([0-9.]+)"`)
	for _, s := range sources {
		if s.name != "karpenter" {
			continue
		}
		root, err := moduleDir(t.Context(), s.module, s.version)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(root, "pkg", "providers", "version", "version.go"))
		if err != nil {
			t.Fatal(err)
		}
		itself := map[string]string{}
		for _, found := range says.FindAllStringSubmatch(string(text), -1) {
			itself[found[1]] = found[2]
		}
		rows := 0
		for _, c := range matrix.Components {
			for _, r := range c.Rows {
				if c.Name != "karpenter" || !within(s.release, r.From, r.Until) {
					continue
				}
				rows++
				if r.Kubernetes.Min != itself["Min"] || r.Kubernetes.Max != itself["Max"] {
					t.Errorf("Karpenter %s supports %s to %s, but the matrix has %s to %s", s.release, itself["Min"], itself["Max"], r.Kubernetes.Min, r.Kubernetes.Max)
				}
			}
		}
		if rows != 1 {
			t.Errorf("Karpenter %s is in %d rows of the matrix", s.release, rows)
		}
	}
}

func within(version, from, until string) bool {
	v := semver.MustParse(version)
	return !v.LessThan(semver.MustParse(from)) && v.LessThan(semver.MustParse(until))
}

// marker returns a unique value.
func marker(key string) string { return "value-of-" + strings.ReplaceAll(key, "_", "-") }

// segments splits a path at the dots that are not escaped.
func segments(path string) []string {
	parts := strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", ".")
	}
	return parts
}

// known reports whether values have a path. An empty map has every key.
func known(values map[string]any, path []string) bool {
	next, ok := values[path[0]]
	if !ok {
		return len(values) == 0
	}
	if len(path) == 1 {
		return true
	}
	inner, ok := next.(map[string]any)
	return ok && known(inner, path[1:])
}

func render(t *testing.T, c *chart.Chart, namespace string, values map[string]any) string {
	t.Helper()
	options := common.ReleaseOptions{Name: c.Name(), Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, options, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		text.WriteString(file)
	}
	return text.String()
}
