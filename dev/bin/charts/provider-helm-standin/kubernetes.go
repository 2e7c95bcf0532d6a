package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"helm.sh/helm/v4/pkg/action"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// settings are the arguments of a provider block.
type settings struct {
	BurstLimit           types.Int64   `tfsdk:"burst_limit"`
	Debug                types.Bool    `tfsdk:"debug"`
	HelmDriver           types.String  `tfsdk:"helm_driver"`
	PluginsPath          types.String  `tfsdk:"plugins_path"`
	QPS                  types.Float64 `tfsdk:"qps"`
	RegistryConfigPath   types.String  `tfsdk:"registry_config_path"`
	RepositoryCache      types.String  `tfsdk:"repository_cache"`
	RepositoryConfigPath types.String  `tfsdk:"repository_config_path"`
	Experiments          types.Object  `tfsdk:"experiments"`
	Registries           types.List    `tfsdk:"registries"`
	Kubernetes           *connection   `tfsdk:"kubernetes"`
}

// connection is the block kubernetes. Every field may be unknown while planning.
type connection struct {
	ClientCertificate     types.String `tfsdk:"client_certificate"`
	ClientKey             types.String `tfsdk:"client_key"`
	ClusterCACertificate  types.String `tfsdk:"cluster_ca_certificate"`
	ConfigContext         types.String `tfsdk:"config_context"`
	ConfigContextAuthInfo types.String `tfsdk:"config_context_auth_info"`
	ConfigContextCluster  types.String `tfsdk:"config_context_cluster"`
	ConfigPath            types.String `tfsdk:"config_path"`
	ConfigPaths           types.List   `tfsdk:"config_paths"`
	Host                  types.String `tfsdk:"host"`
	Insecure              types.Bool   `tfsdk:"insecure"`
	Password              types.String `tfsdk:"password"`
	ProxyURL              types.String `tfsdk:"proxy_url"`
	TLSServerName         types.String `tfsdk:"tls_server_name"`
	Token                 types.String `tfsdk:"token"`
	Username              types.String `tfsdk:"username"`
	Exec                  *execPlugin  `tfsdk:"exec"`
}

type execPlugin struct {
	APIVersion types.String            `tfsdk:"api_version"`
	Command    types.String            `tfsdk:"command"`
	Args       []types.String          `tfsdk:"args"`
	Env        map[string]types.String `tfsdk:"env"`
}

// helm returns Helm's configuration for a namespace of the cluster.
func (s *settings) helm(namespace string) (*action.Configuration, error) {
	if s == nil {
		return nil, errors.New("the provider is not configured")
	}
	config, err := s.clientConfig(namespace)
	if err != nil {
		return nil, err
	}
	h := action.NewConfiguration()
	if err := h.Init(&cluster{config: config}, namespace, s.HelmDriver.ValueString()); err != nil {
		return nil, fmt.Errorf("preparing Helm: %w", err)
	}
	return h, nil
}

// clientConfig merges the kubeconfig files with the other settings.
func (s *settings) clientConfig(namespace string) (clientcmd.ClientConfig, error) {
	c := s.Kubernetes
	if c == nil {
		c = &connection{}
	}
	rules := &clientcmd.ClientConfigLoadingRules{}
	for _, element := range c.ConfigPaths.Elements() {
		if path, ok := element.(types.String); ok {
			rules.Precedence = append(rules.Precedence, path.ValueString())
		}
	}
	if path := c.ConfigPath.ValueString(); path != "" {
		rules.ExplicitPath = path
	} else if path := os.Getenv("KUBE_CONFIG_PATH"); path != "" && len(rules.Precedence) == 0 {
		rules.ExplicitPath = path
	}
	loaded, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	overrides := c.overrides(namespace)
	if len(loaded.Clusters) == 0 && overrides.ClusterInfo.Server == "" {
		return nil, errors.New("the provider has no cluster: set kubernetes.config_path, or host with its credentials")
	}
	if len(loaded.Contexts) == 0 {
		// Overrides alone create no context, and without a context they are ignored.
		loaded.Clusters["cluster"] = &overrides.ClusterInfo
		loaded.AuthInfos["user"] = &overrides.AuthInfo
		loaded.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user", Namespace: namespace}
		loaded.CurrentContext = "context"
		return clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}), nil
	}
	return clientcmd.NewDefaultClientConfig(*loaded, overrides), nil
}

func (c *connection) overrides(namespace string) *clientcmd.ConfigOverrides {
	o := &clientcmd.ConfigOverrides{CurrentContext: c.ConfigContext.ValueString()}
	o.Context = clientcmdapi.Context{
		Namespace: namespace, AuthInfo: c.ConfigContextAuthInfo.ValueString(), Cluster: c.ConfigContextCluster.ValueString(),
	}
	o.ClusterInfo = clientcmdapi.Cluster{
		Server: c.Host.ValueString(), TLSServerName: c.TLSServerName.ValueString(), InsecureSkipTLSVerify: c.Insecure.ValueBool(),
		CertificateAuthorityData: []byte(c.ClusterCACertificate.ValueString()), ProxyURL: c.ProxyURL.ValueString(),
	}
	o.AuthInfo = clientcmdapi.AuthInfo{
		ClientCertificateData: []byte(c.ClientCertificate.ValueString()), ClientKeyData: []byte(c.ClientKey.ValueString()),
		Token: c.Token.ValueString(), Username: c.Username.ValueString(), Password: c.Password.ValueString(),
	}
	if e := c.Exec; e != nil {
		plugin := &clientcmdapi.ExecConfig{
			APIVersion: e.APIVersion.ValueString(), Command: e.Command.ValueString(), InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
		for _, arg := range e.Args {
			plugin.Args = append(plugin.Args, arg.ValueString())
		}
		for name, value := range e.Env {
			plugin.Env = append(plugin.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value.ValueString()})
		}
		o.AuthInfo.Exec = plugin
	}
	return o
}

// cluster is the connection of Helm to an API server.
type cluster struct{ config clientcmd.ClientConfig }

func (c *cluster) ToRESTConfig() (*rest.Config, error) {
	config, err := c.config.ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return config, nil
}

func (c *cluster) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	config, err := c.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

func (c *cluster) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := c.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(client), nil
}

func (c *cluster) ToRawKubeConfigLoader() clientcmd.ClientConfig { return c.config }

// cacheDir is the directory of downloaded charts.
func (s *settings) cacheDir() string {
	if dir := s.RepositoryCache.ValueString(); dir != "" {
		return dir
	}
	return filepath.Join(os.TempDir(), "helm-standin")
}
