package aws

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is the address and the certificate authority of an API server.
type Cluster struct {
	Name string
	// Endpoint is the address, with or without https://.
	Endpoint string
	// CA is the certificate authority as PEM, or as base64 of PEM as EKS returns it.
	CA string
}

// TokenKubeconfig returns a kubeconfig that contains the token, as Cluster API
// requires. It is as secret as the token.
func TokenKubeconfig(cluster Cluster, token Token) ([]byte, error) {
	if token.Value.IsZero() {
		return nil, invalid("kubeconfig of %s: the token is empty", cluster.Name)
	}
	return kubeconfig(cluster, &clientcmdapi.AuthInfo{Token: token.Value.Reveal()})
}

// UserKubeconfig returns a kubeconfig for users, who sign in with their own
// credentials. It contains no secret and names no role: CAPT's role is an
// administrator of the account, which users do not need and should not assume.
func UserKubeconfig(cluster Cluster, region string) ([]byte, error) {
	if region == "" {
		return nil, invalid("kubeconfig of %s: the region is not set", cluster.Name)
	}
	args := []string{"eks", "get-token", "--cluster-name", cluster.Name, "--region", region, "--output", "json"}
	return kubeconfig(cluster, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1beta1",
		Command:         "aws",
		Args:            args,
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		InstallHint:     "This kubeconfig requires version 2 of the AWS CLI. Install it: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
	}})
}

func kubeconfig(cluster Cluster, user *clientcmdapi.AuthInfo) ([]byte, error) {
	if cluster.Name == "" {
		return nil, invalid("kubeconfig: the cluster has no name")
	}
	server, err := serverURL(cluster.Endpoint)
	if err != nil {
		return nil, invalid("kubeconfig of %s: %v", cluster.Name, err)
	}
	ca, err := caPEM(cluster.CA)
	if err != nil {
		return nil, invalid("kubeconfig of %s: %v", cluster.Name, err)
	}
	content := clientcmdapi.NewConfig()
	content.Clusters[cluster.Name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	content.AuthInfos[cluster.Name] = user
	content.Contexts[cluster.Name] = &clientcmdapi.Context{Cluster: cluster.Name, AuthInfo: cluster.Name}
	content.CurrentContext = cluster.Name
	text, err := clientcmd.Write(*content)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of %s: %w", cluster.Name, err)
	}
	return text, nil
}

func serverURL(endpoint string) (string, error) {
	if endpoint == "" {
		return "", errors.New("the endpoint is empty")
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("the endpoint must be an address such as https://example.eks.amazonaws.com")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

func caPEM(ca string) ([]byte, error) {
	content := []byte(strings.TrimSpace(ca))
	if decoded, err := base64.StdEncoding.DecodeString(string(content)); err == nil {
		content = decoded
	}
	if block, _ := pem.Decode(content); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the certificate authority is neither a PEM certificate nor one in base64")
	}
	return content, nil
}
