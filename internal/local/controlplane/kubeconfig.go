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

	"github.com/appthrust/capt/internal/host"
)

// extension is the name of a kubeconfig extension that contains the directory of the
// cluster.
const extension = "localcluster"

type origin struct {
	Directory string `json:"directory"`
}

// writeKubeconfig writes an administrator's kubeconfig. It contains the certificates,
// so the file can be copied elsewhere.
func (l layout) writeKubeconfig(name, endpoint string) error {
	ca, err := os.ReadFile(l.pki(clusterCA + ".crt"))
	if err != nil {
		return fmt.Errorf("reading the CA certificate: %w", err)
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
			Server: endpoint, CertificateAuthorityData: ca,
			Extensions: []clientcmdv1.NamedExtension{{Name: extension, Extension: runtime.RawExtension{Raw: from}}},
		}}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{Name: user, AuthInfo: clientcmdv1.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}}},
		Contexts:  []clientcmdv1.NamedContext{{Name: name, Context: clientcmdv1.Context{Cluster: name, AuthInfo: user}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return errors.Join(
		host.WriteFile(l.kubeconfig(), content, 0o600),
		host.WriteFile(l.endpoint(), []byte(endpoint+"\n"), 0o644),
	)
}

// State is what this machine knows about the cluster of a kubeconfig.
type State int

const (
	// Unknown is the state of a cluster that does not run on this machine.
	Unknown State = iota
	// Stopped is the state of a cluster of this machine without a supervisor.
	Stopped
	// Supervised is the state of a cluster of this machine with a supervisor. Its
	// API server may be restarting.
	Supervised
)

// StateOf returns the state of the cluster of a kubeconfig.
func StateOf(kubeconfig []byte) State {
	var config clientcmdv1.Config
	if err := yaml.Unmarshal(kubeconfig, &config); err != nil {
		return Unknown
	}
	for _, cluster := range config.Clusters {
		for _, named := range cluster.Cluster.Extensions {
			var from origin
			if named.Name == extension && json.Unmarshal(named.Extension.Raw, &from) == nil && from.Directory != "" {
				return layout(from.Directory).state(cluster.Cluster.Server)
			}
		}
	}
	return Unknown
}

// state returns whether a supervisor runs an API server at the endpoint.
func (l layout) state(endpoint string) State {
	current, err := os.ReadFile(l.endpoint())
	if err != nil || strings.TrimSpace(string(current)) != endpoint {
		return Stopped
	}
	if running, err := host.IsLocked(l.supervisorLock()); err != nil || !running {
		return Stopped
	}
	return Supervised
}

// client returns an HTTP client that checks whether the parts are ready. It trusts
// both CAs and has a client certificate for each.
func (l layout) client(timeout time.Duration) (*http.Client, error) {
	trusted := x509.NewCertPool()
	var pairs []tls.Certificate
	for ca, pair := range map[string]string{clusterCA: adminPair, etcdCA: etcdClientPair} {
		content, err := os.ReadFile(l.pki(ca + ".crt"))
		if err != nil {
			return nil, fmt.Errorf("reading a CA certificate: %w", err)
		}
		trusted.AppendCertsFromPEM(content)
		cert, err := tls.LoadX509KeyPair(l.pki(pair+".crt"), l.pki(pair+".key"))
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		pairs = append(pairs, cert)
	}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		// An idle connection would outlive the part it leads to.
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: trusted, Certificates: pairs, MinVersion: tls.VersionTLS12},
	}}, nil
}
