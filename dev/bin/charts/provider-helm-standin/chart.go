package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// load reads the chart from a path, a Helm repository or a registry.
func (m *model) load() (*chart.Chart, error) {
	name, repository := m.Chart.ValueString(), m.Repository.ValueString()
	if registry.IsOCI(repository) {
		name, repository = strings.TrimSuffix(repository, "/")+"/"+name, ""
	}
	options := []registry.ClientOption{registry.ClientOptWriter(io.Discard)}
	if loopback(name) {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("creating a registry client: %w", err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.ChartPathOptions = action.ChartPathOptions{RepoURL: repository, Version: m.Version.ValueString(), PlainHTTP: loopback(name)}
	install.SetRegistryClient(client)
	env := cli.New()
	env.RepositoryCache = filepath.Join(os.TempDir(), "helm-standin")
	env.ContentCache = filepath.Join(env.RepositoryCache, "content")
	path, err := install.LocateChart(name, env)
	if err != nil {
		return nil, fmt.Errorf("finding the chart: %w", err)
	}
	loaded, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	return loaded, nil
}

// loopback reports whether a registry is on this machine. The connection then uses
// plain HTTP, as with container tools.
func loopback(name string) bool {
	u, err := url.Parse(name)
	if err != nil || u.Scheme != registry.OCIScheme {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// values merges the values of the resource: later values take precedence over earlier
// ones, then set.
func (m *model) values() (map[string]any, error) {
	merged := map[string]any{}
	for i, text := range m.Values {
		one := map[string]any{}
		if err := yaml.Unmarshal([]byte(text.ValueString()), &one); err != nil {
			return nil, fmt.Errorf("reading values[%d]: %w", i, err)
		}
		merged = loader.MergeMaps(merged, one)
	}
	for _, a := range m.Set {
		if err := a.into(merged); err != nil {
			return nil, fmt.Errorf("reading set %s: %w", a.Name.ValueString(), err)
		}
	}
	return merged, nil
}

func (a assignment) into(values map[string]any) error {
	text := a.Name.ValueString() + "=" + a.Value.ValueString()
	switch a.Type.ValueString() {
	case "string":
		return strvals.ParseIntoString(text, values)
	case "literal":
		return strvals.ParseLiteralInto(text, values)
	}
	return strvals.ParseInto(text, values)
}
