package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// extension is the part of a kubeconfig that tells which directory the cluster
// is from.
const extension = "localcluster"

type origin struct {
	Directory string `json:"directory"`
}

// writeKubeconfig writes how an administrator reaches the API server, with
// everything inside: it may be carried elsewhere.
func (l layout) writeKubeconfig(name, endpoint string) error {
	authority, err := os.ReadFile(l.pki(clusterAuthority + ".crt"))
	if err != nil {
		return fmt.Errorf("reading the authority: %w", err)
	}
	cert, err := os.ReadFile(l.pki(adminPair + ".crt"))
	if err != nil {
		return fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	key, err := os.ReadFile(l.pki(adminPair + ".key"))
	if err != nil {
		return fmt.Errorf("reading the administrator's key: %w", err)
	}
	from, err := json.Marshal(origin{Directory: string(l)})
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	user := name + "-admin"
	content, err := yaml.Marshal(clientcmdv1.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []clientcmdv1.NamedCluster{{Name: name, Cluster: clientcmdv1.Cluster{
			Server: endpoint, CertificateAuthorityData: authority,
			Extensions: []clientcmdv1.NamedExtension{{Name: extension, Extension: runtime.RawExtension{Raw: from}}},
		}}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{Name: user, AuthInfo: clientcmdv1.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}}},
		Contexts:  []clientcmdv1.NamedContext{{Name: name, Context: clientcmdv1.Context{Cluster: name, AuthInfo: user}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return errors.Join(
		writeFile(l.kubeconfig(), content, 0o600),
		writeFile(l.endpoint(), []byte(endpoint+"\n"), 0o644),
	)
}

// Presence is what this machine knows of a cluster.
type Presence int

const (
	// Foreign is a cluster that was not made here.
	Foreign Presence = iota
	// Gone is a cluster of this machine that nobody keeps alive.
	Gone
	// Kept is a cluster of this machine that is kept alive, even if its API
	// server is just being started again.
	Kept
)

// Find tells what this machine knows of the cluster of a kubeconfig.
func Find(kubeconfig []byte) Presence {
	var config clientcmdv1.Config
	if err := yaml.Unmarshal(kubeconfig, &config); err != nil {
		return Foreign
	}
	for _, cluster := range config.Clusters {
		for _, named := range cluster.Cluster.Extensions {
			var from origin
			if named.Name == extension && json.Unmarshal(named.Extension.Raw, &from) == nil && from.Directory != "" {
				return layout(from.Directory).presence(cluster.Cluster.Server)
			}
		}
	}
	return Foreign
}

// presence tells whether a supervisor keeps an API server at the endpoint.
func (l layout) presence(endpoint string) Presence {
	now, err := os.ReadFile(l.endpoint())
	if err != nil || strings.TrimSpace(string(now)) != endpoint {
		return Gone
	}
	if running, err := isHeld(l.supervisorLock()); err != nil || !running {
		return Gone
	}
	return Kept
}

// client trusts both authorities and shows a certificate to each: it serves to
// ask the parts whether they are ready.
func (l layout) client(timeout time.Duration) (*http.Client, error) {
	trusted := x509.NewCertPool()
	var pairs []tls.Certificate
	for authority, pair := range map[string]string{clusterAuthority: adminPair, etcdAuthority: etcdClientPair} {
		content, err := os.ReadFile(l.pki(authority + ".crt"))
		if err != nil {
			return nil, fmt.Errorf("reading an authority: %w", err)
		}
		trusted.AppendCertsFromPEM(content)
		cert, err := tls.LoadX509KeyPair(l.pki(pair+".crt"), l.pki(pair+".key"))
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		pairs = append(pairs, cert)
	}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		// A kept connection would outlive the part that it leads to.
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: trusted, Certificates: pairs, MinVersion: tls.VersionTLS12},
	}}, nil
}
