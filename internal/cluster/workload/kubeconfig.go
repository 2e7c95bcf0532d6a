package workload

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// UserKubeconfig is the purpose of the Secret with the kubeconfig for users.
const UserKubeconfig secret.Purpose = "user-kubeconfig"

// CheckKubeconfig returns an error if Cluster API cannot use a kubeconfig, or if it does
// more than name an API server and credentials. It returns the expiry of the client
// certificate or of the token, or the zero time. Its errors contain no secret of the
// kubeconfig.
func CheckKubeconfig(content []byte) (expires time.Time, err error) {
	config, err := parse(content)
	if err != nil {
		return expires, err
	}
	user := config.AuthInfos[name]
	if block, _ := pem.Decode(user.ClientCertificateData); block != nil {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return expires, fmt.Errorf("parsing the client certificate of the kubeconfig: %w", err)
		}
		expires = certificate.NotAfter
	}
	if token := tokenExpiry(user.Token); !token.IsZero() && (expires.IsZero() || token.Before(expires)) {
		expires = token
	}
	return expires, nil
}

// lastExpiry is the last second that timestamps of Kubernetes can express.
var lastExpiry = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// tokenExpiry returns when a JSON Web Token expires, such as that of a ServiceAccount, or the
// zero time if a token does not say so.
func tokenExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 || claims.Expiry > float64(lastExpiry.Unix()) {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}

// Clean returns a kubeconfig with only the API server and the credentials of the current
// context. Otherwise a user who can write the Secret of a kubeconfig could run a program
// in the manager, or have its files sent to another server.
func Clean(content []byte) ([]byte, error) {
	config, err := parse(content)
	if err != nil {
		return nil, err
	}
	cleaned, err := clientcmd.Write(*config)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be encoded")
	}
	return cleaned, nil
}

// maxKubeconfig limits the size of a kubeconfig. Many are decoded at the same time.
const maxKubeconfig = 256 << 10

// name is the name of all parts of a cleaned kubeconfig.
const name = "cluster"

// parse returns the parts of a kubeconfig that are used, each with the name above.
func parse(content []byte) (*clientcmdapi.Config, error) {
	if len(content) > maxKubeconfig {
		return nil, fmt.Errorf("it is not a valid kubeconfig: it is larger than %d KiB", maxKubeconfig>>10)
	}
	if manifest.HasAliases(content) {
		return nil, errors.New("it is not a valid kubeconfig: it has YAML aliases, write their values instead")
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("it is not a valid kubeconfig")
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, errors.New("the kubeconfig has no current-context")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if err := check(cluster, user); err != nil {
		return nil, err
	}
	return &clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: cluster.Server, TLSServerName: cluster.TLSServerName,
			CertificateAuthorityData: cluster.CertificateAuthorityData, InsecureSkipTLSVerify: cluster.InsecureSkipTLSVerify,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			Token: user.Token, Username: user.Username, Password: user.Password,
			ClientCertificateData: user.ClientCertificateData, ClientKeyData: user.ClientKeyData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, nil
}

func check(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	switch {
	case cluster == nil || cluster.Server == "":
		return errors.New("the kubeconfig has no server")
	case user == nil:
		return errors.New("the kubeconfig has no user")
	case user.Exec != nil || user.AuthProvider != nil:
		return errors.New("the kubeconfig runs a program for its credentials, which Cluster API does not allow: use a token or a client certificate")
	case cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
		return errors.New("the kubeconfig refers to files: embed their contents")
	case cluster.ProxyURL != "":
		return errors.New("the kubeconfig has a proxy-url: set the proxy of the manager instead")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0:
		return errors.New("the kubeconfig impersonates another user: use the credentials of that user")
	}
	if server, err := url.Parse(cluster.Server); err != nil || server.Scheme != "https" || server.Host == "" {
		return errors.New("the server of the kubeconfig does not use HTTPS")
	}
	return nil
}

// Reader reads Secrets for connections to workload clusters. It cleans the kubeconfigs.
type Reader struct {
	client.Reader

	// Policy restricts the addresses of API servers. They are checked when a kubeconfig is
	// read, before each new connection.
	Policy *dial.Policy
}

// Get reads an object. It returns an error for a kubeconfig that must not be used.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	found, ok := obj.(*corev1.Secret)
	if !ok || !strings.HasSuffix(key.Name, "-"+string(secret.Kubeconfig)) {
		return nil
	}
	cleaned, err := Clean(found.Data[secret.KubeconfigDataName])
	if err != nil {
		return fmt.Errorf("using Secret %s: %w", key, err)
	}
	if err := r.checkServer(ctx, cleaned); err != nil {
		return fmt.Errorf("using Secret %s: %w", key, err)
	}
	found.Data = map[string][]byte{secret.KubeconfigDataName: cleaned}
	return nil
}

// checkServer returns an error if the address of the API server is denied.
func (r Reader) checkServer(ctx context.Context, kubeconfig []byte) error {
	config, err := parse(kubeconfig)
	if err != nil {
		return err
	}
	server, err := url.Parse(config.Clusters[name].Server)
	if err != nil {
		return errors.New("the server of the kubeconfig is not a URL")
	}
	return r.Policy.CheckHost(ctx, server.Hostname())
}
