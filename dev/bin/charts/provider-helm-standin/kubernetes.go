package main

import (
	"errors"
	"fmt"

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
	Kubernetes *connection `tfsdk:"kubernetes"`
}

// connection is the block kubernetes. Every field may be unknown while planning.
type connection struct {
	ClusterCACertificate types.String `tfsdk:"cluster_ca_certificate"`
	ConfigPath           types.String `tfsdk:"config_path"`
	Host                 types.String `tfsdk:"host"`
	Token                types.String `tfsdk:"token"`
}

// helm returns Helm's configuration for a namespace of the cluster.
func (s *settings) helm(namespace string) (*action.Configuration, error) {
	if s == nil || s.Kubernetes == nil {
		return nil, errors.New("the provider is not configured: set kubernetes")
	}
	config, err := s.Kubernetes.clientConfig(namespace)
	if err != nil {
		return nil, err
	}
	h := action.NewConfiguration()
	if err := h.Init(&cluster{config: config}, namespace, ""); err != nil {
		return nil, fmt.Errorf("preparing Helm: %w", err)
	}
	return h, nil
}

func (c *connection) clientConfig(namespace string) (clientcmd.ClientConfig, error) {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: namespace}}
	if path := c.ConfigPath.ValueString(); path != "" {
		loaded, err := clientcmd.LoadFromFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		return clientcmd.NewDefaultClientConfig(*loaded, overrides), nil
	}
	if c.Host.ValueString() == "" {
		return nil, errors.New("the provider has no cluster: set kubernetes.config_path, or host with its credentials")
	}
	const name = "cluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host.ValueString(), CertificateAuthorityData: []byte(c.ClusterCACertificate.ValueString())}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.Token.ValueString()}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.NewDefaultClientConfig(*config, overrides), nil
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
