// Package chart reads what a Helm chart takes as values: from a directory, an
// archive, a Helm repository or an OCI registry. It renders nothing.
package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// maxArchive is the greatest archive that is read.
	maxArchive = 20 << 20
	// maxFile is the greatest file of a chart that is read.
	maxFile = 4 << 20
	// maxFiles is how many bytes of all its files together are read.
	maxFiles = 64 << 20
	// maxDepth is how deep charts are followed into their own charts.
	maxDepth = 4
)

// Chart is what is known of a chart's values.
type Chart struct {
	// Name and Version are what Chart.yaml says.
	Name, Version string
	// Values are the chart's defaults.
	Values map[string]any
	// Schema is the JSON schema of the values, nil if the chart has none.
	Schema map[string]any
	// Dependencies are the charts it brings along, by the name under which
	// their values stand. A nil one is named but not part of the chart.
	Dependencies map[string]*Chart
}

// definition is the part of Chart.yaml that matters here.
type definition struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Dependencies []struct {
		Name  string `json:"name"`
		Alias string `json:"alias"`
	} `json:"dependencies"`
}

// files are a chart's files by their path inside the chart.
type files map[string][]byte

// assemble makes a chart of its files.
func assemble(contents files, depth int) (*Chart, error) {
	var d definition
	text, found := contents["Chart.yaml"]
	if !found {
		return nil, errors.New("it has no Chart.yaml: give the directory or the .tgz of one chart")
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	if d.Name == "" {
		return nil, errors.New("its Chart.yaml has no name")
	}
	c := &Chart{Name: d.Name, Version: d.Version, Dependencies: map[string]*Chart{}}
	if err := yaml.Unmarshal(contents["values.yaml"], &c.Values); err != nil {
		return nil, fmt.Errorf("reading values.yaml of chart %s: %w", d.Name, err)
	}
	if schema, found := contents["values.schema.json"]; found {
		if err := json.Unmarshal(schema, &c.Schema); err != nil {
			return nil, fmt.Errorf("reading values.schema.json of chart %s: %w", d.Name, err)
		}
	}
	return c, c.takeDependencies(d, contents, depth)
}

// takeDependencies reads the charts under charts/.
func (c *Chart) takeDependencies(d definition, contents files, depth int) error {
	inside := map[string]*Chart{}
	if depth < maxDepth {
		var err error
		if inside, err = subcharts(contents, depth); err != nil {
			return fmt.Errorf("reading the charts inside %s: %w", c.Name, err)
		}
	}
	aliased := map[string]bool{}
	for _, dependency := range d.Dependencies {
		as := dependency.Name
		if dependency.Alias != "" {
			as = dependency.Alias
			aliased[dependency.Name] = true
		}
		c.Dependencies[as] = inside[dependency.Name]
	}
	for name, sub := range inside {
		if _, known := c.Dependencies[name]; !known && !aliased[name] {
			c.Dependencies[name] = sub
		}
	}
	return nil
}

// subcharts are the charts under charts/, as directories or archives, by name.
func subcharts(contents files, depth int) (map[string]*Chart, error) {
	folders := map[string]files{}
	found := map[string]*Chart{}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		inside, ok := strings.CutPrefix(path, "charts/")
		if !ok {
			continue
		}
		folder, rest, isFolder := strings.Cut(inside, "/")
		switch {
		case isFolder && folders[folder] == nil:
			folders[folder] = files{rest: contents[path]}
		case isFolder:
			folders[folder][rest] = contents[path]
		case strings.HasSuffix(inside, ".tgz"):
			c, err := unpack(contents[path], depth+1)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", path, err)
			}
			found[c.Name] = c
		}
	}
	for _, contents := range folders {
		if contents["Chart.yaml"] == nil {
			continue
		}
		c, err := assemble(contents, depth+1)
		if err != nil {
			return nil, err
		}
		found[c.Name] = c
	}
	return found, nil
}
