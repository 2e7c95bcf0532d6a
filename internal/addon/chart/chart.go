// Package chart reads the values and the values schema of a Helm chart from a
// directory, an archive, a Helm repository or an OCI registry, and checks paths
// against them. It does not render templates.
package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// maxName limits the length of the name of a chart.
const maxName = 253

// Chart is a chart with its default values.
type Chart struct {
	// Name and Version are those of Chart.yaml.
	Name, Version string
	// Values are the default values.
	Values map[string]any
	// Schema is the JSON schema of the values, or nil.
	Schema map[string]any
	// Dependencies are the subcharts by the key of their values. A dependency that
	// is declared but not part of the chart is nil.
	Dependencies map[string]*Chart
}

// definition is the relevant part of Chart.yaml.
type definition struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Dependencies []struct {
		Name  string `json:"name"`
		Alias string `json:"alias"`
	} `json:"dependencies"`
}

// files are the files of a chart and its subcharts by their path inside the chart. A subchart is a
// directory, also if it was an archive.
type files map[string][]byte

var errNoChart = errors.New("no Chart.yaml found: give the directory or the .tgz of a chart")

// assemble returns the chart of the given files. The budget is that of all files of a chart with
// its subcharts.
func assemble(contents files, budget *manifest.Budget) (*Chart, error) {
	var d definition
	text, found := contents["Chart.yaml"]
	if !found {
		return nil, errNoChart
	}
	if err := unmarshal(text, &d, budget); err != nil {
		return nil, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	if d.Name == "" {
		return nil, errors.New("file Chart.yaml has no name")
	}
	if len(d.Name) > maxName {
		return nil, fmt.Errorf("the name in Chart.yaml is longer than %d characters", maxName)
	}
	c := &Chart{Name: d.Name, Version: d.Version, Dependencies: map[string]*Chart{}}
	if err := unmarshal(contents["values.yaml"], &c.Values, budget); err != nil {
		return nil, fmt.Errorf("reading values.yaml of chart %s: %w", d.Name, err)
	}
	if schema, found := contents["values.schema.json"]; found {
		if err := budget.CheckJSON(schema); err != nil {
			return nil, fmt.Errorf("reading values.schema.json of chart %s: %w", d.Name, err)
		}
		if err := json.Unmarshal(schema, &c.Schema); err != nil {
			return nil, fmt.Errorf("reading values.schema.json of chart %s: %w", d.Name, err)
		}
	}
	return c, c.addDependencies(d, contents, budget)
}

// unmarshal decodes YAML of a chart or of a repository.
func unmarshal(text []byte, into any, budget *manifest.Budget) error {
	if err := budget.Check(text); err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// addDependencies sets the dependencies from Chart.yaml and from charts/.
func (c *Chart) addDependencies(d definition, contents files, budget *manifest.Budget) error {
	included, err := subcharts(contents, budget)
	if err != nil {
		return fmt.Errorf("reading the subcharts of %s: %w", c.Name, err)
	}
	aliased := map[string]bool{}
	for _, dependency := range d.Dependencies {
		key := dependency.Name
		if dependency.Alias != "" {
			key = dependency.Alias
			aliased[dependency.Name] = true
		}
		c.Dependencies[key] = included[dependency.Name]
	}
	for name, sub := range included {
		if _, known := c.Dependencies[name]; !known && !aliased[name] {
			c.Dependencies[name] = sub
		}
	}
	return nil
}

// subcharts returns the charts in charts/ by name.
func subcharts(contents files, budget *manifest.Budget) (map[string]*Chart, error) {
	directories := map[string]files{}
	for path, data := range contents {
		inside, _ := strings.CutPrefix(path, "charts/")
		directory, rest, isDirectory := strings.Cut(inside, "/")
		if inside == path || !isDirectory {
			continue
		}
		if directories[directory] == nil {
			directories[directory] = files{}
		}
		directories[directory][rest] = data
	}
	found := map[string]*Chart{}
	for _, directory := range slices.Sorted(maps.Keys(directories)) {
		if directories[directory]["Chart.yaml"] == nil {
			continue
		}
		c, err := assemble(directories[directory], budget)
		if err != nil {
			return nil, fmt.Errorf("reading charts/%s: %w", directory, err)
		}
		found[c.Name] = c
	}
	return found, nil
}
