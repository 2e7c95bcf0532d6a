// Package flavor lists cluster templates and replaces their variables, like
// clusterctl.
package flavor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/appthrust/capt/flavors"
	"github.com/appthrust/capt/internal/message"
)

// Default is the default flavor.
const Default = "eks"

const (
	prefix = "cluster-template"
	suffix = ".yaml"
)

// Names returns the names of the flavors, sorted.
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

// Template returns the template of a flavor.
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
			return nil, fmt.Errorf("unknown flavor %s: did you mean %s?", name, nearest)
		}
		return nil, fmt.Errorf("unknown flavor %s: use one of %s", name, strings.Join(names, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("reading flavor %s: %w", name, err)
	}
	return text, nil
}

// Variable is a variable of a template.
type Variable struct {
	Name string `json:"name"`
	// Default is nil if the variable is required.
	Default *string `json:"default,omitempty"`
}

// Variables returns the variables of a template, the required ones first.
func Variables(template []byte) ([]Variable, error) {
	found, err := yamlprocessor.NewSimpleProcessor().GetVariableMap(template)
	if err != nil {
		return nil, fmt.Errorf("reading the variables of the template: %w", err)
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

// Fill replaces the variables of a template. A value comes from given, else from
// lookup, such as os.LookupEnv, else it is the default.
func Fill(template []byte, given map[string]string, lookup func(string) (string, bool)) ([]byte, error) {
	variables, err := Variables(template)
	if err != nil {
		return nil, err
	}
	valueOf := func(name string) (string, bool) {
		if value, found := given[name]; found {
			return value, true
		}
		return lookup(name)
	}
	valueOf = withoutNetworks(variables, valueOf)
	var known, missing []string
	for _, v := range variables {
		known = append(known, v.Name)
		value, found := valueOf(v.Name)
		if v.Default == nil && (!found || value == "" && !isList(template, v.Name)) {
			missing = append(missing, v.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) || slices.Contains(common, name) {
			continue
		}
		if nearest, found := message.Nearest(name, known); found {
			return nil, fmt.Errorf("the template has no variable %s: did you mean %s?", name, nearest)
		}
		return nil, fmt.Errorf("the template has no variable %s: it has %s", name, strings.Join(known, ", "))
	}
	if len(missing) > 0 {
		return nil, missingValues(missing)
	}
	if err := checkEndpoint(variables, valueOf); err != nil {
		return nil, err
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		if value, found := valueOf(name); found {
			return value, nil
		}
		return "", fmt.Errorf("variable %s has no value", name)
	})
	if err != nil {
		return nil, fmt.Errorf("filling the template: %w", err)
	}
	return filled, nil
}

// isList reports whether a variable is used only as the elements of a list, which may be
// empty.
func isList(template []byte, name string) bool {
	variable := []byte("${" + name + "}")
	return bytes.Count(template, variable) == bytes.Count(template, slices.Concat([]byte("["), variable, []byte("]")))
}

// missingValues returns the error for variables without a value.
func missingValues(names []string) error {
	var flags []string
	for _, name := range names {
		value := "VALUE"
		if strings.Contains(name, "CIDR") {
			value = "203.0.113.0/24"
		}
		flags = append(flags, "--set "+name+"="+value)
	}
	return fmt.Errorf("no value for %s: pass %s, or set environment variables", strings.Join(names, ", "), strings.Join(flags, " "))
}

// The variables that arguments and flags of captctl set.
const (
	ClusterName       = "CLUSTER_NAME"
	Namespace         = "NAMESPACE"
	KubernetesVersion = "KUBERNETES_VERSION"
	WorkerCount       = "WORKER_MACHINE_COUNT"
)

// common are the variables that may be given to a template that does not use them.
var common = []string{ClusterName, Namespace, KubernetesVersion, WorkerCount}

// The variables of the endpoint of a control plane.
const publicAccess, publicCIDRs = "ENDPOINT_PUBLIC_ACCESS", "ENDPOINT_PUBLIC_CIDRS"

// withoutNetworks returns values that have no networks for a private endpoint, unless they are
// given.
func withoutNetworks(variables []Variable, valueOf func(name string) (string, bool)) func(name string) (string, bool) {
	access, _ := valueOf(publicAccess)
	isPrivate := access == "false" && slices.ContainsFunc(variables, func(v Variable) bool { return v.Name == publicAccess })
	return func(name string) (string, bool) {
		value, found := valueOf(name)
		return value, found || isPrivate && name == publicCIDRs
	}
}

// checkEndpoint returns an error for a public endpoint without networks, which EKS opens to
// every address, for networks of a private one, and for values that are neither. Flavors without
// publicAccess derive it from the networks.
func checkEndpoint(variables []Variable, valueOf func(name string) (string, bool)) error {
	access, networks := "", ""
	for _, v := range variables {
		value, found := valueOf(v.Name)
		if !found && v.Default != nil {
			value = *v.Default
		}
		switch v.Name {
		case publicAccess:
			if access = value; access != "true" && access != "false" {
				return fmt.Errorf("%s is %q: write true or false", publicAccess, access)
			}
		case publicCIDRs:
			networks = strings.TrimSpace(value)
			if err := checkNetworks(networks); err != nil {
				return err
			}
		}
	}
	switch {
	case access == "true" && networks == "":
		return fmt.Errorf("%[1]s is empty, but %[2]s is true: pass --set %[1]s=203.0.113.0/24 with the networks that may reach the API server, or --set %[2]s=false for a private endpoint", publicCIDRs, publicAccess)
	case access == "false" && networks != "":
		return fmt.Errorf("%[2]s is false, but %[1]s has networks: pass --set %[1]s= for a private endpoint", publicCIDRs, publicAccess)
	default:
		return nil
	}
}

// checkNetworks returns an error for the first element of a list that is not a network.
func checkNetworks(list string) error {
	if list == "" {
		return nil
	}
	for element := range strings.SplitSeq(list, ",") {
		network := strings.Trim(element, ` "'`)
		if _, err := netip.ParsePrefix(network); err != nil {
			return fmt.Errorf("%s has %q, which is not a network: write for example 203.0.113.0/24,198.51.100.7/32", publicCIDRs, network)
		}
	}
	return nil
}
