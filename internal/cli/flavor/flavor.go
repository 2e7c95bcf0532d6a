// Package flavor fills the templates of clusters, as clusterctl does.
package flavor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/appthrust/capt/flavors"
	"github.com/appthrust/capt/internal/message"
)

// Default is the flavor that is taken when none is named.
const Default = "eks"

const (
	prefix = "cluster-template"
	suffix = ".yaml"
)

// Names are the flavors, in order.
func Names() ([]string, error) {
	files, err := fs.Glob(flavors.Files, prefix+"*"+suffix)
	if err != nil {
		return nil, fmt.Errorf("reading the flavors: %w", err)
	}
	var names []string
	for _, file := range files {
		name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(file, prefix), suffix), "-")
		if name == "" {
			name = Default
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Template is the template of a flavor.
func Template(name string) ([]byte, error) {
	file := prefix + "-" + name + suffix
	if name == Default || name == "" {
		file = prefix + suffix
	}
	text, err := flavors.Files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		names, err := Names()
		if err != nil {
			return nil, err
		}
		if nearest, found := message.Nearest(name, names); found {
			return nil, fmt.Errorf("there is no flavor %s: did you mean %s?", name, nearest)
		}
		return nil, fmt.Errorf("there is no flavor %s: write one of %s", name, strings.Join(names, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("reading flavor %s: %w", name, err)
	}
	return text, nil
}

// Variable is a variable of a template.
type Variable struct {
	Name string `json:"name"`
	// Default is nil for a variable that must be given.
	Default *string `json:"default,omitempty"`
}

// Variables are the variables of a template, those that must be given first.
func Variables(template []byte) ([]Variable, error) {
	found, err := yamlprocessor.NewSimpleProcessor().GetVariableMap(template)
	if err != nil {
		return nil, fmt.Errorf("reading the template's variables: %w", err)
	}
	var required, optional []Variable
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] == nil {
			required = append(required, Variable{Name: name})
		} else {
			optional = append(optional, Variable{Name: name, Default: found[name]})
		}
	}
	return append(required, optional...), nil
}

// Fill fills a template. Values are looked up in the given ones, then by
// lookup, as in the environment.
func Fill(template []byte, given map[string]string, lookup func(string) (string, bool)) ([]byte, error) {
	variables, err := Variables(template)
	if err != nil {
		return nil, err
	}
	var known, missing []string
	for _, v := range variables {
		known = append(known, v.Name)
		_, isGiven := given[v.Name]
		if _, found := lookup(v.Name); !isGiven && !found && v.Default == nil {
			missing = append(missing, v.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) || slices.Contains(implied, name) {
			continue
		}
		if nearest, found := message.Nearest(name, known); found {
			return nil, fmt.Errorf("the template has no variable %s: did you mean %s?", name, nearest)
		}
		return nil, fmt.Errorf("the template has no variable %s: it has %s", name, strings.Join(known, ", "))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no value for %s: give it by --set %s=VALUE, or in the environment", strings.Join(missing, ", "), missing[0])
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		if value, found := given[name]; found {
			return value, nil
		}
		if value, found := lookup(name); found {
			return value, nil
		}
		return "", fmt.Errorf("no value for %s", name)
	})
	if err != nil {
		return nil, fmt.Errorf("filling the template: %w", err)
	}
	return filled, nil
}

// The variables that every template may use and that arguments and flags give.
const (
	ClusterName       = "CLUSTER_NAME"
	Namespace         = "NAMESPACE"
	KubernetesVersion = "KUBERNETES_VERSION"
	WorkerCount       = "WORKER_MACHINE_COUNT"
)

// implied may be given to templates that do not use them.
var implied = []string{ClusterName, Namespace, KubernetesVersion, WorkerCount}
