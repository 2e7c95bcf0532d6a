package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// refuseUnused returns an error for arguments that this stand-in does not support.
func (m *model) refuseUnused() error {
	var unused []string
	for name, set := range map[string]bool{
		"postrender": !m.Postrender.IsNull(), "verify": m.Verify.ValueBool(), "lint": m.Lint.ValueBool(),
		"dependency_update": m.DependencyUpdate.ValueBool(), "recreate_pods": m.RecreatePods.ValueBool(),
	} {
		if set {
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("this stand-in for hashicorp/helm does not support %s: remove it", strings.Join(unused, ", "))
	}
	return nil
}

// load reads the chart from a path, a Helm repository or a registry.
func (m *model) load(ctx context.Context, s *settings) (*chart.Chart, error) {
	name, repository := m.Chart.ValueString(), m.Repository.ValueString()
	if registry.IsOCI(repository) {
		name, repository = strings.TrimSuffix(repository, "/")+"/"+name, ""
	}
	version := m.Version.ValueString()
	if version == "" && m.Devel.ValueBool() {
		version = ">0.0.0-0"
	}
	install := action.NewInstall(action.NewConfiguration())
	install.ChartPathOptions = action.ChartPathOptions{
		RepoURL: repository, Version: version, PlainHTTP: loopback(name), PassCredentialsAll: m.PassCredentials.ValueBool(),
		Username: m.RepositoryUsername.ValueString(), Password: m.RepositoryPassword.ValueString(),
		CaFile: m.RepositoryCAFile.ValueString(), CertFile: m.RepositoryCertFile.ValueString(), KeyFile: m.RepositoryKeyFile.ValueString(),
	}
	client, err := m.registry(ctx, s, name)
	if err != nil {
		return nil, err
	}
	install.SetRegistryClient(client)
	env := cli.New()
	env.RepositoryCache, env.ContentCache = s.cacheDir(), filepath.Join(s.cacheDir(), "content")
	if path := s.RepositoryConfigPath.ValueString(); path != "" {
		env.RepositoryConfig = path
	}
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

// registry returns a client for the registry of a chart's name.
func (m *model) registry(ctx context.Context, s *settings, name string) (*registry.Client, error) {
	options := []registry.ClientOption{registry.ClientOptWriter(io.Discard)}
	if loopback(name) {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	if path := s.RegistryConfigPath.ValueString(); path != "" {
		options = append(options, registry.ClientOptCredentialsFile(path))
	}
	var logins []struct {
		URL      types.String `tfsdk:"url"`
		Username types.String `tfsdk:"username"`
		Password types.String `tfsdk:"password"`
	}
	if diags := s.Registries.ElementsAs(ctx, &logins, false); !s.Registries.IsNull() && diags.HasError() {
		return nil, errors.New("reading the provider's registries: " + diags[0].Detail())
	}
	username, password := m.RepositoryUsername.ValueString(), m.RepositoryPassword.ValueString()
	for _, login := range logins {
		if username == "" && strings.HasPrefix(name, strings.TrimSuffix(login.URL.ValueString(), "/")+"/") {
			username, password = login.Username.ValueString(), login.Password.ValueString()
		}
	}
	if username != "" {
		options = append(options, registry.ClientOptBasicAuth(username, password))
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("creating a registry client: %w", err)
	}
	return client, nil
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
// ones, then set, set_list and set_sensitive.
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
	for _, l := range m.SetList {
		items := make([]string, len(l.Value))
		for i, item := range l.Value {
			items[i] = item.ValueString()
		}
		if err := strvals.ParseInto(l.Name.ValueString()+"={"+strings.Join(items, ",")+"}", merged); err != nil {
			return nil, fmt.Errorf("reading set_list %s: %w", l.Name.ValueString(), err)
		}
	}
	for _, a := range m.SetSensitive {
		if err := a.into(merged); err != nil {
			return nil, fmt.Errorf("reading set_sensitive %s: %w", a.Name.ValueString(), err)
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
